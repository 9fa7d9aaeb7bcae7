"""Serving by uvicorn, which the extra ``server`` brings. Nothing else imports this."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Final

from uvicorn import Config, Server

from holdfast.http.asgi import AsgiApi

MOST_CONNECTIONS: Final = 1_000
KEEP_ALIVE_SECONDS: Final = 5


class AnnouncedServer(Server):
    """A server that tells when it serves, and whose waits end when it stops."""

    def __init__(self, config: Config, api: AsgiApi, announce: Callable[[], None]) -> None:
        super().__init__(config)
        self._api = api
        self._announce = announce

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to serve."""
        await super().startup(sockets=sockets)
        if self.started:
            self._announce()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop, and let nobody wait for what comes later."""
        self._api.end_waits()
        await super().shutdown(sockets=sockets)


def serve(api: AsgiApi, listener: socket.socket, *, grace_seconds: float, announce: Callable[[], None]) -> bool:
    """Serve until a signal ends it; false if it could not begin. ``announce`` is called when it serves."""
    config = Config(
        api,
        lifespan="on",
        access_log=False,  # it would hold the tokens of callbacks
        log_level="warning",
        proxy_headers=False,  # what a proxy says of who calls is not believed here
        server_header=False,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=max(1, round(grace_seconds)),
    )
    server = AnnouncedServer(config, api, announce)
    server.run(sockets=[listener])
    return server.started
