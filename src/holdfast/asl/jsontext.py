"""JSON text of state machines: read strictly, and written as AWS prints it inside messages and strings.

What is read here can be stored, sent and read again by anything: no NaN, no number beyond a float, no half of a
surrogate pair, no nesting that ends a recursion. Of a field that an object has twice the last one counts, as at AWS.
"""

from __future__ import annotations

import json
from typing import Any, Final, NoReturn, TypeGuard

import msgspec

from holdfast.codec.jsontext import NESTING_LIMIT_LEVELS, UNREADABLE, nests_too_deep
from holdfast.errors import InvalidInput

DEFINITION_LEVELS: Final = 120
"""How deep lists and objects of a definition may nest."""

DEFINITION_CHARACTERS: Final = 1_048_576
"""How long a definition may be (API Reference, "CreateStateMachine", ``definition``)."""

_decode: Final = msgspec.json.Decoder().decode
_encode: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
"""``json.dumps`` with such options makes an encoder for each value."""


class NotJson(InvalidInput):
    """A text is no JSON, or holds what cannot be carried on. Its message says what, and quotes nothing of the text."""


class TooDeep(NotJson):
    """A text nests deeper than it may."""


def reference_token(part: str | int) -> str:
    """A part of a JSON pointer, with its slash (RFC 6901, 3: https://www.rfc-editor.org/rfc/rfc6901).

    >>> reference_token("a/b~c")
    '/a~1b~0c'
    """
    return "/" + str(part).replace("~", "~0").replace("/", "~1")


def read(text: str, levels: int = NESTING_LIMIT_LEVELS) -> Any:
    """The value of a JSON text, which nests at most ``levels`` deep. Raises ``NotJson``.

    >>> read('{"b": [1, 1.0], "a": null}')
    {'b': [1, 1.0], 'a': None}
    """
    try:
        data = text.encode()
        if not nests_too_deep(data, levels):
            return _decode(data)
    except UNREADABLE as error:
        raise NotJson(_why(text, error)) from None
    raise TooDeep(f"it nests more than {levels} levels deep")


def _why(text: str, error: Exception) -> str:
    """What is wrong, with the place if it is the grammar."""
    try:
        json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as told:
        return str(told)
    if "out of range" in str(error):
        return "it has a number that is out of range"
    return "it has half of a surrogate pair, which is no character of Unicode"


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"JSON has no {name}")


def written(value: Any, levels: int = NESTING_LIMIT_LEVELS) -> str:
    """A value of Python as JSON text that ``read`` reads again. Raises ``NotJson``."""
    try:
        text = compact(value)
    except RecursionError:
        raise TooDeep(f"it nests more than {levels} levels deep") from None
    except (TypeError, ValueError) as error:
        raise NotJson(f"it has no JSON form: {error}") from None
    read(text, levels)
    return text


def compact(value: Any) -> str:
    """The value as compact JSON.

    >>> compact({"b": [1, "é"], "a": None})
    '{"b":[1,"é"],"a":null}'
    """
    return _encode(value)


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
