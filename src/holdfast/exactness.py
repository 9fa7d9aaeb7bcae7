"""Exactness: whether a decoded copy is the value that was encoded, in type and in value, at every level (G2, G12).

A step's result is checked when it is written, not years later when it is replayed: if JSON and the type hint cannot
bring the value back as it was, the writer hears so at once, with the place inside the value.

What "the same" means where Python's ``==`` says too much or too little:

* the types are identical: ``1``, ``1.0`` and ``True`` differ, and so do a class and its subclass;
* ``0.0`` and ``-0.0`` differ, and so do ``Decimal("1.0")`` and ``Decimal("1.00")``;
* structured classes are compared field by field, whatever their ``__eq__`` says;
* a dict is compared without regard to its order;
* an aware datetime is the same with the same wall time and the same offset from UTC. The zone's *name* is not kept: a
  ``ZoneInfo`` comes back as a fixed offset. A naive datetime or time with ``fold=1`` is refused, as its fold is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sized
from dataclasses import dataclass
from datetime import datetime, time
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from math import copysign
from types import NoneType
from typing import Any, Final, cast

from msgspec import UNSET, UnsetType

from holdfast.shapes import CLASSES_REMEMBERED, fields_of

PLAIN_EQUALITY: Final = frozenset({str, int, bool, NoneType, bytes})
"""Types without parts, of which ``==`` between two values of the same type says all."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place where the copy is not the value. ``path`` leads there: ``.items[2].price``."""

    path: str
    value: Any
    copy: Any

    def inside(self, step: str) -> Difference:
        """The same difference, seen from one level further out."""
        return Difference(step + self.path, self.value, self.copy)


def difference(value: object, copy: object) -> Difference | None:
    """Where ``copy`` differs from ``value``, or ``None`` if nowhere.

    >>> difference({"total": [1, 2]}, {"total": [1, 2.0]})
    Difference(path="['total'][1]", value=2, copy=2.0)
    >>> difference((1, 2), (1, 2)) is None
    True
    """
    kind = type(value)
    if kind is not type(copy):
        return Difference("", value, copy)
    if kind in PLAIN_EQUALITY:
        return None if value == copy else Difference("", value, copy)
    return _comparer_of(kind)(value, copy)  # type: ignore[arg-type]  # every class can be hashed


def describe(value: object) -> str:
    """A value in a few words, for messages. Never shows text or the inside of anything: it may be secret.

    >>> describe(17), describe("s3cret"), describe([1]), describe(None)
    ('int 17', 'str of length 6', 'list of length 1', 'None')
    """
    if value is None:
        return "None"
    if value is UNSET:
        return "nothing"
    kind = type(value)
    name = kind.__qualname__
    if isinstance(value, bool | float) or (isinstance(value, int) and abs(value) < 10**20):
        return f"{name} {value}"
    if isinstance(value, str | bytes | list | tuple | dict | set | frozenset):
        return f"{name} of length {len(cast('Sized', value))}"
    return name


_Comparer = Callable[[Any, Any], Difference | None]


def _by(same: Callable[[Any, Any], bool]) -> _Comparer:
    def compare(value: Any, copy: Any) -> Difference | None:
        return None if same(value, copy) else Difference("", value, copy)

    return compare


def _same_float(value: float, copy: float) -> bool:
    return value == copy and (value != 0.0 or copysign(1.0, value) == copysign(1.0, copy))


def _same_time(value: datetime | time, copy: datetime | time) -> bool:
    # `==` between two zones answers no at the turn of summer time (PEP 495), so wall time and offset are compared.
    if (value.tzinfo is None) != (copy.tzinfo is None) or (value.tzinfo is None and value.fold != copy.fold):
        return False
    wall, copied_wall = value.replace(tzinfo=None, fold=0), copy.replace(tzinfo=None, fold=0)
    return wall == copied_wall and value.utcoffset() == copy.utcoffset()


def _same_decimal(value: Decimal, copy: Decimal) -> bool:
    return value.as_tuple() == copy.as_tuple()


def _compare_sequences(value: Collection[Any], copy: Collection[Any]) -> Difference | None:
    if len(value) != len(copy):
        return Difference("", value, copy)
    kinds = list(map(type, value))
    # A long list of plain values is compared by the interpreter's own loops.
    if PLAIN_EQUALITY.issuperset(kinds) and value == copy and kinds == list(map(type, copy)):
        return None
    for index, (one, other) in enumerate(zip(value, copy, strict=True)):
        if (found := difference(one, other)) is not None:
            return found.inside(f"[{index}]")
    return None


def _compare_dicts(value: dict[Any, object], copy: dict[Any, object]) -> Difference | None:
    if (found := _compare_members(value.keys(), copy.keys())) is not None:
        return Difference(" (a key)", found.value, found.copy)
    for key, one in value.items():
        other = copy[key]
        kind = type(one)
        if kind in PLAIN_EQUALITY and kind is type(other) and one == other:
            continue
        if (found := difference(one, other)) is not None:
            return found.inside(f"[{_key(key)}]")
    return None


def _compare_members(value: Collection[Any], copy: Collection[Any]) -> Difference | None:
    if value != copy:
        lost = next((each for each in value if each not in copy), UNSET)
        return Difference("", lost, next((each for each in copy if each not in value), UNSET))
    kinds = {*map(type, value), *map(type, copy)}
    if len(kinds) <= 1 and PLAIN_EQUALITY.issuperset(kinds):
        return None
    counterparts = {each: each for each in copy}
    for one in value:
        if difference(one, counterparts[one]) is not None:
            return Difference("", one, counterparts[one])
    return None


def _compare_sets(value: Collection[Any], copy: Collection[Any]) -> Difference | None:
    found = _compare_members(value, copy)
    return None if found is None else Difference(" (a member)", found.value, found.copy)


def _key(key: Any) -> str:
    return repr(key) if type(key) in {str, int} else describe(key)


def _by_fields(names: tuple[str, ...]) -> _Comparer:
    def compare(value: Any, copy: Any) -> Difference | None:
        for name in names:
            one: object = getattr(value, name, UNSET)
            other: object = getattr(copy, name, UNSET)
            kind = type(one)
            if kind in PLAIN_EQUALITY and kind is type(other) and one == other:
                continue
            if (found := difference(one, other)) is not None:
                return found.inside(f".{name}")
        return None

    return compare


def _equal(value: Any, copy: Any) -> bool:
    return bool(value == copy)


_COMPARERS: Final[dict[type, _Comparer]] = {
    float: _by(_same_float),
    list: _compare_sequences,
    tuple: _compare_sequences,
    dict: _compare_dicts,
    set: _compare_sets,
    frozenset: _compare_sets,
    datetime: _by(_same_time),
    time: _by(_same_time),
    Decimal: _by(_same_decimal),
    UnsetType: _by(_equal),
}


@lru_cache(CLASSES_REMEMBERED)
def _comparer_of(kind: Any) -> _Comparer:
    if kind in _COMPARERS:
        return _COMPARERS[kind]
    if issubclass(kind, Enum):
        return _by(_equal)
    fields = fields_of(kind)
    names: tuple[str, ...] | None = getattr(kind, "_fields", None)
    if issubclass(kind, tuple) and names is not None:
        return _by_fields(names)
    return _by(_equal) if fields is None else _by_fields(tuple(name for name, _ in fields))
