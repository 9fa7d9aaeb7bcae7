"""Serving by uvicorn, which the extra ``server`` brings. Nothing else imports this."""

from __future__ import annotations

import asyncio
import resource
import socket
from collections.abc import Callable
from functools import partial
from typing import Any, Final, cast

import h11
from uvicorn import Config, Server
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from holdfast.http.asgi import AsgiApi
from holdfast.http.connections import ConnectionLimits, Crowd

KEEP_ALIVE_SECONDS: Final = 5

LINGER_SECONDS: Final = 2.0
"""How long a client that is still sending may take to read the response that refused it."""

ACCEPTED_AT_ONCE: Final = 64
WAITING_FOR_ACCEPT: Final = 2048
"""How many connections the system queues. Each accepted one costs a file descriptor."""

TICKS_PER_SWEEP: Final = 10

FULL: Final = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nretry-after: 1\r\nconnection: close\r\n\r\n"


class GuardedConnection(H11Protocol):
    """A connection that is counted in a ``Crowd``, and is served only if that has room."""

    def __init__(self, crowd: Crowd, **given: Any) -> None:
        super().__init__(**given)
        self.address = ""
        self._crowd = crowd
        self._socket: asyncio.Transport | None = None
        self._admitted = False
        self._lingers = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """The connection begins: count it, or refuse it."""
        self._socket = transport
        # Otherwise the body of a response waits until its client acknowledges the head: 40 ms.
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        peer = transport.get_extra_info("peername")
        self.address = str(peer[0]) if peer else ""
        if not self._crowd.admit(self, self.loop.time()):
            transport.write(FULL)
            transport.close()
            return
        self._admitted = True
        super().connection_made(cast("asyncio.Transport", _Ending(transport, self._end)))

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection has ended."""
        self._crowd.leaves(self)
        if self._admitted:
            super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Data has arrived."""
        if self._lingers:
            return
        super().data_received(data)
        self._note()

    def on_response_complete(self) -> None:
        """A response is complete."""
        super().on_response_complete()
        self._note()

    def pause_writing(self) -> None:
        """The client reads nothing: from now on its connection counts as quiet."""
        super().pause_writing()
        self._note()

    def resume_writing(self) -> None:
        """The client reads again."""
        super().resume_writing()
        self._note()

    def close(self) -> None:
        """See ``Guest.close``."""
        assert self._socket is not None
        self._socket.close()

    def abort(self) -> None:
        """See ``Guest.abort``."""
        assert self._socket is not None
        self._socket.abort()

    def _note(self) -> None:
        cycle = cast("RequestResponseCycle | None", self.cycle)
        if cycle is not None and not cycle.response_complete and not self.flow.write_paused:
            self._crowd.begins(self)
        else:
            self._crowd.rests(self, self.loop.time())

    def _end(self) -> None:
        """Close the connection. A client that is still sending a body gets time to read its response first.

        Data that arrives after a socket was closed is answered by a reset, which discards what was not read yet.
        """
        assert self._socket is not None
        if self._lingers:
            return
        if self.conn.their_state is not h11.SEND_BODY:
            self._socket.close()
            return
        self._lingers = True
        self._socket.write_eof()
        self.flow.resume_reading()
        self.flow.resume_reading()
        self.loop.call_later(LINGER_SECONDS, self._socket.abort)


class _Ending:
    """A transport that its connection closes."""

    def __init__(self, transport: asyncio.Transport, end: Callable[[], None]) -> None:
        self._transport = transport
        self._end = end
        self._ended = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def close(self) -> None:
        self._ended = True
        self._end()

    def is_closing(self) -> bool:
        return self._ended or self._transport.is_closing()


class AnnouncedServer(Server):
    """A server that announces when it serves, and ends waits when it stops."""

    def __init__(self, config: Config, api: AsgiApi, crowd: Crowd, announce: Callable[[], None]) -> None:
        super().__init__(config)
        self._api = api
        self._crowd = crowd
        self._announce = announce

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to serve."""
        await super().startup(sockets=sockets)
        for each in sockets or ():
            each.listen(WAITING_FOR_ACCEPT)
        if self.started:
            self._announce()

    async def on_tick(self, counter: int) -> bool:
        """Ten times a second: end quiet connections that are due."""
        if counter % TICKS_PER_SWEEP == 0:
            self._crowd.sweep(asyncio.get_running_loop().time())
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop. Requests that wait are answered at once."""
        self._api.end_waits()
        await super().shutdown(sockets=sockets)


def serve(
    api: AsgiApi,
    listener: socket.socket,
    *,
    grace_seconds: float,
    limits: ConnectionLimits,
    announce: Callable[[], None],
) -> bool:
    """Serve until a signal arrives; ``announce`` is called once it serves. Returns false if it could not start."""
    server = server_of(api, grace_seconds=grace_seconds, limits=limits, announce=announce)
    server.run(sockets=[listener])
    return server.started


def server_of(
    api: AsgiApi, *, grace_seconds: float, limits: ConnectionLimits, announce: Callable[[], None]
) -> AnnouncedServer:
    """The server of an API. Raises ``ConfigurationError`` if this process has too few file descriptors."""
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    crowd = Crowd(limits if descriptors == resource.RLIM_INFINITY else limits.within(descriptors))
    config = Config(
        api,
        http=cast("type[asyncio.Protocol]", partial(GuardedConnection, crowd)),
        ws="none",
        lifespan="on",
        access_log=False,  # it would hold the tokens of callbacks
        log_level="error",  # a warning per malformed request would fill the log during an attack
        proxy_headers=False,  # a proxy's word on the caller is not trusted
        server_header=False,
        backlog=ACCEPTED_AT_ONCE,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=max(1, round(grace_seconds)),
    )
    return AnnouncedServer(config, api, crowd, announce)
