"""``benchmarks/aws.json`` has every row, and the page says the same and explains each miss."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from benchmarks.aws import AIMS, AT_LEAST, RESULTS, met

PAGE = Path(__file__).parents[2] / "docs" / "cost.md"


def rows() -> dict[str, Any]:
    return {each["name"]: each for each in json.loads(RESULTS.read_text(encoding="utf-8"))["rows"]}


def section() -> str:
    return PAGE.read_text(encoding="utf-8").partition("## Metered on the path of a function")[2].partition("\n## ")[0]


def test_every_row_is_there_and_says_whether_its_aim_is_met() -> None:
    found = rows()
    assert AIMS.keys() <= found.keys()
    for name, aim in AIMS.items():
        assert (found[name]["aim"], found[name]["met"]) == (aim, met(**found[name])), name
    assert {"offered", "seconds", "p99_seconds", "errors", "lost", "load"} <= found[
        "events per second of one app"
    ].keys()


@pytest.mark.parametrize(
    ("value", "p99_seconds", "lost", "good"), [(1_000, 0.4, 0, True), (999, 0.4, 0, False), (1_000, 0.5, 0, False)]
)
def test_what_is_accepted_late_or_lost_does_not_count(value: float, p99_seconds: float, lost: int, good: bool) -> None:
    (name, *_) = AT_LEAST
    assert met(name, value, p99_seconds=p99_seconds, lost=lost) == good
    assert not met(name, value, p99_seconds=p99_seconds, lost=1)


def test_the_page_says_what_was_measured_and_explains_each_miss() -> None:
    told = dict(re.findall(r"^\| ([^|]+?) \| ([\d.,]+) \|", section(), re.MULTILINE))
    found = rows()
    assert {name: float(value.replace(",", "")) for name, value in told.items()} == {
        name: round(found[name]["value"], 3) for name in found
    }
    explained = set(re.findall(r"^- \*\*(.*?)\*\*", section(), re.MULTILINE))
    assert explained == {name for name in AIMS if not found[name]["met"]}
