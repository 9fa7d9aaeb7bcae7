"""The port that clients talk to."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from holdfast.testing.hostile.answers import Answer, refused
from holdfast.testing.hostile.service import Cut
from holdfast.testing.hostile.wire import MalformedMessage, Message, Messages

LOOPBACK: Final = "127.0.0.1"

Respond = Callable[[Message], Awaitable[Answer | Cut]]


class Clients:
    """The open connections, and the answers under way."""

    def __init__(self) -> None:
        self.open: set[asyncio.Transport] = set()
        self.tasks: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        """End them all at once."""
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        for transport in list(self.open):
            transport.abort()
        while self.open:
            await asyncio.sleep(0)


class ClientConnection(asyncio.Protocol):
    """One client: its requests are answered one after another. A request under way is finished if it leaves."""

    def __init__(self, respond: Respond, clients: Clients) -> None:
        self._respond = respond
        self._clients = clients
        self._messages = Messages()
        self._waiting: list[Message] = []
        self._answering = False
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._clients.open.add(transport)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the signature of asyncio
        assert self._transport is not None
        self._clients.open.discard(self._transport)

    def data_received(self, data: bytes) -> None:
        try:
            self._waiting += self._messages.feed(data)
        except MalformedMessage as error:
            self._send(refused("SerializationException", str(error)))
            self._close()
        if self._waiting and not self._answering:
            self._answering = True
            task = asyncio.get_running_loop().create_task(self._answer())
            self._clients.tasks.add(task)
            task.add_done_callback(self._clients.tasks.discard)

    async def _answer(self) -> None:
        try:
            while self._waiting:
                self._send(await self._respond(self._waiting.pop(0)))
        finally:
            self._answering = False

    def _send(self, answer: Answer | Cut) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        if isinstance(answer, Answer):
            self._transport.write(answer.as_bytes())
            return
        self._transport.write(answer.sent)
        self._close()

    def _close(self) -> None:
        if self._transport is not None:
            self._transport.close()
