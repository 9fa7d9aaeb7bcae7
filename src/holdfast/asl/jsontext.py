"""JSON as AWS prints it inside messages and strings: compact, in the order of the fields, without ASCII escapes."""

from __future__ import annotations

import json
from typing import Any, TypeGuard


def compact(value: Any) -> str:
    """The value as compact JSON.

    >>> compact({"b": [1, "é"], "a": None})
    '{"b":[1,"é"],"a":null}'
    """
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def size_bytes(value: Any) -> int:
    """How many bytes of UTF-8 the value has as compact JSON."""
    return len(compact(value).encode(errors="surrogatepass"))


def is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    """Whether a JSON value is an object."""
    return isinstance(value, dict)


def is_array(value: Any) -> TypeGuard[list[Any]]:
    """Whether a JSON value is an array."""
    return isinstance(value, list)


def is_number(value: Any) -> TypeGuard[int | float]:
    """Whether a JSON value is a number; Python counts booleans among its integers."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def same(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal: ``true`` is not ``1``, and ``1`` is ``1.0``."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if is_object(one) and is_object(other):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if is_array(one) and is_array(other):
        return len(one) == len(other) and all(same(*pair) for pair in zip(one, other, strict=True))
    return bool(one == other)
