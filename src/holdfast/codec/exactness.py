"""Exactness: whether a decoded copy is the value that was encoded, in type and in value, at every level (G2, G12).

A step's result is checked when it is written, not years later when it is replayed: if JSON and the type hint cannot
bring the value back unchanged, the writer gets an error at once, with the place inside the value.

What "the same" means where Python's ``==`` is too strict or too lenient:

* the types are identical: ``1`` and ``True`` differ, and so do a class and its subclass. Only an int may come back as
  the float of equal value: type checkers accept it where the hint says float, and the copy is the float;
* a set of the order in which a body got it (``steady``) is equal to its plain set;
* ``0.0`` and ``-0.0`` differ, and so do ``Decimal("1.0")`` and ``Decimal("1.00")``;
* structured classes are compared field by field, whatever their ``__eq__`` says;
* a dict is compared without regard to its order;
* an aware datetime is the same with the same wall time and the same offset from UTC. The zone's *name* is not kept: a
  ``ZoneInfo`` comes back as a fixed offset. A naive datetime or time with ``fold=1`` is refused, as its fold is lost.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Sized
from dataclasses import dataclass, is_dataclass
from datetime import datetime, time
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from math import copysign
from types import NoneType
from typing import Any, Final, cast

from msgspec import UNSET, UnsetType

from holdfast.codec.shapes import CLASSES_REMEMBERED, fields_of, parts_of, step_to
from holdfast.codec.steady import PLAIN, SteadyFrozenSet, SteadySet

PLAIN_EQUALITY: Final = frozenset({str, int, bool, NoneType, bytes})
"""Types without parts, for which ``==`` between two values of the same type is enough."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place where the copy differs from the value. ``path`` leads there: ``.items[2].price``."""

    path: str
    value: Any
    copy: Any

    def inside(self, step: str) -> Difference:
        """The same difference, seen from one level further out."""
        return Difference(step + self.path, self.value, self.copy)


def difference(value: object, copy: object) -> Difference | None:
    """Where ``copy`` differs from ``value``, or ``None`` if nowhere.

    >>> difference({"total": [1, 2]}, {"total": [1, True]})
    Difference(path="['total'][1]", value=2, copy=True)
    >>> difference((1, 2), (1, 2.0)) is None
    True

    Raises ``Incomplete`` if ``value`` must be completed first, and whatever a class's own ``__eq__`` raises.
    """
    kind = type(value)
    if kind is not type(copy):
        if PLAIN.get(kind) is type(copy) or PLAIN.get(type(copy)) is kind:
            return _compare_sets(cast("Collection[Any]", value), cast("Collection[Any]", copy))
        widened = kind is int and type(copy) is float and value == copy
        return None if widened else Difference("", value, copy)
    if kind in PLAIN_EQUALITY:
        return None if value == copy else Difference("", value, copy)
    return _comparer_of(kind)(value, copy)  # type: ignore[arg-type]  # every class can be hashed


class Incomplete(Exception):
    """A dataclass in the value takes fields from the defaults of its class; ``complete`` it and encode it again."""


def complete(value: object) -> None:
    """Set every field of every dataclass in the value that comes from the default of its class.

    A value that msgspec reads from JSON without a field shows the default, but does not store it: written again it
    lacks the field again. So equal values would give different bytes (G11), and a recorded value would change with the
    default in the code (G2).
    """
    fields = fields_of(type(value))
    if fields is not None and _keeps_fields_in_dict(type(value)):
        own: dict[str, object] = value.__dict__
        for name, _ in fields:
            if name not in own and hasattr(value, name):
                own[name] = getattr(value, name)
    for _, part in parts_of(value):
        complete(part)


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
    # `==` between two zones is false at the change of summer time (PEP 495), so wall time and offset are compared.
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
    if value.keys() != copy.keys():
        one, other = _odd_ones(value, copy)
        if one is not UNSET and other is not UNSET:
            return Difference(" (a key)", one, other)
        key = other if one is UNSET else one
        return Difference(step_to(key), value.get(key, UNSET), copy.get(key, UNSET))
    if (found := _compare_members(value.keys(), copy.keys())) is not None:
        return Difference(" (a key)", found.value, found.copy)
    for key, one in value.items():
        other = copy[key]
        kind = type(one)
        if kind in PLAIN_EQUALITY and kind is type(other) and one == other:
            continue
        if (found := difference(one, other)) is not None:
            return found.inside(step_to(key))
    return None


def _compare_sets(value: Collection[Any], copy: Collection[Any]) -> Difference | None:
    if value != copy:
        return Difference(" (a member)", *_odd_ones(value, copy))
    found = _compare_members(value, copy)
    return None if found is None else found.inside(" (a member)")


def _odd_ones(value: Collection[Any], copy: Collection[Any]) -> tuple[object, object]:
    """A member of each that the other does not have, ``UNSET`` if there is none."""
    one = next((each for each in value if each not in copy), UNSET)
    return one, next((each for each in copy if each not in value), UNSET)


def _compare_members(value: Collection[Any], copy: Collection[Any]) -> Difference | None:
    """Equal members (or keys) can still have different types, like ``1`` and ``True``."""
    kinds = {*map(type, value), *map(type, copy)}
    if len(kinds) <= 1 and PLAIN_EQUALITY.issuperset(kinds):
        return None
    counterparts = {each: each for each in copy}
    for one in value:
        if difference(one, counterparts[one]) is not None:
            return Difference("", one, counterparts[one])
    return None


def _by_attributes(names: tuple[str, ...]) -> _Comparer:
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


def _by_dict(names: tuple[str, ...]) -> _Comparer:
    def compare(value: Any, copy: Any) -> Difference | None:
        mine: dict[str, object] = value.__dict__
        theirs: dict[str, object] = copy.__dict__
        for name in names:
            one, other = mine.get(name, UNSET), theirs.get(name, UNSET)
            kind = type(one)
            if kind in PLAIN_EQUALITY and kind is type(other) and one == other:
                continue
            if one is UNSET and hasattr(value, name):
                raise Incomplete
            if (found := difference(one, other)) is not None:
                return found.inside(f".{name}")
        return None

    return compare


def _equal(value: Any, copy: Any) -> bool:
    return bool(value == copy)


def _keeps_fields_in_dict(kind: type) -> bool:
    """Whether this is a dataclass that has all its fields in ``__dict__``, so that some may come from the class."""
    names = [name for name, _ in fields_of(kind) or ()]
    descriptors = (inspect.getattr_static(kind, name, None) for name in names)
    return is_dataclass(kind) and not any(map(inspect.isdatadescriptor, descriptors))


_COMPARERS: Final[dict[type, _Comparer]] = {
    float: _by(_same_float),
    list: _compare_sequences,
    tuple: _compare_sequences,
    dict: _compare_dicts,
    set: _compare_sets,
    frozenset: _compare_sets,
    SteadySet: _compare_sets,
    SteadyFrozenSet: _compare_sets,
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
    fields, keeps_fields_in_dict = fields_of(kind), _keeps_fields_in_dict(kind)
    names: tuple[str, ...] | None = getattr(kind, "_fields", None)
    if issubclass(kind, tuple) and names is not None:
        return _by_attributes(names)
    if fields is None:
        return _by(_equal)
    by_fields = _by_dict if keeps_fields_in_dict else _by_attributes
    return by_fields(tuple(name for name, _ in fields))
