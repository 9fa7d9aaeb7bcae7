"""A shop behind the API, on each world, and clients that speak to it without a network."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from tests.worlds import *
from tests.worlds import World

import holdfast as hf
from holdfast.http.api import Options
from holdfast.http.respond import respond


@dataclass
class Line:
    sku: str
    n: int


@dataclass
class Placed:
    order: str


class NotEnough(Exception):
    pass


class Api:
    """The routes as functions: ``status, answer = await api.post("/v1/…", value)``."""

    def __init__(self, app: hf.App, **options: Any) -> None:
        self.app = app
        self.options = Options(**({"authenticate": lambda _request: "tester"} | options))
        self.headers: dict[str, str] = {}

    async def send(self, method: str, path: str, body: bytes = b"", **headers: str) -> hf.Response:
        path, _, query = path.partition("?")
        given = tuple((name.replace("_", "-"), value) for name, value in (self.headers | headers).items())
        request = hf.Request(method=method, path=path, query=query, headers=given, body=body)
        return await respond(self.app, request, self.options)

    async def post(self, path: str, value: Any = None, **headers: str) -> tuple[int, Any]:
        body = b"" if value is None else json.dumps(value).encode()
        return read(await self.send("POST", path, body, **headers))

    async def get(self, path: str, **headers: str) -> tuple[int, Any]:
        return read(await self.send("GET", path, **headers))

    async def delete(self, path: str, **headers: str) -> tuple[int, Any]:
        return read(await self.send("DELETE", path, **headers))


def read(response: hf.Response) -> tuple[int, Any]:
    if response.status >= 400:
        problem = json.loads(response.body)
        assert response.header("content-type") == "application/problem+json"
        assert problem["status"] == response.status
        assert {"title", "status", "detail", "code"} <= problem.keys()
    if (response.header("content-type") or "").startswith("text/"):
        return response.status, response.body.decode()
    return response.status, json.loads(response.body) if response.body else None


class Shop:
    """The app, and what came of it."""

    def __init__(self, app: hf.App) -> None:
        self.app = app
        self.tokens: list[str] = []
        self.runs: list[str] = []
        self.handled: list[str] = []
        self.go, self.hangs = asyncio.Event(), asyncio.Event()
        declare(self)

    @asynccontextmanager
    async def working(self, **options: Any) -> AsyncIterator[Api]:
        async with self.app.worker():
            yield Api(self.app, **options)


def declare(shop: Shop) -> None:
    app = shop.app

    @app.step
    async def charge(card: str, cents: int) -> str:
        shop.runs.append(card)
        if card == "bad":
            raise hf.Terminal("the card was declined")
        return f"pay-{card}-{cents}"

    @app.workflow
    async def checkout(card: str, cents: int = 100) -> dict[str, str]:
        return {"payment": await charge(card, cents)}

    @app.workflow
    async def approval(amount: int) -> str:
        @hf.query
        def asked() -> int:
            return amount

        @hf.query
        def broken() -> float:
            return 1 / 0

        return f"{await hf.signal('decision', Line)}: {amount}"

    @app.step
    async def tell(token: str) -> None:
        shop.tokens.append(token)

    @app.workflow
    async def parcel(heartbeat: str | None = None) -> str:
        callback = hf.callback(str, heartbeat=heartbeat)
        await tell(callback.token)
        try:
            return await callback
        except hf.StepFailed as error:
            return f"failed: {error}"

    class Cart(hf.Actor, app=app, raises=(NotEnough,)):
        items: dict[str, int] = hf.field(default_factory=dict)

        async def add(self, sku: str, n: int = 1) -> Line:
            if n > 9:
                raise NotEnough(f"only 9 of {sku}")
            if sku == "bug":
                raise ZeroDivisionError("oops")
            self.items[sku] = self.items.get(sku, 0) + n
            return Line(sku, self.items[sku])

        async def hang(self) -> None:
            shop.hangs.set()
            await shop.go.wait()

        @hf.read
        async def total(self, sku: str = "") -> int:
            return self.items.get(sku, 0) if sku else sum(self.items.values())

    class Till(hf.Actor, app=app, mailbox=1):
        cents: int = 0

        async def pay(self, cents: int = 1) -> int:
            self.cents += cents
            return self.cents

    @app.consumer(Placed)
    async def bill(event: Placed) -> None:
        shop.handled.append(event.order)


@pytest.fixture
def shop(world: World) -> Shop:
    return Shop(world.app())


@pytest.fixture
def memory_shop(memory_world: World) -> Shop:
    return Shop(memory_world.app())


# ── ASGI ────────────────────────────────────────────────────────────────────────────────────────────────────────────


class Connection:
    """One ASGI connection, as a server makes it: what arrives is put in, what is sent is kept."""

    def __init__(self, method: str = "GET", path: str = "/", **scope: Any) -> None:
        path, _, query = path.partition("?")
        headers = [(b"host", b"127.0.0.1:8080"), *scope.pop("headers", [])]
        self.scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": headers,
            "server": ("127.0.0.1", 8080),
            "client": ("127.0.0.1", 50000),
        } | scope
        self.arriving: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.sent: list[dict[str, Any]] = []

    def arrives(self, body: bytes = b"", *, more: bool = False) -> Connection:
        self.arriving.put_nowait({"type": "http.request", "body": body, "more_body": more})
        return self

    def hangs_up(self) -> Connection:
        self.arriving.put_nowait({"type": "http.disconnect"})
        return self

    async def serve(self, api: Any) -> Connection:
        await api(self.scope, self.arriving.get, self._send)
        return self

    async def _send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)

    @property
    def status(self) -> int:
        return self.sent[0]["status"]

    @property
    def headers(self) -> dict[str, str]:
        return {name.decode(): value.decode() for name, value in self.sent[0]["headers"]}

    @property
    def answer(self) -> Any:
        return json.loads(b"".join(each.get("body", b"") for each in self.sent[1:]))
