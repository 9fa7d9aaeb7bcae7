"""Durations: what people write, and what costs nothing although somebody writes it."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest

import holdfast as hf
from holdfast.duration import LONGEST_TEXT_CHARACTERS, checked_wait, milliseconds, seconds


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("1h30m", 5400.0),
        (" 1 h 30 m ", 5400.0),
        ("250ms", 0.25),
        ("1.5d", 129_600.0),
        ("1s" * 50, 50.0),
        (2, 2.0),
        (timedelta(weeks=1), 604_800.0),
    ],
)
def test_a_duration_is_written_as_people_do(given, expected):
    assert seconds(given) == expected


HOSTILE = [
    "9" * 8_000,
    "9" * 1_000_000,
    "1" * 4_000 + "." + "1" * 4_000,
    " " * 100_000 + "s",
    "1s" * 100_000 + "x",
    "1" * (LONGEST_TEXT_CHARACTERS - 1) + "w",
    "٣s",
    "",
    "1s1",
    10**5_000,
    -(10**5_000),
    float("nan"),
    float("inf"),
]


@pytest.mark.parametrize("given", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_duration_is_refused_at_once_and_told_in_short(given):
    began = time.process_time()
    with pytest.raises(hf.InvalidInput) as refused:
        milliseconds(given)
    assert time.process_time() - began < 0.1
    assert len(str(refused.value)) < 200


def test_a_wait_of_thousands_of_digits_is_refused_by_name():
    with pytest.raises(hf.InvalidInput, match="at most 366,000 days"):
        checked_wait(10**5_000)
