"""Values that are never shown: a password, a key, the number of a card."""

from __future__ import annotations

import hmac
from typing import Any, Final, cast

import msgspec
from msgspec import Struct

HIDDEN: Final = "***"
MARK: Final = "$secret"
"""The key of a secret in JSON, so that code that shows JSON recognises one without its type."""

_IN_JSON: Final = f'"{MARK}"'.encode()


class Secret(Struct, frozen=True, eq=False, rename={"_text": MARK}):
    """Text that prints as ``***``: by ``repr``, ``str`` and ``format``, in logs, in tracebacks with locals, in errors,
    on the command line and over HTTP. ``reveal()`` returns the text.

    Use it as the hint of a parameter, a result or a field. In JSON it is ``{"$secret": "…"}``; that is the form for
    input from outside, and in the store: only a seal of the home encrypts it.

    >>> password = Secret("hunter2")
    >>> password, f"{password:>10}", ValueError(password), password.reveal()
    (***, '***', ValueError(***), 'hunter2')
    """

    _text: str

    def __post_init__(self) -> None:
        given: Any = self._text  # whatever its annotation says
        if not isinstance(given, str):
            raise TypeError(f"a Secret must be text (str), got {type(given).__qualname__}")

    def reveal(self) -> str:
        """The text itself."""
        return self._text

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(*(each.reveal().encode("utf-8", "surrogatepass") for each in (self, other)))

    def __hash__(self) -> int:
        return hash((Secret, self._text))

    def __repr__(self) -> str:
        return HIDDEN

    def __str__(self) -> str:
        return HIDDEN

    def __format__(self, _spec: str) -> str:
        return HIDDEN

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("text", HIDDEN)]


def redacted(tree: Any) -> Any:
    """Plain JSON data with ``***`` for every secret.

    >>> redacted({"user": "ann", "password": {"$secret": "hunter2"}})
    {'user': 'ann', 'password': '***'}
    """
    match tree:
        case dict():
            held = cast("dict[Any, Any]", tree)
            return HIDDEN if MARK in held else {key: redacted(value) for key, value in held.items()}
        case list() | tuple():
            return [redacted(value) for value in cast("list[Any]", tree)]
        case _:
            return tree


def redacted_json(data: bytes) -> bytes:
    """JSON with ``***`` for every secret.

    >>> redacted_json(b'[1, {"$secret": "hunter2"}]')
    b'[1,"***"]'
    """
    return msgspec.json.encode(redacted(msgspec.json.decode(data))) if _IN_JSON in data else data
