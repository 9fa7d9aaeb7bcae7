"""The 18 intrinsic functions of Amazon States Language, with AWS's rounding, limits and ways to print."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import math
import re
from collections.abc import Callable
from random import Random
from typing import Any, Final

from msgspec import Struct

from holdfast.asl.jsontext import NotJson, compact, is_array, is_number, is_object, read, same
from holdfast.asl.randomness import Randomness

LONGEST_RANGE: Final = 1_000
LONGEST_TEXT_CHARACTERS: Final = 10_000
HASHES: Final = {"MD5": "md5", "SHA-1": "sha1", "SHA-256": "sha256", "SHA-384": "sha384", "SHA-512": "sha512"}


class IntrinsicFailure(ValueError):
    """The arguments do not fit the function."""


class Literal(Struct, frozen=True):
    """A value that is written in the call. Text keeps its escapes: braces mean something to ``States.Format``."""

    value: Any

    def plain(self) -> Any:
        """The value without escapes."""
        return _unescaped(self.value) if isinstance(self.value, str) else self.value


Function = Callable[[list[Any], Randomness], Any]


def _unescaped(text: str) -> str:
    return re.sub(r"\\([\\'{}])", r"\1", text)


def _plainly(function: Callable[..., Any], least: int, most: int) -> Function:
    """A function of plain values that takes between ``least`` and ``most`` of them."""

    def called(arguments: list[Any], _randomness: Randomness) -> Any:
        _check_count(arguments, least, most)
        return function(*map(_plain, arguments))

    return called


def _plain(argument: Any) -> Any:
    return argument.plain() if isinstance(argument, Literal) else argument


def _check_count(arguments: list[Any], least: int, most: int) -> None:
    if not least <= len(arguments) <= most:
        wanted = str(least) if least == most else f"{least} to {most}"
        raise IntrinsicFailure(f"Invalid number of arguments: expected {wanted}, but received {len(arguments)}")


# ── Arrays ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _list(value: Any) -> list[Any]:
    if not is_array(value):
        raise IntrinsicFailure(f"Expected an array, but received {compact(value)}")
    return value


def _rounded(value: Any) -> int:
    """The nearest integer, halves upwards: ``Math.round`` of Java."""
    if not is_number(value):
        raise IntrinsicFailure(f"Expected a number, but received {compact(value)}")
    return value if isinstance(value, int) else math.floor(value + 0.5)


def _partition(values: Any, size: Any) -> list[list[Any]]:
    width = _rounded(size)
    if width <= 0:
        raise IntrinsicFailure(f"Expected a positive chunk size, but received {compact(size)}")
    items = _list(values)
    return [items[place : place + width] for place in range(0, len(items), width)]


def _contains(values: Any, wanted: Any) -> bool:
    return any(same(each, wanted) for each in _list(values))


def _range(first: Any, last: Any, step: Any) -> list[int]:
    begin, end, stride = _rounded(first), _rounded(last), _rounded(step)
    if stride == 0:
        raise IntrinsicFailure("The increment of a range cannot be zero")
    span = range(begin, end + (1 if stride > 0 else -1), stride)
    if span[LONGEST_RANGE:]:  # ``len`` has a limit of its own
        raise IntrinsicFailure(f"The range can have up to {LONGEST_RANGE} elements")
    return list(span)


def _item(values: Any, place: Any) -> Any:
    items, index = _list(values), _rounded(place)
    if not 0 <= index < len(items):
        raise IntrinsicFailure(f"Index {index} is out of bounds for an array of length {len(items)}")
    return items[index]


def _length(values: Any) -> int:
    return len(_list(values))


def _unique(values: Any) -> list[Any]:
    seen: dict[str, Any] = {}
    for each in _list(values):
        seen.setdefault(json.dumps(each, sort_keys=True), each)
    return list(seen.values())


# ── Texts ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise IntrinsicFailure(f"Expected a string, but received {compact(value)}")
    return value


def _bounded(value: Any) -> str:
    text = _text(value)
    if len(text) > LONGEST_TEXT_CHARACTERS:
        raise IntrinsicFailure(f"The input can have up to {LONGEST_TEXT_CHARACTERS} characters")
    return text


def _encoded(value: Any) -> str:
    return base64.b64encode(_bounded(value).encode()).decode()


def _decoded(value: Any) -> str:
    try:
        return base64.b64decode(_bounded(value), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise IntrinsicFailure(f"Invalid Base64: {error}") from error


def _hash(value: Any, algorithm: Any) -> str:
    name = HASHES.get(algorithm) if isinstance(algorithm, str) else None
    if name is None:
        raise IntrinsicFailure(f"Expected an algorithm of {', '.join(HASHES)}, but received {compact(algorithm)}")
    text = value if isinstance(value, str) else compact(value)
    return hashlib.new(name, _bounded(text).encode(), usedforsecurity=False).hexdigest()


def _split(value: Any, separators: Any) -> list[str]:
    text, splitter = _text(value), _text(separators)
    if not splitter:
        return [text] if text else []
    return [part for part in re.split(f"[{re.escape(splitter)}]", text) if part]


def _merged(one: Any, other: Any, deep: Any) -> dict[str, Any]:
    if deep is not False:
        raise IntrinsicFailure("Only shallow merging is supported: the third argument must be false")
    if not (is_object(one) and is_object(other)):
        raise IntrinsicFailure("Expected two objects")
    return {**one, **other}


def _parsed(value: Any) -> Any:
    text = _text(value)
    if not text.strip():
        return None
    try:
        return read(text)
    except NotJson as error:
        raise IntrinsicFailure(f"Invalid JSON: {error}") from error


# ── Numbers ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _sum(one: Any, other: Any) -> int:
    return _rounded(one) + _rounded(other)


def _random(arguments: list[Any], randomness: Randomness) -> int:
    _check_count(arguments, 2, 3)
    start, end, *seed = map(_plain, arguments)
    first, last = _rounded(start), _rounded(end)
    if first >= last:
        raise IntrinsicFailure(f"The start {first} must be less than the end {last}")
    generator = Random(_rounded(seed[0])) if seed else randomness.generator()
    return generator.randrange(first, last)


def _uuid(arguments: list[Any], randomness: Randomness) -> str:
    _check_count(arguments, 0, 0)
    return randomness.uuid()


# ── Format ──────────────────────────────────────────────────────────────────────────────────────────────────────────

_PLACE: Final = re.compile(r"\\.|\{\}", re.DOTALL)


def _format(arguments: list[Any], _randomness: Randomness) -> str:
    if not arguments:
        raise IntrinsicFailure("Expected a format string")
    template = arguments[0].value if isinstance(arguments[0], Literal) else arguments[0]
    values = [printed(_plain(each)) for each in arguments[1:]]
    places = sum(each[0] == "{}" for each in _PLACE.finditer(_text(template)))
    if places != len(values):
        raise IntrinsicFailure(f"Expected {places} arguments for the format string, but received {len(values)}")
    following = iter(values)

    def put(found: re.Match[str]) -> str:
        return next(following) if found[0] == "{}" else _unescaped(found[0])

    return _PLACE.sub(put, template)


def printed(value: Any) -> str:
    """A value as ``States.Format`` prints it: as Java prints maps and lists.

    >>> printed({"a": 1, "b": ["x", None, True]})
    '{a=1, b=[x, null, true]}'
    """
    match value:
        case str():
            return value
        case None | bool():
            return compact(value)
        case float():
            return _java_double(value)
        case _ if is_object(value):
            return "{" + ", ".join(f"{name}={printed(each)}" for name, each in value.items()) + "}"
        case _ if is_array(value):
            return "[" + ", ".join(map(printed, value)) + "]"
        case _:
            return str(value)


def _java_double(value: float) -> str:
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    mantissa, _, exponent = f"{value:e}".partition("e")
    digits = repr(value / 10 ** int(exponent)) if "e" not in repr(value) else repr(value).partition("e")[0]
    return f"{digits if '.' in digits else digits + '.0'}E{int(exponent)}" if mantissa else repr(value)


FUNCTIONS: Final[dict[str, Function]] = {
    "Array": lambda arguments, _randomness: list(map(_plain, arguments)),
    "ArrayPartition": _plainly(_partition, 2, 2),
    "ArrayContains": _plainly(_contains, 2, 2),
    "ArrayRange": _plainly(_range, 3, 3),
    "ArrayGetItem": _plainly(_item, 2, 2),
    "ArrayLength": _plainly(_length, 1, 1),
    "ArrayUnique": _plainly(_unique, 1, 1),
    "Base64Encode": _plainly(_encoded, 1, 1),
    "Base64Decode": _plainly(_decoded, 1, 1),
    "Hash": _plainly(_hash, 2, 2),
    "JsonMerge": _plainly(_merged, 3, 3),
    "StringToJson": _plainly(_parsed, 1, 1),
    "JsonToString": _plainly(compact, 1, 1),
    "MathRandom": _random,
    "MathAdd": _plainly(_sum, 2, 2),
    "StringSplit": _plainly(_split, 2, 2),
    "UUID": _uuid,
    "Format": _format,
}
