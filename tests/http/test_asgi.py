"""The API as an ASGI application: bodies in pieces, slow clients, clients that leave, the life of the server."""

from __future__ import annotations

import asyncio
import json

import pytest
from tests.http.conftest import Connection

import holdfast as hf
from holdfast.http.asgi import request_of
from holdfast.http.messages import Loopback, Remote

BODY = json.dumps(["tok"]).encode()


async def test_a_request_is_read_whole_and_answered(memory_shop):
    async with memory_shop.app.worker():
        served = Connection("POST", "/v1/workflows/checkout/a?wait=10s")
        for byte in BODY:
            served.arrives(bytes([byte]), more=True)
        await served.arrives().serve(memory_shop.app.asgi())
        assert served.status == 200
        assert served.answer["result"] == {"payment": "pay-tok-100"}
        assert served.headers["content-type"] == "application/json"


async def test_a_body_over_the_limit_is_refused_while_it_arrives(memory_shop):
    api = memory_shop.app.asgi(limits=hf.HttpLimits(body_bytes=10))
    async with memory_shop.app:
        served = (
            Connection("POST", "/v1/workflows/checkout/a").arrives(b"x" * 8, more=True).arrives(b"x" * 8, more=True)
        )
        await served.serve(api)
        assert (served.status, served.answer["code"]) == (413, "payload_too_large")
        assert served.headers["connection"] == "close"


@pytest.mark.parametrize("length", [b"11", b"9" * 5000])
async def test_a_body_that_says_it_is_over_the_limit_is_not_read(memory_shop, length):
    api = memory_shop.app.asgi(limits=hf.HttpLimits(body_bytes=10))
    async with memory_shop.app:
        served = Connection("POST", "/v1/workflows/checkout/a", headers=[(b"content-length", length)])
        await served.serve(api)  # nothing arrives, and nothing is waited for
        assert served.status == 413


async def test_a_slow_body_is_given_up(memory_shop):
    api = memory_shop.app.asgi(limits=hf.HttpLimits(body_seconds=0.0))
    async with memory_shop.app:
        served = await Connection("POST", "/v1/workflows/checkout/a").arrives(b"[", more=True).serve(api)
        assert (served.status, served.answer["code"]) == (408, "too_slow")
        assert "within 0.0 s" in served.answer["detail"]
        assert memory_shop.runs == []


async def test_a_client_that_leaves_before_the_body_is_there_has_asked_nothing(memory_shop):
    async with memory_shop.app.worker():
        served = Connection("POST", "/v1/workflows/checkout/a").arrives(BODY, more=True).hangs_up()
        await served.serve(memory_shop.app.asgi())
        assert served.sent == []
        with pytest.raises(hf.NotFound):
            await memory_shop.app.handle("checkout", "a").status()


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/v1/workflows/approval/a?wait=10m"), ("POST", "/v1/workflows/approval/a?wait=10m")],
)
async def test_a_client_that_leaves_while_he_waits_is_waited_for_no_more(memory_shop, method, path):
    """The wait alone would take longer than a test may."""
    app = memory_shop.app
    api = app.asgi(limits=hf.HttpLimits(wait_seconds=600))
    told = []
    app.telemetry.subscribe(lambda event, fields: told.append((event, fields.get("status"))))
    async with app.worker():
        await app.registry.workflow("approval").start(7, id="a")
        served = Connection(method, path).arrives(b"[7]" if method == "POST" else b"").hangs_up()
        await served.serve(api)
        assert served.sent == []
        assert ("http_answered", 499) in told
        assert not app.runtime().wake_listeners._by_partition
        assert (await app.handle("approval", "a").status()).ended_at is None


async def test_a_server_that_stops_waits_for_nothing(memory_shop, eventually):
    app = memory_shop.app
    api = app.asgi(limits=hf.HttpLimits(wait_seconds=600))
    async with app.worker():
        await app.registry.workflow("approval").start(7, id="a")
        looks = Connection("GET", "/v1/workflows/approval/a?wait=10m").arrives()
        calls = Connection("POST", "/v1/actors/Cart/k/hang").arrives()
        serving = asyncio.gather(looks.serve(api), calls.serve(api))
        await eventually(lambda: app.runtime().wake_listeners._by_partition and app.runtime().host.entities)
        api.end_waits()
        await serving
        assert (looks.status, looks.answer["ended_at"]) == (200, None)
        assert (calls.status, calls.answer["code"]) == (504, "wait_timeout")
        assert not api._serving
        memory_shop.go.set()


async def test_a_caller_of_an_actor_who_leaves_has_called_all_the_same(memory_shop, eventually):
    app = memory_shop.app
    async with app.worker():
        served = Connection("POST", "/v1/actors/Cart/k/hang", headers=[(b"request-id", b"r-1")]).arrives()
        serving = asyncio.ensure_future(served.serve(app.asgi()))
        await eventually(lambda: app.runtime().host.entities)
        served.hangs_up()
        await serving
        assert served.sent == []
        memory_shop.go.set()

        async def completed():
            return await app.actor("Cart", "k").request_status("r-1") == "completed"

        await eventually(completed)


async def test_a_client_that_leaves_during_the_response_is_no_error(memory_shop):
    async def broken(_message):
        raise OSError("connection reset")

    async with memory_shop.app:
        served = Connection("GET", "/v1/health").arrives()
        await memory_shop.app.asgi()(served.scope, served.arriving.get, broken)


# ── What a connection tells ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("scope", "path"),
    [
        ({"raw_path": b"/v1/workflows/c/a%2Fb"}, "/v1/workflows/c/a%2Fb"),
        ({"raw_path": b"/v1/health?x=1"}, "/v1/health"),
        ({"raw_path": None}, "/v1/workflows/c/%C3%BC%20b"),
        ({"raw_path": b"/hf/v1/health", "root_path": "/hf"}, "/v1/health"),
        ({"raw_path": b"/h%20f/v1/health", "root_path": "/h f"}, "/v1/health"),
        ({"raw_path": b"/v1/health", "root_path": "/hf"}, "/v1/health"),
        ({"raw_path": b"/hfv1/health", "root_path": "/hf"}, "/hfv1/health"),
    ],
)
def test_the_path_is_as_it_was_sent_below_what_the_api_is_mounted_under(scope, path):
    assert request_of(Connection("GET", "/v1/workflows/c/ü b", **scope).scope).path == path


@pytest.mark.parametrize(
    ("scope", "local"),
    [
        ({}, True),
        ({"server": ("::1", 80), "client": ("::1", 9)}, True),
        ({"server": ("10.0.0.1", 80), "client": ("10.0.0.2", 9)}, False),
        ({"server": ("127.0.0.1", 80), "client": ("10.0.0.2", 9)}, False),
        ({"server": ("10.0.0.1", 80)}, False),
        ({"server": None}, False),
        ({"client": None}, False),
        ({"server": ("/run/shop.sock", None)}, False),
        ({"headers": [(b"X-Forwarded-For", b"10.0.0.2")]}, False),
        ({"headers": [(b"forwarded", b"for=10.0.0.2")]}, False),
        ({"headers": [(b"via", b"1.1 proxy")]}, False),
    ],
)
def test_a_request_is_local_only_if_both_ends_are_and_no_proxy_says_otherwise(scope, local):
    assert request_of(Connection("GET", "/", **scope).scope).source == (Loopback() if local else Remote())


async def test_remote_callers_are_refused_without_authentication(memory_shop):
    async with memory_shop.app:
        served = Connection("GET", "/v1/workflows", server=("10.0.0.1", 80), client=("10.0.0.2", 9)).arrives()
        await served.serve(memory_shop.app.asgi())
        assert served.status == 401
        served = Connection("GET", "/v1/health", server=("10.0.0.1", 80), client=("10.0.0.2", 9)).arrives()
        assert (await served.serve(memory_shop.app.asgi())).answer == {"status": "ok"}


# ── The life of the server ──────────────────────────────────────────────────────────────────────────────────────────


class Life:
    """A server's lifespan connection."""

    def __init__(self, api):
        self.arriving = asyncio.Queue()
        self.sent = asyncio.Queue()
        self.task = asyncio.ensure_future(api({"type": "lifespan"}, self.arriving.get, self.sent.put))

    async def tell(self, what):
        self.arriving.put_nowait({"type": f"lifespan.{what}"})
        return await self.sent.get()


@pytest.mark.parametrize("worker", [False, True])
async def test_the_app_is_open_while_the_server_lives(memory_shop, worker):
    app = memory_shop.app
    api = app.asgi(worker=worker)
    life = Life(api)
    assert await life.tell("startup") == {"type": "lifespan.startup.complete"}
    assert (app.runtime().host is not None) == worker
    served = await Connection("POST", "/v1/workflows/checkout/a").arrives(BODY).serve(api)
    assert served.status == 202
    if worker:
        assert await app.handle("checkout", "a") == {"payment": "pay-tok-100"}
    assert await life.tell("shutdown") == {"type": "lifespan.shutdown.complete"}
    await life.task
    with pytest.raises(hf.ConfigurationError):
        app.runtime()


async def test_a_home_that_cannot_be_opened_is_told_to_the_server():
    life = Life(hf.App("shop", home="nowhere://").asgi())
    failed = await life.tell("startup")
    assert failed["type"] == "lifespan.startup.failed"
    assert "nowhere://" in failed["message"]
    with pytest.raises(hf.ConfigurationError):
        await life.task


async def test_of_another_failure_at_the_opening_the_server_hears_the_type():
    async def fails():
        raise RuntimeError("canary")

    life = Life(hf.App("shop", home=fails).asgi())
    assert await life.tell("startup") == {"type": "lifespan.startup.failed", "message": "RuntimeError"}
    with pytest.raises(RuntimeError):
        await life.task


async def test_a_websocket_is_closed(memory_shop):
    served = Connection(type="websocket").arrives()
    assert (await served.serve(memory_shop.app.asgi())).sent == [{"type": "websocket.close", "code": 1000}]


async def test_it_can_be_a_part_of_a_starlette_application(memory_shop):
    from starlette.applications import Starlette
    from starlette.routing import Mount

    site = Starlette(routes=[Mount("/hf", memory_shop.app.asgi())])
    async with memory_shop.app.worker():
        served = await Connection("POST", "/hf/v1/workflows/checkout/a%2Fb?wait=10s").arrives(BODY).serve(site)
        assert (served.status, served.answer["id"]) == (200, "a/b")
