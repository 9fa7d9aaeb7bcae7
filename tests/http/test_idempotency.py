"""The Idempotency-Key header: one run for each key, the same response for repeats, the draft's errors for the rest."""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import dataclass, field
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

import holdfast as hf
from holdfast.http import IdempotentRequests, anybody, exchange, idempotency


@dataclass
class Answer:
    """What a client sees."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    messages: int = 0

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def replayed(self) -> bool:
        return self.headers.get("idempotent-replayed") == "true"


async def request(
    asgi: Any,
    key: str | list[str] | None = "k-1",
    body: bytes = b'{"cents":100}',
    *,
    method: str = "POST",
    path: str = "/charges",
    query: str = "",
    **headers: str,
) -> Answer:
    """One request, its body in two pieces."""
    keys = [key] if isinstance(key, str) else key or []
    headers = {"Authorization": "Bearer tester"} | headers
    sent = [("Idempotency-Key", each) for each in keys] + [(name, value) for name, value in headers.items() if value]
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in sent],
        "server": ("test", 80),
        "client": ("test", 1),
        "extensions": {"http.response.pathsend": {}},
    }
    coming = [
        {"type": "http.request", "body": body[:3], "more_body": True},
        {"type": "http.request", "body": body[3:], "more_body": False},
    ]
    answer = Answer()

    async def receive() -> Any:
        if coming:
            return coming.pop(0)
        return await asyncio.Event().wait()

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            answer.status = message["status"]
            answer.headers = {name.decode(): value.decode("latin-1") for name, value in message["headers"]}
        else:
            answer.body += message.get("body", b"")
            answer.messages += 1

    await asgi(scope, receive, send)
    return answer


class Shop:
    """A web application that counts what it does."""

    def __init__(self, app: hf.App, **options: Any) -> None:
        self.app = app
        self.runs: list[Any] = []
        self.status = 201
        self.go = asyncio.Event()
        self.go.set()
        self.began = asyncio.Event()
        self.asgi = Starlette(
            routes=[
                Route("/charges", self.charge, methods=["GET", "POST", "PATCH"]),
                Route("/refunds", self.charge, methods=["POST"]),
                Route("/large", self.large, methods=["POST"]),
                Route("/broken", self.broken, methods=["POST"]),
                Route("/later", self.later, methods=["POST"]),
            ],
            middleware=[Middleware(IdempotentRequests, app=app, **options)],
        )

    async def charge(self, request: Request) -> Response:
        self.runs.append(await request.body())
        self.began.set()
        await self.go.wait()
        response = JSONResponse({"run": len(self.runs), "é": "ü"}, self.status, {"Location": "/charges/1"})
        response.set_cookie("seen", "yes")
        return response

    async def large(self, request: Request) -> Response:
        self.runs.append(await request.body())

        async def pieces():
            for _ in range(10):
                yield b"x" * 100

        return StreamingResponse(pieces(), media_type="text/plain")

    async def broken(self, request: Request) -> Response:
        self.runs.append(await request.body())
        raise OSError("the line is dead")

    async def later(self, request: Request) -> Response:
        self.began.set()
        return Response(b"soon", background=BackgroundTask(self.go.wait))

    def __call__(self, *args: Any, **more: Any) -> Any:
        return request(self.asgi, *args, **more)


@pytest.fixture
def shop(world):
    return Shop(world.app())


async def test_a_repeat_gets_the_same_response_marked_as_such(shop):
    async with shop.app:
        first, again = await shop(), await shop()
        assert first.status == 201 and not first.replayed
        assert again.replayed and (again.status, again.body) == (first.status, first.body)
        assert again.headers == first.headers | {"idempotent-replayed": "true"}
        assert (await shop("k-2")).json["run"] == 2
        assert (await shop('"k-1"')).replayed, "a key as a structured field is the same key"
    assert shop.runs == [b'{"cents":100}'] * 2


@pytest.mark.parametrize(
    "other",
    [{"body": b'{"cents":200}'}, {"path": "/refunds"}, {"query": "fast=1"}, {"method": "PATCH"}],
    ids=str,
)
async def test_another_request_under_the_same_key_is_unprocessable(shop, other):
    async with shop.app:
        await shop()
        answer = await shop(**other)
    assert answer.status == 422 and answer.json["code"] == "idempotency_mismatch"
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    "key",
    [None, "", "   ", '""', '"open', '"a"b"', "x" * 256, "tab\there", "é", ["a", "b"]],
    ids=repr,
)
async def test_a_request_without_a_proper_key_is_a_bad_one(shop, key):
    async with shop.app:
        answer = await shop(key)
    assert answer.status == 400 and answer.json["code"] == "invalid_input" and not shop.runs


async def test_keys_may_be_optional_and_other_methods_need_none(memory_world):
    shop = Shop(memory_world.app(), required=False)
    async with shop.app:
        assert [(await shop(None)).json["run"] for _ in range(2)] == [1, 2]
        assert [(await shop("k")).json["run"] for _ in range(2)] == [3, 3]
        assert [(await shop("k", method="GET")).json["run"] for _ in range(2)] == [4, 5]


async def test_while_the_first_is_at_work_the_second_conflicts(shop):
    shop.go.clear()
    async with shop.app:
        first = asyncio.create_task(shop())
        await shop.began.wait()
        second = await shop()
        assert second.status == 409 and int(second.headers["retry-after"]) >= 1 and second.json["code"] == "busy"
        shop.go.set()
        assert (await first).status == 201
        assert (await shop()).replayed
    assert len(shop.runs) == 1


async def test_the_second_may_wait(memory_world):
    shop = Shop(memory_world.app(), wait="10s")
    shop.go.clear()
    async with shop.app:
        first = asyncio.create_task(shop())
        await shop.began.wait()
        second = asyncio.create_task(shop())
        await asyncio.sleep(0)
        shop.go.set()
        assert (await second).replayed and (await first).status == 201


async def test_callers_do_not_see_each_others_responses(shop):
    async with shop.app:
        assert (await shop(Authorization="Bearer a")).json["run"] == 1
        other = await shop(Authorization="Bearer b")
        assert other.json["run"] == 2 and not other.replayed
        assert (await shop(Authorization="Bearer a")).replayed


async def test_who_calls_can_be_said(memory_world):
    shop = Shop(memory_world.app(), caller=lambda scope: dict(scope["headers"]).get(b"cookie", b"").decode())
    async with shop.app:
        assert [(await shop(Cookie=who)).json["run"] for who in ("a", "b", "a")] == [1, 2, 1]


@pytest.mark.parametrize(("status", "kept"), [(200, True), (404, True), (422, True), (429, False), (500, False)])
async def test_responses_that_ask_for_another_try_are_not_kept(memory_world, status, kept):
    shop = Shop(memory_world.app())
    shop.status = status
    async with shop.app:
        assert [(await shop()).status for _ in range(2)] == [status] * 2
    assert len(shop.runs) == (1 if kept else 2)


async def test_an_application_that_raises_may_be_asked_again(memory_world):
    shop = Shop(memory_world.app())
    async with shop.app:
        for _ in range(2):
            with pytest.raises(OSError, match="dead"):
                await shop(path="/broken")
    assert len(shop.runs) == 2


async def test_an_application_that_never_answers_may_be_asked_again(memory_world):
    runs = []

    async def silent(scope, receive, send):
        runs.append(await receive())

    app = memory_world.app()
    async with app:
        for _ in range(2):
            await request(IdempotentRequests(silent, app))
    assert len(runs) == 2


async def test_a_response_leaves_before_what_runs_in_the_background(memory_world):
    shop = Shop(memory_world.app())
    shop.go.clear()
    async with shop.app:
        first = asyncio.create_task(shop(path="/later"))
        await shop.began.wait()
        while not (again := await shop(path="/later")).replayed:
            assert again.status == 409
        assert again.body == b"soon" and not first.done()
        shop.go.set()
        assert (await first).body == b"soon"


async def test_a_response_over_the_limit_reaches_its_client_and_is_not_run_again(memory_world):
    shop = Shop(memory_world.app(limit_bytes=600))
    async with shop.app:
        first = await shop(path="/large")
        assert first.body == b"x" * 1000 and first.status == 200 and first.messages > 2
        again = await shop(path="/large")
        assert again.status == 500 and again.json["code"] == "result_not_stored"
        too_large = await shop(body=b"x" * 601)
        assert too_large.status == 413
    assert len(shop.runs) == 1


async def test_a_request_that_never_comes_to_its_end_is_dropped(memory_world):
    app = memory_world.app()

    async def gone():
        return {"type": "http.disconnect"}

    async def refuse(*_: Any) -> None:
        raise AssertionError("nobody is there")

    scope = {"type": "http", "method": "POST", "headers": [(b"idempotency-key", b"k"), (b"authorization", b"x")]}
    async with app:
        await IdempotentRequests(refuse, app)(scope, gone, refuse)
    assert not memory_world.data.partitions


async def test_other_protocols_pass(memory_world):
    seen = []

    async def inner(scope, receive, send):
        seen.append(scope["type"])

    guarded = IdempotentRequests(inner, memory_world.app())
    for kind in ("websocket", "lifespan"):
        await guarded({"type": kind}, None, None)
    assert seen == ["websocket", "lifespan"]


async def test_an_application_may_send_files_and_reads_until_the_client_leaves(memory_world):
    seen = []

    async def inner(scope, receive, send):
        seen.extend([scope["extensions"], (await receive())["body"]])
        await send({"type": "http.response.debug"})
        await send({"type": "http.response.start", "status": 204})
        await send({"type": "http.response.body"})

    app = memory_world.app()
    async with app:
        answer = await request(IdempotentRequests(inner, app))
    assert answer.status == 204 and seen == [{}, b'{"cents":100}']


async def test_when_the_lease_is_lost_the_client_is_sent_for_the_outcome_that_counts(memory_world, caplog):
    caplog.set_level(logging.ERROR)
    shop = Shop(memory_world.app())
    shop.go.clear()
    async with shop.app:
        first = asyncio.create_task(shop())
        await shop.began.wait()
        (entity,) = memory_world.data.partitions.values()
        entity.clear()  # as after a take-over and its window
        shop.go.set()
        answer = await first
    assert answer.status == 409 and answer.json["code"] == "lease_lost" and answer.headers["retry-after"] == "1"


async def test_when_the_store_does_not_answer_nothing_runs_and_nothing_is_said_of_it(memory_world, monkeypatch):
    shop = Shop(memory_world.app())
    async with shop.app:

        async def begin(*_: Any) -> None:
            raise hf.StoreError("at 10.0.0.7")

        monkeypatch.setattr("holdfast.patterns.attempts.Attempts.begin", begin)
        answer = await shop()
    assert answer.status == 503 and b"10.0.0.7" not in answer.body and not shop.runs


async def test_when_the_store_fails_after_the_work_the_client_hears_of_the_work(memory_world, monkeypatch):
    shop = Shop(memory_world.app())

    async def complete(*_: Any) -> None:
        raise hf.ResultNotStored("it is gone")

    monkeypatch.setattr("holdfast.patterns.attempts.Attempts.complete", complete)
    async with shop.app:
        assert (await shop()).status == 201


async def test_it_runs_again_after_a_client_whose_connection_is_cut(memory_world):
    shop = Shop(memory_world.app())
    shop.go.clear()
    async with shop.app:
        first = asyncio.create_task(shop())
        await shop.began.wait()
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        shop.go.set()
        assert (await shop()).json["run"] == 2


async def test_what_runs_has_a_key_for_its_effects_that_is_the_same_when_it_runs_again(memory_world):
    seen: list[str] = []

    async def inner(scope, receive, send):
        seen.append(scope["holdfast.idempotency_key"])
        await send({"type": "http.response.start", "status": 503})
        await send({"type": "http.response.body"})

    app = memory_world.app()
    one, other = IdempotentRequests(inner, app), IdempotentRequests(inner, app, name="other")
    async with app:
        for key in ("k-1", '"k-1"'):  # a client that quotes it has the same key
            assert (await request(one, key)).status == 503
        assert seen[0] == seen[1] and len(seen[0]) == 32
        await request(one, "k-2")
        await request(one, "k-1", b"{}", Authorization="Bearer bob")
        await request(other, "k-1")
    assert len(set(seen)) == 4


async def test_without_a_key_there_is_none_for_effects(memory_world):
    seen: list[bool] = []

    async def inner(scope, receive, send):
        seen.append("holdfast.idempotency_key" in scope)
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    app = memory_world.app()
    async with app:
        asgi = IdempotentRequests(inner, app, required=False)
        await request(asgi, None)
        await request(asgi)
    assert seen == [False, True]


@pytest.mark.parametrize(
    ("headers", "status"),
    [([], 400), ([(b"idempotency-key", b"k"), (b"content-length", b"4000000000")], 413)],
)
async def test_no_body_is_read_for_a_request_that_is_refused_by_its_head(memory_world, headers, status):
    async with memory_world.app() as app:
        asked, sent = [], []

        async def receive():
            asked.append(True)
            return {"type": "http.request", "body": b"x", "more_body": True}

        async def send(message):
            sent.append(message)

        scope = {"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": headers}
        await IdempotentRequests(None, app, caller=anybody)(scope, receive, send)
        assert (sent[0]["status"], asked) == (status, [])


async def test_a_body_that_does_not_come_to_its_end_in_time_is_given_up(memory_world, monkeypatch):
    monkeypatch.setattr(exchange.read_whole, "__defaults__", (0.0,))
    async with memory_world.app() as app:
        sent = []

        async def send(message):
            sent.append(message)

        headers = [(b"idempotency-key", b"k")]
        scope = {"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": headers}
        await IdempotentRequests(None, app, caller=anybody)(scope, asyncio.Event().wait, send)
        assert sent[0]["status"] == 408


async def test_all_bodies_together_take_a_bounded_part_of_the_memory(memory_world, monkeypatch):
    monkeypatch.setattr(idempotency, "BODIES_BYTES", 150)
    shop = Shop(memory_world.app())
    async with shop.app:
        shop.go.clear()
        first = asyncio.ensure_future(shop("k-1", b"x" * 100))
        await shop.began.wait()
        refused = await shop("k-2", b"x" * 100)
        assert (refused.status, refused.json["code"]) == (503, "overloaded")
        assert refused.headers["retry-after"] == "1" and refused.headers["connection"] == "close"
        shop.go.set()
        assert (await first).status == 201
        assert (await shop("k-2", b"x" * 150)).status == 201, "what was taken is given back, by those refused too"


# ── Whose key it is ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("headers", [{}, {"Cookie": "session=ann"}, {"X-Api-Key": "ann"}])
async def test_a_key_of_nobody_that_is_known_is_refused_before_the_body_is_read(shop, headers):
    async with shop.app:
        answer = await request(shop.asgi, Authorization="", **headers)
    assert (answer.status, answer.json["code"]) == (401, "unauthenticated")
    assert shop.runs == []


async def test_whom_an_authentication_before_it_has_found_is_its_caller(memory_world):
    class User:
        is_authenticated = True

        def __init__(self, name: str) -> None:
            self.identity = name

    shop = Shop(memory_world.app())

    async def as_user(name: str) -> Answer:
        async def authenticated(scope: Any, receive: Any, send: Any) -> None:
            await shop.asgi(scope | {"user": User(name)}, receive, send)

        return await request(authenticated, Authorization="", Cookie=f"session={name}")

    async with shop.app:
        first, other, again = await as_user("ann"), await as_user("bob"), await as_user("ann")
    assert [each.replayed for each in (first, other, again)] == [False, False, True]


async def test_all_callers_are_one_only_if_that_is_said(memory_world):
    shop = Shop(memory_world.app(), caller=anybody)
    async with shop.app:
        await request(shop.asgi, Authorization="")
        assert (await request(shop.asgi)).replayed
