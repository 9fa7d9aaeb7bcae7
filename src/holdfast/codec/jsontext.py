"""JSON text: values to bytes, in their own or in canonical form, and how deep a text nests.

Nothing here knows type hints; ``codec`` does.
"""

from __future__ import annotations

import re
from typing import Any, Final, cast

from msgspec import MsgspecError, Struct, json

from holdfast.codec.shapes import dump_model, fields_of, is_model

UNREADABLE: Final = (MsgspecError, UnicodeError, RecursionError)
"""The errors of decoding for wrong bytes."""

NESTING_LIMIT_LEVELS: Final = 64
"""How deep lists and objects may nest. Deeper data are a mistake or an attack, and every recursion must end."""

LARGEST_EXACT: Final = 2**53
"""Up to here every whole number is a float of its own."""

_WHOLE_FLOAT: Final = re.compile(rb"\d\.0\b|\d[eE]")
_NO_STRUCTURE: Final = bytes(set(range(256)) - set(b'[]{}"'))
_NO_SEPARATORS: Final = bytes(set(range(256)) - set(b'[{:,"'))
_NO_COLONS: Final = bytes(set(range(256)) - set(b':"'))
_BEGINS_VALUE: Final = (b"[", b"{", b":", b",")
_AS_LISTS: Final = bytes.maketrans(b"{}", b"[]")


def _encode_other(value: Any) -> Any:
    kind = cast("type[Any]", type(value))
    if is_model(kind):
        return dump_model(value)
    raise TypeError(f"{kind.__qualname__} is not a type that JSON can carry")


encode: Final = json.Encoder(enc_hook=_encode_other).encode
"""Encode a value in its own order: dicts keep their order. Raises whatever msgspec or a model raises."""

_encode_sorted: Final = json.Encoder(enc_hook=_encode_other, order="sorted").encode


def canonical(value: Any) -> bytes:
    """Encode so that equal values give equal bytes: keys, fields and members of sets in sorted order.

    Takes no longer than ``encode`` if msgspec can sort all parts. For hints with sets of anything, or keys that are not
    text, use ``canonical_by_parts``.

    >>> canonical({"b": 1, "a": {3, 2}})
    b'{"a":[2,3],"b":1}'
    """
    try:
        return _encode_sorted(value)
    except TypeError:
        return canonical_by_parts(value)


def canonical_by_parts(value: Any) -> bytes:
    """Like ``canonical``, for all values: also sets whose members have no order, and keys that are not text.

    >>> canonical_by_parts({2: frozenset({"b", "a"}), 10: None})
    b'{"10":null,"2":["a","b"]}'
    """
    return _encode_sorted(_with_sorted_sets(value, json.decode(encode(value))))


def with_one_form_of_numbers(text: bytes) -> bytes:
    """Canonical JSON in which ``1`` and ``1.0``, which are one number, have one form: whole floats become integers.

    >>> with_one_form_of_numbers(b'{"amount":1.0,"rate":0.5}')
    b'{"amount":1,"rate":0.5}'
    """
    if not _WHOLE_FLOAT.search(text):
        return text
    return _encode_sorted(_with_whole_numbers(json.decode(text)))


def _with_whole_numbers(tree: Any) -> Any:
    match tree:
        case float() if tree.is_integer() and abs(tree) <= LARGEST_EXACT:
            return int(tree)
        case dict():
            return {key: _with_whole_numbers(value) for key, value in cast("dict[str, Any]", tree).items()}
        case list():
            return [_with_whole_numbers(value) for value in cast("list[Any]", tree)]
        case _:
            return tree


def _with_sorted_sets(value: Any, tree: Any) -> Any:
    """``tree`` is ``value`` as plain JSON data. Returns it with each set in the order of its members' encoding.

    msgspec sorts sets by ``<``, which fails for members without an order, and for sets of frozensets, where ``<``
    means "subset", gives an order that differs from run to run. Parts that cannot be matched stay as they are.
    """
    whole: object = value
    if isinstance(value, dict) and isinstance(tree, dict):
        values, keys = cast("dict[Any, Any]", value).values(), cast("dict[str, Any]", tree)
        if len(values) == len(keys):
            return {key: _with_sorted_sets(one, part) for one, (key, part) in zip(values, keys.items(), strict=True)}
        return keys
    if isinstance(value, set | frozenset | list | tuple) and isinstance(tree, list):
        members, parts = cast("list[Any]", value), cast("list[Any]", tree)
        found = [_with_sorted_sets(one, part) for one, part in zip(members, parts, strict=True)]
        return sorted(found, key=_encode_sorted) if isinstance(value, set | frozenset) else found
    return _with_sorted_fields(whole, tree)


def _with_sorted_fields(value: object, tree: Any) -> Any:
    unchanged: Any = tree
    fields = fields_of(type(value))
    if fields is None:
        return unchanged
    if isinstance(tree, dict):
        keys = cast("dict[str, Any]", tree)
        return keys | {key: _with_sorted_sets(getattr(value, name), keys[key]) for name, key in fields if key in keys}
    if isinstance(tree, list) and isinstance(value, Struct):  # written as an array, perhaps after its tag
        parts = cast("list[Any]", tree)
        tags = max(0, len(parts) - len(fields))
        return parts[:tags] + [
            _with_sorted_sets(getattr(value, name), part) for (name, _), part in zip(fields, parts[tags:], strict=False)
        ]
    return unchanged


def nests_too_deep(data: bytes, levels: int = NESTING_LIMIT_LEVELS) -> bool:
    """Whether lists and objects nest more than ``levels`` deep in this JSON text.

    >>> nests_too_deep(b"[" * 64 + b"]" * 64), nests_too_deep(b"[" * 65 + b"]" * 65)
    (False, True)
    """
    if len(data) <= 2 * levels or data.count(b"[") + data.count(b"{") <= levels:
        return False
    brackets = _outside_text(data, _NO_STRUCTURE).translate(_AS_LISTS)
    # Each round strips the innermost level; a text is as deep as the rounds it takes. All loops run in C.
    for _ in range(levels):
        if not brackets:
            return False
        brackets = brackets.replace(b"[]", b"")
    return bool(brackets)


def holds_more_values(data: bytes, most: int) -> bool:
    """Whether this JSON text may hold more than a number of values in lists and objects, at all levels; keys count too.

    >>> holds_more_values(b'{"a": [1, ","]}', 4), holds_more_values(b'{"a": [1, 2]}', 3)
    (False, True)
    """
    if sum(map(data.count, _BEGINS_VALUE)) <= most:
        return False  # as nearly always, without a search for strings
    return len(_outside_text(data, _NO_SEPARATORS)) > most


def count_keys(data: bytes) -> int:
    """How many keys the objects in this JSON text have, counting repeated ones each time.

    >>> count_keys(b'{"a": {"b:": 1}, "a": 2}')
    3
    """
    return len(_outside_text(data, _NO_COLONS)) if b":" in data else 0


def _outside_text(data: bytes, but: bytes) -> bytes:
    """The part of this JSON text outside strings, ``but`` some bytes. All loops run in C."""
    if b"\\" in data:
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    left = data.translate(None, but).replace(b'""', b"")
    return b"".join(left.split(b'"')[::2]) if b'"' in left else left
