"""Conditions as SQL: the meaning of ``items.holds``, for the existing row.

Compiling has two halves, so that the text of a statement is built once per shape and then found in a dictionary:
``shape_of`` turns a condition into a hashable shape and its parameters, ``sql_of`` turns a shape into SQL.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import astuple

from holdfast.errors import InvalidInput
from holdfast.items import (
    Absent,
    AllOf,
    Always,
    AnyOf,
    Condition,
    EpochIs,
    Exists,
    Expired,
    LeaseLapsed,
    OwnerIs,
    RevisionIs,
    StatusIn,
    Unowned,
)

Value = str | int | bytes | None
"""The types of parameters. They are never part of a statement's text."""

Shape = tuple[type[Condition], int, tuple["Shape", ...]]
"""The kind of a condition, how many parameters it takes, and the shapes inside it."""

MAX_CONDITIONS: Final = 100
"""The most parts one condition may have: SQLite bounds the depth of an expression (https://sqlite.org/limits.html)."""

_PLAIN: Final[dict[type[Condition], Shape]] = {
    kind: (kind, len(kind.__struct_fields__), ())
    for kind in (Always, Absent, Exists, RevisionIs, EpochIs, OwnerIs, Unowned, LeaseLapsed, Expired)
}
"""The shapes of conditions that hold no others, and always have as many parameters."""


def shape_of(condition: Condition, parameters: list[Value]) -> Shape:
    """The shape of ``condition``; its values are added to ``parameters`` in the order of their places in the SQL."""
    if (plain := _PLAIN.get(type(condition))) is not None:
        parameters.extend(astuple(condition))
        return plain
    before = len(parameters)
    shapes: tuple[Shape, ...] = ()
    if isinstance(condition, (AllOf, AnyOf)):
        for each in condition.conditions:
            shapes += (shape_of(each, parameters),)
    elif isinstance(condition, StatusIn):
        parameters.extend(condition.statuses)
    count = len(parameters) - before
    if shapes and (count > MAX_CONDITIONS or len(shapes) > MAX_CONDITIONS):
        raise InvalidInput(f"a condition has more than {MAX_CONDITIONS} parts")
    return type(condition), count, shapes


def sql_of(shape: Shape) -> str:
    """An expression over the columns of an existing row: true if, and only if, the condition holds.

    NULL counts as false (https://sqlite.org/lang_expr.html), which is right because the algebra has no "not".
    """
    kind, count, inside = shape
    if kind is Always or kind is Exists:
        return "1"
    if kind is Absent:
        return "0"
    if kind is RevisionIs:
        return "revision = ?"
    if kind is EpochIs:
        return "epoch = ?"
    if kind is OwnerIs:
        return "owner = ? AND epoch = ?"
    if kind is Unowned:
        return "owner IS NULL"
    if kind is LeaseLapsed:
        return "lease_until < ?"
    if kind is Expired:
        return "expires_at <= ?"
    if kind is StatusIn:
        return f"status IN ({', '.join('?' * count)})"
    # No conditions at all: AllOf holds, AnyOf does not.
    joined, empty = (" AND ", "1") if kind is AllOf else (" OR ", "0")
    return joined.join(f"({sql_of(each)})" for each in inside) or empty


def holds_of_nothing(shape: Shape) -> bool:
    """Whether the condition holds without an item. That depends on its shape alone."""
    kind, _, inside = shape
    if kind is AllOf:
        return all(holds_of_nothing(each) for each in inside)
    if kind is AnyOf:
        return any(holds_of_nothing(each) for each in inside)
    return kind is Always or kind is Absent
