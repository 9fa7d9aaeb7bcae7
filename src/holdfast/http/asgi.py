"""The API as an ASGI 3 application, for uvicorn, hypercorn, granian, or as a part of another ASGI application.

It follows the ASGI specification, "HTTP & WebSocket ASGI Message Format" and "Lifespan Protocol". It needs no
framework.
"""

from __future__ import annotations

import contextlib
from typing import Final, Protocol
from urllib.parse import quote

from holdfast.errors import HoldfastError
from holdfast.http.api import ClientWait, Options, Served
from holdfast.http.bodies import ArrivingBody
from holdfast.http.exchange import Receive, Scope, Send, send_response
from holdfast.http.local import LocalCallers
from holdfast.http.messages import REMOTE, Loopback, Request, Response, Source
from holdfast.http.network import is_loopback_address
from holdfast.http.respond import respond
from holdfast.http.room import Room
from holdfast.opened import Openable

FORWARDED: Final = frozenset({"forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via"})
"""Headers of proxies: a request with one of them comes from another machine."""


class Servable(Openable, Served, Protocol):
    """An app that can be opened and served."""


class Site(Protocol):
    """Pages of an app, as an ASGI application without a lifespan."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...

    def end_waits(self) -> None:
        """End what waits for news: the server stops."""
        ...

    def login_path(self) -> str | None:
        """The path below the pages by which this machine's user logs in, once; ``None`` if no code is needed."""
        ...


class Mounted(Protocol):
    """What makes the pages that are served below a path, next to the API."""

    @property
    def path(self) -> str: ...

    def site(self, app: Servable, options: Options) -> Site:
        """The pages of an app. Raises ``ConfigurationError`` if they need what is not installed."""
        ...


class AsgiApi:
    """The API of an app. The app is open during the server's lifespan; with ``works`` it also runs a worker.

    With ``mounted`` its pages are served below its path, and the API next to them; at the path ``/`` they are all that
    is served.
    """

    def __init__(self, app: Servable, options: Options, *, works: bool, mounted: Mounted | None = None) -> None:
        self._app = app
        self._options = options
        self._works = works
        self._mount_path = "" if mounted is None else mounted.path.rstrip("/")
        self.site = None if mounted is None else mounted.site(app, options)
        self._serving: set[ClientWait] = set()
        self._room = Room(options.limits.bodies_bytes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI connection."""
        match scope["type"]:
            case "http" if self.site is not None and (inner := _below(scope, self._mount_path)) is not None:
                await self.site(inner, receive, send)
            case "http":
                await self._serve(scope, receive, send)
            case "lifespan":
                await self._live(receive, send)
            case "websocket":
                await receive()
                await send({"type": "websocket.close", "code": 1000})
            case other:
                raise NotImplementedError(f"ASGI has connections of the type {other!r}, which this API does not serve")

    def end_waits(self) -> None:
        """Make routes that wait answer the current status: the server stops."""
        for patience in self._serving:
            patience.server_stops()
        if self.site is not None:
            self.site.end_waits()

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        patience = ClientWait()
        body = ArrivingBody(scope, receive, self._options.limits, self._room, patience)
        self._serving.add(patience)
        try:
            response = await respond(
                self._app, request_of(scope), self._options, patience=patience, read_body=body.read
            )
        finally:
            self._serving.discard(patience)
            await body.close()
        if not patience.client_has_left:
            # The rest of a body is not read, so no next request can be found behind it.
            await _send_to_client(response, send, *((("connection", "close"),) if body.outstanding else ()))

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        stage = "startup"
        try:
            async with self._app.worker() if self._works else self._app:
                if self._options.authenticate is None:
                    LocalCallers(self._app).prepare()
                await send({"type": "lifespan.startup.complete"})
                await receive()
                stage = "shutdown"
        except Exception as error:
            told = f"{type(error).__name__}: {error}" if isinstance(error, HoldfastError) else type(error).__name__
            await send({"type": f"lifespan.{stage}.failed", "message": told})
            raise
        await send({"type": "lifespan.shutdown.complete"})


def request_of(scope: Scope) -> Request:
    """The request in an ASGI scope, without its body."""
    headers = tuple((name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in scope["headers"])
    return Request(
        method=scope["method"],
        path=_path(scope),
        query=scope.get("query_string", b"").decode("latin-1"),
        headers=headers,
        source=_source(scope, {name for name, _ in headers}),
    )


def _path(scope: Scope) -> str:
    """The path as it was sent, below the mount point of this application."""
    raw = scope.get("raw_path")
    path = quote(scope["path"]) if raw is None else raw.decode("latin-1").partition("?")[0]
    root = quote(scope.get("root_path", "")).rstrip("/")
    return path.removeprefix(root) if root and path.startswith(f"{root}/") else path


def _below(scope: Scope, mount_path: str) -> Scope | None:
    """The scope of a request as an application that is mounted at this path sees it; ``None`` for another path."""
    root = str(scope.get("root_path", "")).rstrip("/")
    path = str(scope["path"])
    inner = path.removeprefix(root) if root and path.startswith(f"{root}/") else path
    if inner != mount_path and not inner.startswith(f"{mount_path}/"):
        return None
    below = inner.removeprefix(mount_path) or "/"
    return {**scope, "root_path": root + mount_path, "path": f"{root}{mount_path}{below}"}


def _source(scope: Scope, headers: set[str]) -> Source:
    """``Loopback`` if both ends of the connection are on this machine and no proxy says otherwise."""
    ends = (scope.get("server"), scope.get("client"))
    if all(end is not None and is_loopback_address(str(end[0])) for end in ends) and not headers & FORWARDED:
        return Loopback()
    return REMOTE


async def _send_to_client(response: Response, send: Send, *more: tuple[str, str]) -> None:
    """Send a response. It is not an error if the client has left."""
    with contextlib.suppress(OSError):  # what servers raise then, by version 2.4 of the specification
        await send_response(response, send, *more)
