"""Answers of HTTP/1.1 from the bytes of a connection (RFC 9112, sections 4 to 7, https://www.rfc-editor.org/rfc/rfc9112).

An answer is taken only if all of it is there: by its length, by the last chunk, and by the checksum that DynamoDB sends
with it.
"""

from __future__ import annotations

import zlib
from typing import Final

from msgspec import Struct

from holdfast.backends.aws.connection import AnswerCut

HEAD_END: Final = b"\r\n\r\n"
LONGEST_HEAD_BYTES: Final = 64 * 1024
LONGEST_BODY_BYTES: Final = 64 * 1024 * 1024
"""A batch of reads has 16 MB of items at the most ("BatchGetItem", API reference), which is more on the wire."""

LONGEST_NUMBER: Final = 12
HEXADECIMAL: Final = frozenset(b"0123456789abcdefABCDEF")
FINAL: Final = (b"2", b"3", b"4", b"5")
CHECKSUM: Final = b"x-amz-crc32"


class HttpAnswer(Struct, frozen=True):
    """A whole answer. ``keeps``: the connection may be used again."""

    status: int
    headers: dict[bytes, bytes]
    body: bytes
    keeps: bool


class AnswerReader:
    """Reads one answer."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._status = 0
        self._headers: dict[bytes, bytes] = {}
        self._length: int | None = None
        self._body_at = 0

    def feed(self, data: bytes) -> HttpAnswer | None:
        """The answer, if these bytes complete it. Raises ``AnswerCut`` if what came is none, or was damaged."""
        self._buffer += data
        if not self._body_at and not self._read_head():
            return None
        body = self._chunks() if self._length is None else self._exactly(self._length)
        return None if body is None else self._checked(body)

    def _read_head(self) -> bool:
        end = self._buffer.find(HEAD_END)
        if end < 0:
            if len(self._buffer) > LONGEST_HEAD_BYTES:
                raise AnswerCut("the headers of the answer have no end")
            return False
        first, *lines = bytes(self._buffer[:end]).split(b"\r\n")
        version, _, rest = first.partition(b" ")
        if version not in (b"HTTP/1.1", b"HTTP/1.0") or not rest[:3].isdigit() or not rest.startswith(FINAL):
            raise AnswerCut(f"the answer begins with {first[:40]!r}")
        headers = self._headers
        for line in lines:
            name, _, value = line.partition(b":")
            headers[name.lower()] = value.strip()
        if version == b"HTTP/1.0":
            headers.setdefault(b"connection", b"close")
        self._status, self._body_at = int(rest[:3]), end + len(HEAD_END)
        self._length = None if b"transfer-encoding" in headers else self._told_length()
        return True

    def _told_length(self) -> int:
        told = self._headers.get(b"content-length", b"")
        if not told.isdigit() or len(told) > LONGEST_NUMBER or int(told) > LONGEST_BODY_BYTES:
            raise AnswerCut(f"the length of the answer is {told[:40]!r}")
        return int(told)

    def _exactly(self, length: int) -> bytes | None:
        end = self._body_at + length
        if len(self._buffer) < end:
            return None
        return self._taken(bytes(self._buffer[self._body_at : end]), end)

    def _taken(self, body: bytes, end: int) -> bytes:
        if len(self._buffer) > end:  # it would be taken for the beginning of the next answer
            self._headers[b"connection"] = b"close"
        return body

    def _chunks(self) -> bytes | None:
        if self._headers[b"transfer-encoding"].lower() != b"chunked":
            raise AnswerCut("the answer is encoded in an unknown way")
        if len(self._buffer) > LONGEST_BODY_BYTES:
            raise AnswerCut("the answer has no end")
        at, body = self._body_at, bytearray()
        while (end := self._buffer.find(b"\r\n", at)) >= 0:
            told = bytes(self._buffer[at:end]).partition(b";")[0].strip()
            if not told or not HEXADECIMAL.issuperset(told) or len(told) > LONGEST_NUMBER:
                raise AnswerCut("the size of a chunk is no number")
            size = int(told, 16)
            at = end + 2
            if size == 0:
                return self._after_chunks(bytes(body), at)
            if len(self._buffer) < at + size + 2:
                return None
            body += self._buffer[at : at + size]
            at += size + 2
        return None

    def _after_chunks(self, body: bytes, at: int) -> bytes | None:
        """Trailers may follow, and an empty line."""
        if self._buffer.startswith(b"\r\n", at):
            return self._taken(body, at + 2)
        end = self._buffer.find(HEAD_END, at)
        return None if end < 0 else self._taken(body, end + len(HEAD_END))

    def _checked(self, body: bytes) -> HttpAnswer:
        told = self._headers.get(CHECKSUM)
        if told is not None and told != str(zlib.crc32(body)).encode():
            raise AnswerCut("the checksum of the answer is another one")
        return HttpAnswer(self._status, self._headers, body, self._headers.get(b"connection", b"").lower() != b"close")
