"""HTTP/1.1 by hand, as far as clients of DynamoDB and its emulators speak it (RFC 9112, sections 2 to 7)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

LONGEST_HEAD_BYTES: Final = 64 * 1024
HEAD_END: Final = b"\r\n\r\n"
CHUNKED: Final = b"chunked"


class Message(Struct, frozen=True):
    """A request or a response: its first line, its headers by their names in lower case, its body."""

    first_line: bytes
    headers: dict[bytes, bytes]
    body: bytes


class MalformedMessage(Exception):
    """What came is no message of HTTP/1.1."""


class Messages:
    """Messages from the bytes of a connection."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._head: tuple[bytes, dict[bytes, bytes], int] | None = None

    def feed(self, data: bytes) -> Iterator[Message]:
        """The messages that are complete with these bytes. Raises ``MalformedMessage``."""
        self._buffer += data
        while (message := self._next()) is not None:
            yield message

    def _next(self) -> Message | None:
        if self._head is None and not self._read_head():
            return None
        assert self._head is not None
        first_line, headers, length = self._head
        if headers.get(b"transfer-encoding", b"").lower() == CHUNKED:
            body = self._chunks()
            if body is None:
                return None
        elif len(self._buffer) < length:
            return None
        else:
            body = bytes(self._buffer[:length])
            del self._buffer[:length]
        self._head = None
        return Message(first_line, headers, body)

    def _read_head(self) -> bool:
        end = self._buffer.find(HEAD_END)
        if end < 0:
            if len(self._buffer) > LONGEST_HEAD_BYTES:
                raise MalformedMessage("its head is too long")
            return False
        first_line, *lines = bytes(self._buffer[:end]).split(b"\r\n")
        del self._buffer[: end + len(HEAD_END)]
        headers: dict[bytes, bytes] = {}
        for line in lines:
            name, _, value = line.partition(b":")
            headers[name.lower()] = value.strip()
        length = headers.get(b"content-length", b"0")
        if not length.isdigit():
            raise MalformedMessage("its length is no number")
        self._head = first_line, headers, int(length)
        return True

    def _chunks(self) -> bytes | None:
        """The body of a chunked message, when all of it is there."""
        at, body = 0, bytearray()
        while True:
            end = self._buffer.find(b"\r\n", at)
            if end < 0:
                return None
            try:
                size = int(bytes(self._buffer[at:end]).partition(b";")[0], 16)
            except ValueError:
                raise MalformedMessage("the size of a chunk is no number") from None
            at = end + 2
            if len(self._buffer) < at + size + 2:
                return None
            body += self._buffer[at : at + size]
            at += size + 2
            if size == 0:
                del self._buffer[:at]
                return bytes(body)
