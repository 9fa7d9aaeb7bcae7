"""One HTTP exchange over ASGI: its request is read whole, and its response is held back until it may be sent.

See the ASGI specification, "HTTP & WebSocket ASGI Message Format".
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, Final

from holdfast.errors import HoldfastError, PayloadTooLarge
from holdfast.http.messages import Response
from holdfast.http.problems import Problem

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


Settle = Callable[[Response | None, str], Awaitable[HoldfastError | None]]
"""Called before a response is sent, with the whole response, or with the reason why it cannot be kept. An error that it
returns is sent instead.
"""

Refuse = Callable[[HoldfastError, Send], Awaitable[None]]
"""Sends an error as a response."""


LONGEST_LENGTH_DIGITS: Final = 18
"""The digits of a ``Content-Length`` that are read. A longer one is too large in any case."""

BODY_SECONDS: Final = 30.0
"""How long a body may take to arrive by default."""


async def read_whole(
    receive: Receive, check_size: Callable[[int], None], timeout_seconds: float = BODY_SECONDS
) -> bytes | None:
    """The body of a request; ``None`` if the client leaves. ``check_size`` raises if the body has become too large.

    Raises ``Problem`` if the body takes too long.
    """
    limit = asyncio.timeout(timeout_seconds)
    try:
        async with limit:
            return await _read_whole(receive, check_size)
    except TimeoutError:
        if not limit.expired():
            raise
        raise Problem(408, "too_slow", f"the body did not arrive within {timeout_seconds} s") from None


async def _read_whole(receive: Receive, check_size: Callable[[int], None]) -> bytes | None:
    chunks: list[bytes] = []
    size_bytes = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        chunks.append(message.get("body", b""))
        size_bytes += len(chunks[-1])
        check_size(size_bytes)
        if not message.get("more_body", False):
            return b"".join(chunks)


def announced_bytes(lengths: Iterable[str]) -> int:
    """The size of the body according to the ``Content-Length`` headers; 0 without one."""
    told = (each.strip() for each in lengths)
    return max((int(each[:LONGEST_LENGTH_DIGITS]) for each in told if each.isascii() and each.isdigit()), default=0)


async def send_response(response: Response, send: Send, *more: tuple[str, str]) -> None:
    """Send a response, with ``more`` headers."""
    headers = [
        (name.encode("latin-1", "replace"), value.encode("latin-1", "replace"))
        for name, value in (*response.headers, *more)
    ]
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    await send({"type": "http.response.body", "body": response.body})


class Exchange:
    """A request whose body has been read, and the gate that its response passes."""

    def __init__(self, scope: Scope, body: bytes, receive: Receive, send: Send, limit_bytes: int) -> None:
        # A server's extensions, such as sending files, would bypass the gate.
        self.scope: Scope = {**scope, "extensions": {}}
        self.body = body
        self.settled = False
        self._receive = receive
        self._send = send
        self._read = False
        self._start: Message | None = None
        self._chunks: list[bytes] = []
        self._size_bytes = 0
        self._limit_bytes = limit_bytes
        self._streams = False

    @classmethod
    async def read(
        cls, scope: Scope, receive: Receive, send: Send, limit_bytes: int, grow_to: Callable[[int], None]
    ) -> Exchange | None:
        """Read the whole request; ``None`` if the client leaves. ``grow_to`` is called with its size as it grows.

        Raises ``PayloadTooLarge``, what ``grow_to`` raises, and ``Problem`` if the request takes too long.
        """

        def check(size_bytes: int) -> None:
            if size_bytes > limit_bytes:
                raise PayloadTooLarge(
                    f"the request must be at most {limit_bytes} bytes, to be compared with its repeats"
                )

        lengths = [value for name, value in scope["headers"] if name.lower() == b"content-length"]
        check(announced_bytes(each.decode("latin-1") for each in lengths))

        def grown_to(size_bytes: int) -> None:
            check(size_bytes)
            grow_to(size_bytes)

        body = await read_whole(receive, grown_to)
        return None if body is None else cls(scope, body, receive, send, limit_bytes)

    async def receive(self) -> Message:
        """The request in one piece; after that, what the server sends."""
        if self._read:
            return await self._receive()
        self._read = True
        return {"type": "http.request", "body": self.body, "more_body": False}

    def gate(self, settle: Settle, refuse: Refuse) -> Send:
        """The ``send`` of the application. A response is sent whole once it is settled, or an error is sent instead.
        A response over the limit is streamed, and not kept.
        """

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._start = message
            elif message["type"] == "http.response.body" and self._start is not None:
                chunk, last = message.get("body", b""), not message.get("more_body", False)
                await (self._stream if self._streams else self._collect)(chunk, last, settle, refuse)
            else:
                await self._send(message)

        return send

    async def _collect(self, chunk: bytes, last: bool, settle: Settle, refuse: Refuse) -> None:  # noqa: FBT001 - as ASGI has it
        assert self._start is not None
        self._chunks.append(chunk)
        self._size_bytes += len(chunk)
        if stored_bytes(self._size_bytes, self._start) > self._limit_bytes:
            self._streams = True
            await self._send(self._start)
            await self._stream(b"".join(self._chunks), last, settle, refuse)
            return
        if not last:
            return
        response = response_of(self._start, b"".join(self._chunks))
        self.settled = True
        error = await settle(response, "")
        if error is not None:
            await refuse(error, self._send)
            return
        await send_response(response, self._send)

    async def _stream(self, chunk: bytes, last: bool, settle: Settle, _refuse: Refuse) -> None:  # noqa: FBT001 - as ASGI has it
        if last:
            self.settled = True
            await settle(None, f"it is over the limit of {self._limit_bytes} bytes")
        await self._send({"type": "http.response.body", "body": chunk, "more_body": not last})


def response_of(start: Message, body: bytes) -> Response:
    """The response with this first message and this body."""
    headers = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in start.get("headers", ()))
    return Response(start["status"], headers, body)


def stored_bytes(size_bytes: int, start: Message) -> int:
    """About the size of a response as JSON, with its body in base 64."""
    return (size_bytes + 2) // 3 * 4 + sum(len(name) + len(value) + 10 for name, value in start.get("headers", ())) + 50
