"""Requests and responses as data. Each server, gateway and test converts its own form to them and back."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from holdfast.errors import InvalidInput

Pairs = tuple[tuple[str, str], ...]


class Remote(Struct, frozen=True):
    """The request may come from anywhere."""


class Loopback(Struct, frozen=True):
    """The request came over this machine's loopback interface, and no proxy says that it forwarded it."""


class Vouched(Struct, frozen=True):
    """A gateway in front of the app has authenticated the caller as ``name``. The app decides what it may do."""

    name: str


Source = Remote | Loopback | Vouched
"""What is known of a request's origin, apart from what the request itself says."""

REMOTE: Final = Remote()


class Request(Struct, frozen=True, kw_only=True):
    """A request that has been read whole.

    ``path`` and ``query`` are as they were sent, still percent-encoded. The path begins with a slash, and is relative
    to the mount point of the API. Names of headers are in lower case.
    """

    method: str
    path: str
    query: str = ""
    headers: Pairs = ()
    body: bytes = b""
    source: Source = REMOTE

    def header_values(self, name: str) -> tuple[str, ...]:
        """All values of a header, in order; ``name`` in lower case."""
        return tuple(value for each, value in self.headers if each == name)


class Response(Struct, frozen=True, array_like=True):
    """A whole response. Names of headers are in lower case; header text is Latin-1, as in HTTP."""

    status: int
    headers: Pairs = ()
    body: bytes = b""

    def header(self, name: str) -> str | None:
        """The value of a header; ``name`` in lower case."""
        return next((value for each, value in self.headers if each == name), None)


ALWAYS: Final[Pairs] = (("cache-control", "no-store"), ("x-content-type-options", "nosniff"))
"""Headers of every response: it may be private, and is never a web page."""

JSON: Final = "application/json"


def json_response(status: int, value: Any, *headers: tuple[str, str], kind: str = JSON) -> Response:
    """A response whose body is ``value`` as JSON."""
    body = msgspec.json.encode(value)
    return Response(status, (("content-type", kind), ("content-length", str(len(body))), *ALWAYS, *headers), body)


def empty_response(status: int = 204) -> Response:
    """A response without a body."""
    return Response(status, ALWAYS)


# ── Ids in headers ──────────────────────────────────────────────────────────────────────────────────────────────────

LONGEST_ID_CHARACTERS: Final = 255

_QUOTED: Final = re.compile(r'"(?:[^"\\]|\\["\\])*"')
_ESCAPED: Final = re.compile(r"\\(.)")


def header_id(name: str, values: Sequence[str]) -> str:
    """The id in the header of this name: a string as RFC 8941 writes it, or bare, as many clients send it.

    Raises ``InvalidInput`` unless there is one, printable and of sensible length.
    """
    if len(values) != 1:
        raise InvalidInput(f"this request must have one {name} header, got {len(values)}")
    text = values[0].strip()
    if text.startswith('"'):
        if not _QUOTED.fullmatch(text):
            raise InvalidInput(f"the {name} begins with a quote, but is not a quoted string")
        text = _ESCAPED.sub(r"\1", text[1:-1])
    if not text or len(text) > LONGEST_ID_CHARACTERS or not (text.isascii() and text.isprintable()):
        raise InvalidInput(f"{name}: an id must have 1 to {LONGEST_ID_CHARACTERS} printable ASCII characters")
    return text
