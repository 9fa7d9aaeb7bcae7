"""Brings all sets inside a decoded value into a steady order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from msgspec import Struct
from msgspec.structs import force_setattr

from holdfast.codec.shapes import fields_of
from holdfast.codec.steady import SteadyFrozenSet, SteadySet, in_order


def steadied(value: Any) -> Any:
    """The value with steady sets in place of plain ones, at every level. Changes it, so it must be a copy.

    >>> steadied({"skus": {"b", "a"}})
    {'skus': {'a', 'b'}}
    """
    match value:
        case set():
            return SteadySet(in_order(map(steadied, cast("set[Any]", value))))
        case frozenset():
            return SteadyFrozenSet(in_order(map(steadied, cast("frozenset[Any]", value))))
        case list():
            items = cast("list[Any]", value)
            items[:] = map(steadied, items)
            return items
        case tuple():
            return _steadied_tuple(cast("tuple[Any, ...]", value))
        case dict():
            named = cast("dict[Any, Any]", value)
            for key, part in named.items():
                named[key] = steadied(part)
            return named
        case _:
            _steady_fields(value)
            return value


def _steadied_tuple(value: tuple[Any, ...]) -> tuple[Any, ...]:
    parts = [steadied(part) for part in value]
    if all(new is old for new, old in zip(parts, value, strict=True)):
        return value
    make: Any = getattr(type(value), "_make", tuple)  # a NamedTuple's own class takes its fields one by one
    return cast("tuple[Any, ...]", make(parts))


def _left_out(value: object) -> Callable[[Any], bool]:
    """Whether msgspec leaves a field out as its default, which it would not do for a steady set."""
    if not isinstance(value, Struct) or not value.__struct_config__.omit_defaults:
        return lambda _: False
    defaults = set(map(id, value.__struct_defaults__))
    return lambda part: not part or id(part) in defaults


def _steady_fields(value: object) -> None:
    left_out = _left_out(value)
    for name, _ in fields_of(type(value)) or ():
        part = getattr(value, name, None)
        new = steadied(part)
        if new is part or left_out(part):
            continue
        if isinstance(value, Struct):
            force_setattr(value, name, new)
        else:
            object.__setattr__(value, name, new)  # frozen ones refuse any other change
