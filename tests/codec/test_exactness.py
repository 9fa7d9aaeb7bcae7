"""Exactness: what counts as the same value, where Python's ``==`` says too much or too little (G2)."""

# ruff: noqa: DTZ001 - naive datetimes are among the values

from __future__ import annotations

import dataclasses
import enum
from datetime import UTC, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import msgspec
import pytest
from msgspec import UNSET

from holdfast.codec.exactness import Incomplete, complete, describe, difference
from holdfast.codec.shapes import fields_of, parts_of

AMSTERDAM = ZoneInfo("Europe/Amsterdam")
TWICE = datetime(2024, 10, 27, 2, 30, tzinfo=AMSTERDAM)


class Size(enum.IntEnum):
    SMALL = 1


class Pair(NamedTuple):
    left: Any
    right: Any = 0


@dataclasses.dataclass
class Loose:
    number: Any
    note: str | None = None


@dataclasses.dataclass(slots=True)
class Tight:
    number: Any
    note: str | None = None


@dataclasses.dataclass
class HalfTight(Tight):
    more: int = 0


@dataclasses.dataclass
class AlwaysEqual:
    number: int

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


class Row(msgspec.Struct):
    number: Any
    note: str | msgspec.UnsetType = UNSET


class Attribute:
    def __init__(self, name: str) -> None:
        self.name = name


class LikeAttrs:
    __attrs_attrs__ = (Attribute("number"),)

    def __init__(self, number: int) -> None:
        self.number = number


class Opaque:
    pass


SAME: list[tuple[Any, Any]] = [
    (1, 1),
    (1, 1.0),
    (0, 0.0),
    (10**22, 1e22),
    ([1, 2], [1, 2.0]),
    ({1, 2}, {1.0, 2.0}),
    ({1: 1}, {1.0: 1.0}),
    (Loose(1), Loose(1.0)),
    (0.0, 0.0),
    (-0.0, -0.0),
    ([1, 2.0, "x"], [1, 2.0, "x"]),
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    ({1: "a", "1": "b"}, {"1": "b", 1: "a"}),
    ({1, 2}, {2, 1}),
    (frozenset({(1, 2)}), frozenset({(1, 2)})),
    (Pair(1), Pair(1)),
    (Loose(1), Loose(1)),
    (Tight([1]), Tight([1])),
    (HalfTight(1), HalfTight(1)),
    (AlwaysEqual(1), AlwaysEqual(1)),
    (Row(1), Row(1)),
    (LikeAttrs(1), LikeAttrs(1)),
    (Size.SMALL, Size.SMALL),
    (Decimal("NaN"), Decimal("NaN")),
    (TWICE, datetime(2024, 10, 27, 2, 30, tzinfo=timezone(timedelta(hours=2)))),
    (TWICE.replace(fold=1), datetime(2024, 10, 27, 2, 30, tzinfo=timezone(timedelta(hours=1)))),
    (datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, tzinfo=ZoneInfo("UTC"))),
]

DIFFERENT: list[tuple[Any, Any, str]] = [
    (1, True, ""),
    (2**53 + 1, float(2**53 + 1), ""),
    (1.0, 1, ""),
    (True, 1.0, ""),
    (Size.SMALL, 1.0, ""),
    (0.0, -0.0, ""),
    (1, Size.SMALL, ""),
    ("a", "b", ""),
    ([1], [1, 2], ""),
    ([1, 2], [1, 2.5], "[1]"),
    ([1, 2.0], [1, 2], "[1]"),
    ([0.0], [-0.0], "[0]"),
    ([1, 0], [True, 0], "[0]"),
    ((1,), [1], ""),
    ({"a": 1}, {"a": True}, "['a']"),
    ({"a": 1}, {"a": 1, "b": 2}, "['b']"),
    ({"a": 1, "b": 2}, {"a": 1}, "['b']"),
    ({1: "x"}, {"1": "x"}, " (a key)"),
    ({1: "x"}, {True: "x"}, " (a key)"),
    ({1}, {True}, " (a member)"),
    ({1}, {2}, " (a member)"),
    ({1, 2}, {1}, " (a member)"),
    ({1.0}, {1}, " (a member)"),
    (Pair(1, [0]), Pair(1, [False]), ".right[0]"),
    (Loose(1.0), Loose(1), ".number"),
    (Loose(1), Tight(1), ""),
    (Tight({"a": [1]}), Tight({"a": [2]}), ".number['a'][0]"),
    (HalfTight(1), HalfTight(2), ".number"),
    (AlwaysEqual(1), AlwaysEqual(2), ".number"),
    (Row(1), Row(1, "x"), ".note"),
    (LikeAttrs(1), LikeAttrs(2), ".number"),
    (Decimal("1.0"), Decimal("1.00"), ""),
    (Decimal(0), Decimal("-0"), ""),
    (TWICE, TWICE.replace(fold=1), ""),
    (datetime(2024, 1, 1, 12, tzinfo=UTC), datetime(2024, 1, 1, 13, tzinfo=timezone(timedelta(hours=1))), ""),
    (datetime(2024, 1, 1), datetime(2024, 1, 1, fold=1), ""),
    (datetime(2024, 1, 1), datetime(2024, 1, 1, tzinfo=UTC), ""),
    (time(1), time(1, tzinfo=AMSTERDAM), ""),
    (Opaque(), Opaque(), ""),
]


@pytest.mark.parametrize(("value", "copy"), SAME)
def test_the_same(value, copy):
    assert difference(value, copy) is None


@pytest.mark.parametrize(("value", "copy", "path"), DIFFERENT)
def test_different_with_its_place(value, copy, path):
    found = difference(value, copy)
    assert found is not None
    assert found.path == path


def test_a_field_left_to_the_class_must_be_completed_first():
    left_out = msgspec.json.decode(b'[{"number":1}]', type=list[Loose])
    assert "note" not in vars(left_out[0])
    with pytest.raises(Incomplete):
        difference(left_out, [Loose(1)])
    complete(left_out)
    assert vars(left_out[0]) == {"number": 1, "note": None}
    assert difference(left_out, [Loose(1)]) is None


def test_a_field_that_was_never_set_stays_so():
    unset = Loose.__new__(Loose)
    complete(unset)
    assert vars(unset) == {"note": None}
    assert [step for step, _ in parts_of(unset)] == [".note"]
    tight = Tight.__new__(Tight)
    complete({"a": [tight]})
    assert not hasattr(tight, "number")
    found = difference(Loose(1), unset)
    assert found is not None
    assert found.copy is UNSET


def test_classes_without_fields_have_none():
    assert fields_of(Opaque) is None
    assert fields_of(LikeAttrs) == (("number", "number"),)


def test_values_are_described_without_what_is_in_them():
    canary = "s3cret"
    for value in (
        canary,
        canary.encode(),
        [canary],
        {canary: canary},
        (canary,),
        {canary},
        Loose(canary),
        Pair(canary),
    ):
        assert canary not in describe(value)
    assert describe(10**30) == "int"
    assert describe(True) == "bool True"
    assert describe(UNSET) == "nothing"
