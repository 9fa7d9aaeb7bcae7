"""A form for a value of a type: fields made from the JSON schema of the type, and the value made from what is typed.

By msgspec (https://jcristharif.com/msgspec/jsonschema.html): classes are references to ``$defs``, an optional value is
``anyOf`` with ``null``. What no field fits is written as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, Literal, cast

import msgspec
from msgspec import UNSET, Struct, UnsetType

from holdfast.errors import InvalidInput
from holdfast.http.api import plain_json

PREFIX: Final = "v"
"""What the names of all fields begin with; a part of a value is behind a dot."""

Kind = Literal["text", "number", "checkbox", "select", "json", "group"]
Schema = dict[str, Any]

NUMBERS: Final = ("integer", "number")


class Field(Struct, frozen=True, kw_only=True):
    """One field. ``path`` names it in the form, ``shown`` is what is in it. A ``group`` has the fields of its parts.

    One that is not ``required`` may be empty: its value is left out, or ``null`` where it may be that.
    """

    path: str
    label: str
    kind: Kind
    required: bool
    nullable: bool = False
    shown: str = ""
    hint: str = ""
    choices: tuple[tuple[str, str], ...] = ()
    parts: tuple[Field, ...] = ()


def field_of(type: Any) -> Field | None:
    """The field for a whole value; ``None`` for a type that has no schema, or that says nothing (``Any``)."""
    try:
        schema = msgspec.json.schema(type)
    except (TypeError, ValueError, RecursionError):
        return None
    known = cast("dict[str, Schema]", schema.get("$defs", {}))
    if not {"type", "enum", "anyOf", "$ref"} & schema.keys():
        return None
    return _field(schema, known, PREFIX, "Value", required=True, levels=2)


def _field(schema: Schema, known: Mapping[str, Schema], path: str, label: str, *, required: bool, levels: int) -> Field:
    shape, nullable = _without_null(_resolved(schema, known), known)
    default = schema.get("default", UNSET)
    if shape.get("type") == "object" and "properties" in shape and levels:
        needed = shape.get("required", ())
        parts = tuple(
            _field(each, known, f"{path}.{name}", name, required=name in needed, levels=levels - 1)
            for name, each in shape["properties"].items()
        )
        return Field(path=path, label=label, kind="group", required=required, nullable=nullable, parts=parts)
    kind, choices = _kind_of(shape, nullable=nullable)
    return Field(
        path=path,
        label=label,
        kind=kind,
        required=required and not nullable,
        nullable=nullable,
        shown=_shown(default, kind),
        hint=str(shape.get("format", "JSON" if kind == "json" else "")),
        choices=choices,
    )


def _resolved(schema: Schema, known: Mapping[str, Schema]) -> Schema:
    reference = schema.get("$ref")
    return schema if reference is None else known[reference.rpartition("/")[2]]


def _without_null(schema: Schema, known: Mapping[str, Schema]) -> tuple[Schema, bool]:
    among = schema.get("anyOf")
    if among is None:
        return schema, False
    others = [each for each in among if each != {"type": "null"}]
    nullable = len(others) < len(among)
    return (_resolved(others[0], known), nullable) if len(others) == 1 else ({}, nullable)


def _kind_of(shape: Schema, *, nullable: bool) -> tuple[Kind, tuple[tuple[str, str], ...]]:
    match shape:
        case {"enum": values}:
            choices = [each for each in cast("list[Any]", values) if each is not None]
            return "select", tuple((json.dumps(each), str(each)) for each in choices)
        case {"type": "boolean"}:
            return ("select", (("true", "yes"), ("false", "no"))) if nullable else ("checkbox", ())
        case {"type": "integer" | "number"}:
            return "number", ()
        case {"type": "string"}:
            return "text", ()
        case _:
            return "json", ()


def _shown(value: Any, kind: Kind) -> str:
    """How a default stands in a field."""
    if value is UNSET or value is None:
        return ""
    match kind:
        case "text":
            return str(value)
        case "checkbox":
            return "on" if value else ""
        case _:
            return json.dumps(value)


def filled(field: Field, typed: Mapping[str, str]) -> Field:
    """The same field with what was typed in it."""
    parts = tuple(filled(each, typed) for each in field.parts)
    return msgspec.structs.replace(field, parts=parts, shown=typed.get(field.path, ""))


def value_of(field: Field, typed: Mapping[str, str]) -> Any:
    """The value that was typed, as plain JSON data. Raises ``InvalidInput``, which names the field."""
    found = _value(field, typed)
    return None if found is UNSET else found


def _value(field: Field, typed: Mapping[str, str]) -> Any | UnsetType:
    text = typed.get(field.path, "")
    if field.kind == "group":
        return _group(field, typed)
    if field.kind == "checkbox":
        return bool(text)
    if field.kind == "text" and (text or field.required):
        return text
    if not text.strip():
        if field.required:
            raise InvalidInput(f"{field.label}: something must be written here")
        return None if field.nullable else UNSET
    try:
        value = plain_json(text.strip().encode(), field.label)
    except InvalidInput as error:
        told = "a number is written here" if field.kind == "number" else str(error)
        raise InvalidInput(f"{field.label}: {told}") from None
    if field.kind == "number" and (isinstance(value, bool) or not isinstance(value, (int, float))):
        raise InvalidInput(f"{field.label}: a number is written here")
    return value


def _group(field: Field, typed: Mapping[str, str]) -> Any | UnsetType:
    left_empty = not any(typed.get(each.path, "") for each in leaves(field))
    if left_empty and not (field.required and not field.nullable):
        return None if field.nullable else UNSET
    found = {each.label: _value(each, typed) for each in field.parts}
    return {name: value for name, value in found.items() if value is not UNSET}


def leaves(field: Field) -> list[Field]:
    """The fields in which something is typed."""
    return [leaf for each in field.parts for leaf in leaves(each)] if field.parts else [field]
