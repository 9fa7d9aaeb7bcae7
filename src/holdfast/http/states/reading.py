"""Reading the body of a request: what is missing in it, and what is none of the allowed values, in AWS's words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, cast, get_args, get_origin

import msgspec
from msgspec.structs import FieldInfo

from holdfast.http.states.asked import Asked
from holdfast.http.states.faults import unsatisfied


def read(body: bytes, asked: type[Asked]) -> Asked:
    """The request. A field that is ``null`` is one that is not given, as at AWS.

    Raises ``Fault`` for what violates a constraint, and what msgspec raises for another type and for what is no JSON.

    >>> from holdfast.http.states.asked import OfExecution
    >>> read(b'{"executionArn": "arn", "includedData": null}', OfExecution)
    OfExecution(execution_arn='arn', included_data='ALL_DATA')
    """
    found = _given(msgspec.json.decode(body))
    if isinstance(found, dict):
        _check(cast("dict[str, Any]", found), asked)
    return msgspec.convert(found, asked)


def _given(value: Any) -> Any:
    """The value without the fields that are ``null``."""
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return {name: _given(each) for name, each in fields.items() if each is not None}
    if isinstance(value, list):
        return [_given(each) for each in cast("list[Any]", value)]
    return value


def _check(found: dict[str, Any], asked: type[Asked]) -> None:
    for field in msgspec.structs.fields(asked):
        name = field.encode_name
        if name not in found and field.required:
            raise unsatisfied(None, name, "not be null")
        allowed = list(_allowed(field))
        if allowed and isinstance(found.get(name), str) and found[name] not in allowed:
            raise unsatisfied(found[name], name, f"satisfy enum value set: [{', '.join(allowed)}]")


def _allowed(field: FieldInfo) -> Iterator[str]:
    """The values that a field may have, where they are listed."""
    for each in (field.type, *get_args(field.type)):
        if get_origin(each) is Literal:
            yield from get_args(each)
