"""Actors and events over HTTP, on every world."""

from __future__ import annotations

import asyncio
from urllib.parse import quote

import pytest


async def test_a_call_answers_the_result(shop):
    async with shop.working() as api:
        assert await api.post("/v1/actors/Cart/u1/add", {"sku": "lamp", "n": 2}) == (
            200,
            {"result": {"sku": "lamp", "n": 2}},
        )
        assert await api.post("/v1/actors/Cart/u1/add", ["lamp"]) == (200, {"result": {"sku": "lamp", "n": 3}})
        assert await api.post("/v1/actors/Cart/u1/total") == (200, {"result": 3})


@pytest.mark.parametrize("header", ["request_id", "idempotency_key"])
async def test_a_repeat_of_a_request_gets_the_stored_reply(shop, header):
    async with shop.working() as api:
        for _ in range(3):
            answer = await api.post("/v1/actors/Cart/u1/add", ["lamp"], **{header: "r-1"})
            assert answer == (200, {"result": {"sku": "lamp", "n": 1}})
        status, problem = await api.post("/v1/actors/Cart/u1/add", ["desk"], **{header: "r-1"})
        assert (status, problem["code"]) == (422, "idempotency_mismatch")
        assert await api.get("/v1/actors/Cart/u1/requests/r-1") == (200, {"id": "r-1", "status": "completed"})
        assert await api.get("/v1/actors/Cart/u1/requests/r-2") == (200, {"id": "r-2", "status": "unknown"})


async def test_repeats_at_the_same_time_are_applied_once(shop):
    async with shop.working() as api:
        calls = [api.post("/v1/actors/Cart/u1/add", ["lamp"], request_id="r-1") for _ in range(10)]
        assert {str(answer) for answer in await asyncio.gather(*calls)} == {
            "(200, {'result': {'sku': 'lamp', 'n': 1}})"
        }
        assert await api.get("/v1/actors/Cart/u1/total") == (200, {"result": 1})


async def test_a_reading_method_is_read_by_get(shop):
    async with shop.working() as api:
        await api.post("/v1/actors/Cart/a%2Fb/add", ["lamp"])
        assert await api.get("/v1/actors/Cart/a%2Fb/total") == (200, {"result": 1})
        args = quote('{"sku": "desk"}')
        assert await api.get(f"/v1/actors/Cart/a%2Fb/total?args={args}") == (200, {"result": 0})
        response = await api.send("GET", "/v1/actors/Cart/u1/add")
        assert (response.status, response.header("allow")) == (405, "POST")


async def test_what_a_method_declares_to_raise_is_its_refusal_and_all_else_a_fault(shop, errors_expected):
    async with shop.working() as api:
        status, problem = await api.post("/v1/actors/Cart/u1/add", ["lamp", 10])
        assert (status, problem["code"], problem["error_type"]) == (422, "call_failed", "NotEnough")
        assert problem["detail"] == "NotEnough: only 9 of lamp"
        status, problem = await api.post("/v1/actors/Cart/u1/add", ["bug"])
        assert (status, problem["code"], problem["error_type"]) == (500, "call_failed", "ZeroDivisionError")
        assert "oops" not in str(problem) and problem["error_id"] in problem["detail"]


async def test_a_call_that_takes_too_long_goes_on(shop, eventually):
    async with shop.working() as api:
        status, problem = await api.post("/v1/actors/Cart/u1/hang?wait=1s", request_id="r-1")
        assert (status, problem["code"]) == (504, "wait_timeout")
        assert shop.hangs.is_set()  # what has not begun by then is taken back
        shop.go.set()

        async def completed():
            return (await api.get("/v1/actors/Cart/u1/requests/r-1"))[1]["status"] == "completed"

        await eventually(completed)
        assert await api.post("/v1/actors/Cart/u1/hang", request_id="r-1") == (200, {"result": None})


async def test_a_message_is_sent_and_applied_once(shop, eventually):
    async with shop.working() as api:
        for _ in range(2):
            status, answer = await api.post("/v1/actors/Cart/u1/add/send", ["lamp"], request_id="s-1")
            assert (status, answer["id"]) == (202, "s-1")
        status, answer = await api.post("/v1/actors/Cart/u1/add/send", ["lamp"])
        assert status == 202 and answer["id"]

        async def both():
            return (await api.get("/v1/actors/Cart/u1/total"))[1] == {"result": 2}

        await eventually(both)


async def test_a_full_mailbox_asks_to_come_again(shop):
    async with shop.working() as api:
        assert (await api.post("/v1/actors/Till/t1/pay/send?delay=1h", [1], request_id="s-1"))[0] == 202
        response = await api.send("POST", "/v1/actors/Till/t1/pay/send")
        assert (response.status, response.header("retry-after")) == (429, "1")
        assert await api.get("/v1/actors/Till/t1/requests/s-1") == (200, {"id": "s-1", "status": "waiting"})


async def test_an_event_is_published_once_for_each_id(shop, eventually):
    async with shop.working() as api:
        for _ in range(2):
            answer = await api.post("/v1/events/Placed", {"order": "o-1"}, message_id="e-1")
            assert answer == (202, {"event": "Placed", "id": "e-1"})
        assert (await api.post("/v1/events/Placed", {"order": "o-2"}))[0] == 202
        await eventually(lambda: "o-2" in shop.handled and "o-1" in shop.handled)
        assert sorted(shop.handled) == ["o-1", "o-2"]
