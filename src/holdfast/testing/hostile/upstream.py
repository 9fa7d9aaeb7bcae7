"""The emulator behind the proxy, over connections that are kept open."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from holdfast.errors import InvalidInput
from holdfast.testing.hostile.wire import MalformedMessage, Message, Messages

IDLE_SECONDS: Final = 5.0
"""The emulator closes what was not used for half a minute."""

CONNECTIONS: Final = 64
ANSWERS_WITHIN_SECONDS: Final = 60.0
TARGET: Final = "DynamoDB_20120810."
AUTHORIZATION: Final = (
    b"AWS4-HMAC-SHA256 Credential=hostile/20260101/eu-west-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0"
)
"""Emulators ask who calls, and check no signature."""


class Reply(msgspec.Struct, frozen=True):
    """What the emulator said."""

    status: int
    body: bytes

    def content(self) -> dict[str, Any]:
        """The body."""
        found: dict[str, Any] = msgspec.json.decode(self.body)
        return found


class Upstream:
    """Performs operations on the emulator at this address."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme != "http" or parts.hostname is None:
            raise InvalidInput(f"an emulator has an address such as http://127.0.0.1:8000, got {url!r}")
        self._host, self._port = parts.hostname, parts.port or 80
        self._idle: list[_Connection] = []
        self._all: set[_Connection] = set()
        self._slots = asyncio.Semaphore(CONNECTIONS)

    async def send(self, target: str, body: bytes, authorization: bytes = AUTHORIZATION) -> Reply:
        """The reply to one request. Raises ``OSError`` if there is none, or it took too long."""
        head = (
            f"POST / HTTP/1.1\r\nHost: {self._host}:{self._port}\r\nContent-Type: application/x-amz-json-1.0\r\n"
            f"X-Amz-Target: {target}\r\nContent-Length: {len(body)}\r\nAuthorization: "
        )
        async with self._slots:
            connection = await self._connection()
            try:
                async with asyncio.timeout(ANSWERS_WITHIN_SECONDS):
                    message = await connection.ask(head.encode() + authorization + b"\r\n\r\n" + body)
            except BaseException:
                connection.close()
                raise
            if message.headers.get(b"connection", b"").lower() == b"close":
                connection.close()
            else:
                self._idle.append(connection)
        return Reply(int(message.first_line.split(b" ", 2)[1]), message.body)

    async def call(self, operation: str, parameters: dict[str, Any]) -> dict[str, Any]:
        """The answer to an operation of our own. Raises ``LookupError`` with the refusal."""
        reply = await self.send(TARGET + operation, msgspec.json.encode(parameters))
        if reply.status != 200:
            raise LookupError(f"{operation}: {reply.body.decode(errors='replace')}")
        return reply.content()

    async def _connection(self) -> _Connection:
        now = asyncio.get_running_loop().time()
        while self._idle:
            connection = self._idle.pop()
            if connection.is_open and now - connection.used_at < IDLE_SECONDS:
                return connection
            connection.close()
        loop = asyncio.get_running_loop()
        _, made = await loop.create_connection(lambda: _Connection(self._all.discard), self._host, self._port)
        self._all.add(made)
        return made

    def abort(self) -> None:
        """Close what is open, and do not wait."""
        for connection in self._all:
            connection.close()

    async def close(self) -> None:
        """Close what is open."""
        self.abort()
        while self._all:
            await asyncio.sleep(0)


class _Connection(asyncio.Protocol):
    """One connection: a request, its reply, the next request."""

    def __init__(self, lost: Callable[[_Connection], None]) -> None:
        self.used_at = 0.0
        self._lost = lost
        self._messages = Messages()
        self._transport: asyncio.Transport | None = None
        self._reply: asyncio.Future[Message] | None = None

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    async def ask(self, request: bytes) -> Message:
        assert self._transport is not None
        loop = asyncio.get_running_loop()
        self._reply = loop.create_future()
        self._transport.write(request)
        reply = await self._reply
        self.used_at = loop.time()
        return reply

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        try:
            for message in self._messages.feed(data):
                if self._reply is not None and not self._reply.done():
                    self._reply.set_result(message)
        except MalformedMessage:
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost(self)
        if self._reply is not None and not self._reply.done():
            self._reply.set_exception(ConnectionResetError(f"the emulator closed the connection: {exc}"))

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()
