"""The proxy: a port of this machine, served by a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from typing import Self

from holdfast.testing.hostile.answers import Answer, succeeded
from holdfast.testing.hostile.report import Report
from holdfast.testing.hostile.rules import LIKE_THE_SERVICE, Rules
from holdfast.testing.hostile.server import LOOPBACK, ClientConnection, Clients
from holdfast.testing.hostile.service import Cut, Service
from holdfast.testing.hostile.upstream import Upstream
from holdfast.testing.hostile.wire import Message

STOPS_WITHIN_SECONDS = 10.0


class HostileDynamoDB:
    """A DynamoDB that behaves as the service does where an emulator is kind, in front of the emulator at
    ``upstream_url``; only from this machine.

    It is a context manager, with or without ``async``. Within, ``url`` is the endpoint for clients, and ``report`` says
    what has happened to them. ``rules`` say what happens; ``LIKE_THE_SERVICE`` and ``HOSTILE`` are there. Decisions are
    drawn from ``seed`` and the number of the request; so one client that sends one request after another suffers the
    same in each run. Signatures are not checked. PartiQL, streams and local indexes pass as they are.

        with HostileDynamoDB("http://127.0.0.1:8000", seed=7, rules=HOSTILE) as dynamodb:
            app.home_url = f"aws://shop?region=eu-west-1&endpoint={dynamodb.url}"

    Raises ``InvalidInput`` for an address that is none; if the emulator does not answer, clients get a status of 500.
    """

    def __init__(self, upstream_url: str, *, seed: int = 0, rules: Rules = LIKE_THE_SERVICE, port: int = 0) -> None:
        self.report = Report()
        self._upstream_url = upstream_url
        self._seed = seed
        self._rules = rules
        self._port = port
        self._ready = threading.Event()
        self._failed: BaseException | None = None
        self._stop: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """The endpoint for clients."""
        return f"http://{LOOPBACK}:{self._port}"

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._run, name="hostile-dynamodb", daemon=True)
        self._thread.start()
        self._ready.wait()
        if self._failed is not None:
            raise self._failed
        return self

    def __exit__(self, *_: object) -> None:
        if self._stop is not None:
            loop, stop = self._stop
            loop.call_soon_threadsafe(stop.set)
        if self._thread is not None:
            self._thread.join(STOPS_WITHIN_SECONDS)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, *_: object) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self.__exit__)

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # noqa: BLE001 - whatever it is, the thread that waits is to raise it
            self._failed = error
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        loop, stop = asyncio.get_running_loop(), asyncio.Event()
        upstream = Upstream(self._upstream_url)
        service = Service(upstream, self._rules, self._seed, self.report)
        clients = Clients()

        async def respond(request: Message) -> Answer | Cut:
            if request.first_line.startswith(b"GET "):
                return succeeded(self.report.as_json())
            target = request.headers.get(b"x-amz-target", b"").decode("latin-1")
            return await service.answer(target, request.body, request.headers.get(b"authorization", b""))

        server = await loop.create_server(
            lambda: ClientConnection(respond, clients), LOOPBACK, self._port, backlog=1024
        )
        self._port = server.sockets[0].getsockname()[1]
        self._stop = loop, stop
        self._ready.set()
        try:
            await stop.wait()
        finally:
            server.close()
            await clients.close()
            await upstream.close()
