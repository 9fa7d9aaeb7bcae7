"""Requests and responses as data: what every server, gateway and test turns its own into, and back."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Struct

Pairs = tuple[tuple[str, str], ...]


class Remote(Struct, frozen=True):
    """It may come from anywhere."""


class Loopback(Struct, frozen=True):
    """It came over this machine's loopback interface, by no proxy that says so."""


class Vouched(Struct, frozen=True):
    """A gateway in front of us has checked who calls, and calls him ``name``."""

    name: str


Source = Remote | Loopback | Vouched
"""What is known of where a request comes from, besides what it says itself."""

REMOTE: Final = Remote()


class Request(Struct, frozen=True, kw_only=True):
    """A request that has been read whole.

    ``path`` and ``query`` are as they were sent, still percent-encoded; the path begins with a slash, below whatever
    the API is mounted under. Names of headers are in lower case.
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
    """A response that has been made whole. Names of headers are in lower case; text is Latin-1, as HTTP has it."""

    status: int
    headers: Pairs = ()
    body: bytes = b""

    def header(self, name: str) -> str | None:
        """The value of a header; ``name`` in lower case."""
        return next((value for each, value in self.headers if each == name), None)


ALWAYS: Final[Pairs] = (("cache-control", "no-store"), ("x-content-type-options", "nosniff"))
"""Headers of every response: what is answered may be private, and is never a page."""

JSON: Final = "application/json"


def json_response(status: int, value: Any, *headers: tuple[str, str], kind: str = JSON) -> Response:
    """A response whose body is ``value`` as JSON."""
    body = msgspec.json.encode(value)
    return Response(status, (("content-type", kind), ("content-length", str(len(body))), *ALWAYS, *headers), body)


def empty_response(status: int = 204) -> Response:
    """A response that says all by its status."""
    return Response(status, ALWAYS)
