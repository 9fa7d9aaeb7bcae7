"""Nothing costs before it is allowed: no body is read, decoded or kept for a caller who is not let in."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from typing import Any

import pytest
from tests.http.conftest import Api, Connection, read
from tests.http.test_lambda_events import DOORS

import holdfast as hf
from holdfast.http.lambda_front import HttpFront

TOKEN = "7" * 64
TOKENS = hf.BearerTokens({"till": TOKEN, "grafana": "1" * 64}, rights={"grafana": ["read"]})
WRONG = "hf1." + base64.urlsafe_b64encode(b'["wf#parcel#p",0,"callback#0"]').decode().rstrip("=") + "." + "0" * 64
LARGE = b"[" + b"[]," * 1_000_000 + b"[]]"

REFUSED = [
    # path, headers, status
    ("/v1/workflows/checkout/a", [], 401),
    ("/v1/workflows/checkout/a", [(b"authorization", b"Bearer garbage")], 401),
    ("/v1/workflows/checkout/a", [(b"authorization", b"Bearer " + b"1" * 64)], 403),
    ("/v1/actors/Cart/k/add", [], 401),
    ("/v1/actors/Cart/k/add/send", [], 401),
    ("/v1/events/Placed", [], 401),
    ("/v1/workflows/approval/a/signals/x", [], 401),
    ("/v1/callbacks/garbage", [], 404),
    ("/v1/callbacks/hf1.e30.x", [], 404),
    (f"/v1/callbacks/{WRONG}", [], 404),
    (f"/v1/callbacks/{WRONG}/fail", [], 404),
    (f"/v1/callbacks/{WRONG}/heartbeat", [], 404),
    ("/v1/nothing", [], 404),
]


class Unread:
    """A body that must not be asked for."""

    asked = 0

    async def __call__(self) -> dict[str, Any]:
        self.asked += 1
        return {"type": "http.request", "body": b"x", "more_body": True}


@pytest.mark.parametrize(("path", "headers", "status"), REFUSED)
async def test_no_body_is_read_of_a_caller_who_is_not_let_in(memory_shop, path, headers, status):
    api = memory_shop.app.asgi(authenticate=TOKENS)
    async with memory_shop.app:
        refused = Connection("POST", path, headers=[*headers, (b"content-length", b"4000000")])
        body = Unread()
        await api(refused.scope, body, refused._send)
        assert (refused.status, body.asked) == (status, 0)
        assert refused.headers["connection"] == "close", "else the server reads it to find the next request behind it"


async def test_health_takes_no_body(memory_shop):
    async with memory_shop.app:
        body = Unread()
        served = Connection("GET", "/v1/health", headers=[(b"transfer-encoding", b"chunked")])
        await memory_shop.app.asgi()(served.scope, body, served._send)
        assert (served.status, body.asked, served.headers["connection"]) == (200, 0, "close")


async def test_callers_are_known_by_the_head_alone_on_every_front(memory_shop):
    seen = []

    def authenticate(request: hf.Request) -> str:
        seen.append(request.body)
        return "tester"

    app = memory_shop.app
    async with app.worker():
        served = Connection("POST", "/v1/workflows/checkout/a").arrives(b'["tok"]')
        await served.serve(app.asgi(authenticate=authenticate))
        whole = await Api(app, authenticate=authenticate).send("POST", "/v1/workflows/checkout/a", b'["tok"]')
        taken = HttpFront(app, Api(app, authenticate=authenticate).options).take(next(iter(DOORS))())
        assert taken is not None
        assert {served.status, whole.status, (await taken.answer())["statusCode"]} <= {200, 202}
    assert seen == [b"", b"", b""]


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
async def test_no_body_of_an_event_is_decoded_for_a_caller_who_is_not_let_in(memory_shop, door):
    """It is no base 64 at all, and nobody finds out."""
    front = HttpFront(memory_shop.app, Api(memory_shop.app, authenticate=lambda _request: None).options)
    async with memory_shop.app:
        taken = front.take(door(body="?" * 1000, isBase64Encoded=True))
        assert taken is not None
        assert (await taken.answer())["statusCode"] == 401


async def test_a_garbage_token_with_a_large_body_costs_nothing(memory_shop):
    async with memory_shop.working() as api:
        await api.post("/v1/workflows/parcel/p", {})
        for token in ("garbage", WRONG):
            began = time.process_time()
            for _ in range(10):
                status, problem = read(await api.send("POST", f"/v1/callbacks/{token}", LARGE))
                assert (status, problem["code"]) == (404, "invalid_token")
            assert time.process_time() - began < 0.5


async def test_a_callback_answered_in_python_is_verified_before_its_value_is_looked_at(memory_shop):
    async with memory_shop.app:
        with pytest.raises(hf.InvalidToken):
            await memory_shop.app.callback("garbage").complete(object())
        with pytest.raises(hf.InvalidToken):
            await memory_shop.app.callback(WRONG).fail("\ud800")  # no text, and nobody finds out


async def test_a_token_can_be_verified_by_itself(memory_shop, eventually):
    async with memory_shop.working() as api:
        await api.post("/v1/workflows/parcel/p", {})
        await eventually(lambda: memory_shop.tokens)
        handle = memory_shop.app.callback(memory_shop.tokens[0])
        await handle.verify()
        await handle.complete("here")
        status, told = await api.get("/v1/workflows/parcel/p?wait=10s")
        assert (status, told["result"]) == (200, "here")
        with pytest.raises(hf.InvalidToken):
            await memory_shop.app.callback(WRONG).verify()


async def test_a_large_body_of_many_values_is_refused_before_any_of_them_is_made(memory_shop):
    async with memory_shop.working() as api:
        await api.post("/v1/workflows/approval/there", [1])
        for path in (
            "/v1/workflows/approval/there/signals/x",
            "/v1/workflows/checkout/a",
            "/v1/actors/Cart/k/add",
            "/v1/events/Placed",
        ):
            began = time.process_time()
            status, problem = read(await api.send("POST", path, LARGE))
            assert (status, problem["code"]) == (413, "payload_too_large")
            assert "100000 values" in problem["detail"]
            assert time.process_time() - began < 0.5


async def test_a_large_text_full_of_commas_is_one_value(memory_shop):
    async with memory_shop.working() as api:
        await api.post("/v1/workflows/approval/there", [1])
        text = json.dumps(',[{:\\"' * 300_000).encode()
        status, _ = read(await api.send("POST", "/v1/workflows/approval/there/signals/x", text))
        assert status == 202


async def test_all_bodies_together_take_a_bounded_part_of_the_memory(memory_shop, eventually):
    limits = hf.HttpLimits(bodies_bytes=20)
    api = memory_shop.app.asgi(limits=limits)
    async with memory_shop.app.worker():
        slow = [Connection("POST", "/v1/workflows/checkout/a").arrives(b"x" * 8, more=True) for _ in range(2)]
        serving = [asyncio.ensure_future(each.serve(api)) for each in slow]
        await eventually(lambda: api._room._left_bytes == 4)
        third = await Connection("POST", "/v1/workflows/checkout/b").arrives(b'["tok"]').serve(api)
        assert (third.status, third.answer["code"]) == (503, "overloaded")
        assert third.headers["retry-after"] == "1"
        for each in slow:
            each.hangs_up()
        await asyncio.gather(*serving)
        fourth = await Connection("POST", "/v1/workflows/checkout/b").arrives(b'["tok"]').serve(api)
        assert fourth.status == 202
        assert api._room._left_bytes == 20


async def test_the_query_of_an_event_is_not_looked_at_when_it_is_too_long(memory_shop):
    event = next(iter(DOORS))("GET", "/v1/health") | {"rawQueryString": "a=b&" * 1_000_000}
    async with memory_shop.app:
        began = time.process_time()
        taken = HttpFront(memory_shop.app, Api(memory_shop.app).options).take(event)
        assert taken is not None
        assert (await taken.answer())["statusCode"] == 414
        assert time.process_time() - began < 0.3
