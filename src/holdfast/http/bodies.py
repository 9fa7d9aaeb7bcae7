"""Bodies that arrive: none is read before its caller is admitted, and all together take bounded memory."""

from __future__ import annotations

import asyncio
from typing import Final

from holdfast.http.api import ClientGone, ClientWait
from holdfast.http.exchange import Receive, Scope, read_whole
from holdfast.http.limits import HttpLimits, check_body_size
from holdfast.http.room import Room, Share

LENGTH: Final = b"content-length"
CODING: Final = b"transfer-encoding"


class ArrivingBody:
    """The body of one request. Once it has arrived, the next message says that the client has left."""

    def __init__(self, scope: Scope, receive: Receive, limits: HttpLimits, room: Room, patience: ClientWait) -> None:
        self._receive = receive
        self._limits = limits
        self._share = Share(room)
        self._patience = patience
        self._watch: asyncio.Future[None] | None = None
        self._outstanding = any(
            name.lower() == CODING or (name.lower() == LENGTH and value.strip(b"0 "))
            for name, value in scope["headers"]
        )

    @property
    def outstanding(self) -> bool:
        """Whether a part of the body has not arrived yet."""
        return self._outstanding

    async def read(self) -> bytes:
        """The whole body. Raises ``Problem`` if it is too large or too slow, ``ClientGone`` if the client leaves."""
        self._outstanding = True
        body = await read_whole(self._receive, self._grown_to, self._limits.body_seconds)
        if body is None:
            self._patience.client_leaves()
            raise ClientGone
        self._outstanding = False
        self._watch = asyncio.ensure_future(_watch(self._receive, self._patience))
        return body

    async def close(self) -> None:
        """The request has its response: release the body's memory and stop watching the client."""
        self._share.give_back()
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)

    def _grown_to(self, size_bytes: int) -> None:
        check_body_size(size_bytes, self._limits)
        self._share.grow_to(size_bytes)


async def _watch(receive: Receive, patience: ClientWait) -> None:
    """Wait until the client has left, and say so."""
    while (await receive())["type"] != "http.disconnect":
        pass
    patience.client_leaves()
