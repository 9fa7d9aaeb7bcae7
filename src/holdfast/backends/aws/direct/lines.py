"""Connections to one host that stay open: each has a request, its answer, and then the next request.

A request is sent once. If its answer does not come, the transport decides whether to send it again.
"""

from __future__ import annotations

import asyncio
import select
import socket
from collections.abc import AsyncIterator
from ssl import SSLContext
from typing import Final, cast

from holdfast.backends.aws.connection import READ_SECONDS, AnswerCut
from holdfast.backends.aws.direct.answers import AnswerReader, HttpAnswer

OPEN_SECONDS: Final = 4.0
"""For the look-up of the name, the connection, and TLS. A packet that was lost is sent again after a second."""

IDLE_SECONDS: Final = 300.0
"""A connection that was not used for longer is not used again. A NAT gateway drops one after 350 seconds ("Troubleshoot
NAT gateways", VPC user guide: https://docs.aws.amazon.com/vpc/latest/userguide/nat-gateway-troubleshooting.html)."""


class NotSent(Exception):
    """There is no connection, so the request was not sent."""


class Lines:
    """The connections to a host."""

    def __init__(self, host: str, port: int, tls: SSLContext | None) -> None:
        self._host = host
        self._port = port
        self._tls = tls
        self._idle: list[_Line] = []
        self._all: set[_Line] = set()
        self._lasting: AsyncIterator[None] | None = None

    async def ask(self, request: bytes) -> HttpAnswer:
        """The answer to one request. Raises ``NotSent``, and ``AnswerCut`` if it may have arrived."""
        line = self._free() or await self._open()
        try:
            answer = await line.ask(request)
        except BaseException:
            line.abort()
            raise
        if answer.keeps:
            self._idle.append(line)
        else:
            line.abort()
        return answer

    def close(self) -> None:
        """Close all of them at once."""
        for line in list(self._all):
            line.abort()

    async def _last(self) -> AsyncIterator[None]:
        """As long as the loop: ``asyncio.run`` ends it like all asynchronous generators, which closes what is open."""
        try:
            yield
        finally:
            self.close()

    def _free(self) -> _Line | None:
        """The one that was used last. The others are for when there is more to do, and get old."""
        while self._idle:
            line = self._idle.pop()
            if line.is_usable():
                return line
            line.abort()
        return None

    async def _open(self) -> _Line:
        loop = asyncio.get_running_loop()
        if self._lasting is None:
            self._lasting = self._last()
            await anext(self._lasting)
        try:
            async with asyncio.timeout(OPEN_SECONDS):
                _, line = await loop.create_connection(
                    lambda: _Line(loop, self._all), self._host, self._port, ssl=self._tls
                )
        except OSError as error:  # a time-out, too, and what TLS objects to
            raise NotSent(f"no connection to {self._host}:{self._port}: {str(error) or 'it took too long'}") from error
        return line


class _Line(asyncio.Protocol):
    """One connection. It is among those that are ``there`` while it is open."""

    def __init__(self, loop: asyncio.AbstractEventLoop, there: set[_Line]) -> None:
        self._loop = loop
        self._there = there
        self._transport: asyncio.Transport | None = None
        self._reader: AnswerReader | None = None
        self._answer: asyncio.Future[HttpAnswer] | None = None
        self._heard_at = 0.0
        self._watch: asyncio.TimerHandle | None = None

    async def ask(self, request: bytes) -> HttpAnswer:
        """Send a request, and wait for its answer. Raises ``NotSent``, ``AnswerCut``."""
        assert self._transport is not None
        self._reader, self._answer = AnswerReader(), self._loop.create_future()
        self._heard_at = self._loop.time()
        self._watch = self._loop.call_later(READ_SECONDS, self._look)
        try:
            if self._transport.is_closing():
                raise NotSent("the connection was closed as soon as it was there")
            self._transport.write(request)
            return await self._answer
        finally:
            self._watch.cancel()
            self._reader = self._answer = None

    def is_usable(self) -> bool:
        """Whether it is still open, as far as one can see here.

        The loop hears of an end only when it runs, and a function that was frozen has not run.
        """
        if self._transport is None or self._transport.is_closing():
            return False
        if self._loop.time() - self._heard_at > IDLE_SECONDS:
            return False
        return not _has_news(self._transport.get_extra_info("socket").fileno())

    def abort(self) -> None:
        """Close it. Nothing that matters is on its way."""
        if self._transport is not None:
            self._transport.abort()

    # ── What the loop calls ─────────────────────────────────────────────────────────────────────────────────────────

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's are of no class of asyncio
        # Nor has its socket such options. A duplicate shares those of the original (dup(2)).
        number = self._transport.get_extra_info("socket").fileno()
        with socket.fromfd(number, socket.AF_INET, socket.SOCK_STREAM) as same:
            same.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._there.add(self)

    def data_received(self, data: bytes) -> None:
        if self._reader is None or self._answer is None or self._answer.done():
            self.abort()  # it is no answer to anything
            return
        self._heard_at = self._loop.time()
        try:
            answer = self._reader.feed(data)
        except AnswerCut as error:
            self._answer.set_exception(error)
            return
        if answer is not None:
            self._answer.set_result(answer)

    def connection_lost(self, exc: Exception | None) -> None:
        self._there.discard(self)
        self._fail(AnswerCut(f"the connection was closed before the answer was there{f': {exc}' if exc else ''}"))

    def _look(self) -> None:
        """Whether the answer is coming."""
        left = self._heard_at + READ_SECONDS - self._loop.time()
        if left > 0:
            self._watch = self._loop.call_later(left, self._look)
        else:
            self._fail(AnswerCut(f"no answer in {READ_SECONDS:.0f} seconds"))

    def _fail(self, error: AnswerCut) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)


def _has_news(number: int) -> bool:
    """Whether a socket has something to read, such as its end. Between two requests there should be nothing."""
    if not hasattr(select, "poll"):  # Windows, where no number is too large for the other one
        return bool(select.select([number], [], [], 0)[0])
    ready = select.poll()
    ready.register(number, select.POLLIN)
    return bool(ready.poll(0))
