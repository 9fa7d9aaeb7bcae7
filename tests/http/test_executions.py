"""Workflows over HTTP: start, look, wait, signal, query, control, on every world."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime, timedelta
from urllib.parse import quote

import pytest

import holdfast as hf


async def test_a_start_answers_the_execution_and_a_look_its_result(shop):
    async with shop.working() as api:
        status, answer = await api.post("/v1/workflows/checkout/order-17", {"card": "tok"})
        assert (status, answer["workflow"], answer["id"]) == (202, "checkout", "order-17")
        status, answer = await api.get("/v1/workflows/checkout/order-17?wait=10s")
        assert (status, answer["status"]) == (200, "COMPLETED")
        assert answer["result"] == {"payment": "pay-tok-100"}


async def test_the_same_start_again_answers_the_same_execution_with_its_result(shop):
    async with shop.working() as api:
        await api.post("/v1/workflows/checkout/a?wait=10s", ["tok", 5])
        status, answer = await api.post("/v1/workflows/checkout/a", {"cents": 5, "card": "tok"})
        assert (status, answer["result"]) == (200, {"payment": "pay-tok-5"})
        assert shop.runs == ["tok"]


async def test_another_input_under_an_id_is_a_mismatch(shop):
    async with shop.working() as api:
        await api.post("/v1/workflows/checkout/a", ["tok"])
        status, problem = await api.post("/v1/workflows/checkout/a", ["other"])
        assert (status, problem["code"]) == (422, "idempotency_mismatch")


async def test_without_an_id_the_server_makes_one_and_says_where_it_is(shop):
    async with shop.working() as api:
        response = await api.send("POST", "/v1/workflows/checkout?wait=10s", b'["tok"]')
        answer = json.loads(response.body)
        assert len(answer["id"]) == 32
        place = response.header("location")
        assert place == f"/v1/workflows/checkout/{answer['id']}"
        assert (await api.get(place))[1]["result"] == {"payment": "pay-tok-100"}


@pytest.mark.parametrize("key", ["order 17", '"order 17"'])
async def test_an_idempotency_key_is_the_id(shop, key):
    async with shop.working() as api:
        for _ in range(2):
            status, answer = await api.post("/v1/workflows/checkout?wait=10s", ["tok"], idempotency_key=key)
            assert (status, answer["id"]) == (200, "order 17")
        assert shop.runs == ["tok"]


async def test_many_starts_of_one_id_at_once_are_one_execution(shop):
    async with shop.working() as api:
        starts = [api.post("/v1/workflows/checkout/a?wait=10s", ["tok"]) for _ in range(20)]
        answers = await asyncio.gather(*starts)
        assert {status for status, _ in answers} == {200}
        assert {answer["created_at"] for _, answer in answers} == {answers[0][1]["created_at"]}
        assert shop.runs == ["tok"]


async def test_an_id_may_hold_what_paths_do_not(shop):
    id = "a/b ü%2F?#\\"
    path = f"/v1/workflows/checkout/{quote(id, safe='')}"
    async with shop.working() as api:
        response = await api.send("POST", f"{path}?wait=10s", b'["tok"]')
        assert json.loads(response.body)["id"] == id
        assert response.header("location") == path
        assert (await api.get(path))[1]["id"] == id


async def test_tags_and_a_timeout_may_be_given(shop, reaches):
    async with shop.working() as api:
        await api.post("/v1/workflows/approval/a?timeout=1ms&tag=customer=acme&tag=kind=a%3Db", [1])
        await reaches(shop.app.handle("approval", "a"), "TIMED_OUT")
        answer = (await api.get("/v1/workflows/approval/a"))[1]
        assert answer["tags"] == {"customer": "acme", "kind": "a=b"}
        assert "result" not in answer


async def test_how_an_execution_failed_is_told(shop):
    async with shop.working() as api:
        status, answer = await api.post("/v1/workflows/checkout/a?wait=10s", ["bad"])
        assert (status, answer["status"]) == (200, "FAILED")
        assert "the card was declined" in answer["error"]
        assert "result" not in answer


async def test_a_wait_that_is_over_answers_how_it_stands(shop):
    async with shop.working() as api:
        await api.post("/v1/workflows/approval/a", [1])
        status, answer = await api.get("/v1/workflows/approval/a?wait=10ms")
        assert status == 200
        assert answer["status"] in {"RUNNING", "SUSPENDED", "READY"}
        assert not shop.app.runtime().wake_listeners._by_partition


async def test_a_wait_is_as_long_as_the_limit_allows(shop):
    async with shop.working(limits=hf.HttpLimits(wait_seconds=0.01)) as api:
        await api.post("/v1/workflows/approval/a", [1])
        status, answer = await api.get("/v1/workflows/approval/a?wait=7d")
        assert (status, answer["ended_at"]) == (200, None)


async def test_a_signal_is_sent_once_for_each_message_id(shop, eventually):
    async with shop.working() as api:
        await api.post("/v1/workflows/approval/a", [7])
        for name in ("message_id", "idempotency_key"):
            status, answer = await api.post(
                "/v1/workflows/approval/a/signals/decision", {"sku": "x", "n": 1}, **{name: "m-1"}
            )
            assert (status, answer) == (202, {"workflow": "approval", "id": "a", "action": "signal"})
        answer = (await api.get("/v1/workflows/approval/a?wait=10s"))[1]
        assert answer["result"] == "Line(sku='x', n=1): 7"
        events = (await api.get("/v1/workflows/approval/a/history"))[1]["events"]
        assert [each["name"] for each in events if each["kind"] == "signal"] == ["decision"]


@pytest.mark.parametrize("name", ["a\x1b]0;b", "a\n", "a\x7f", "a\x9b", "a\u202eb", "a\u2066"])
async def test_the_name_of_a_signal_is_printable(shop, name):
    async with shop.working() as api:
        await api.post("/v1/workflows/approval/a", [7])
        status, problem = await api.post(f"/v1/workflows/approval/a/signals/{quote(name)}", "x")
        assert (status, problem["code"]) == (400, "invalid_input")
        assert "cannot be printed" in problem["detail"]
        assert problem["detail"].isprintable()
        events = (await api.get("/v1/workflows/approval/a/history"))[1]["events"]
        assert not [each for each in events if each["kind"] == "signal"]
        assert (await api.post(f"/v1/workflows/approval/a/signals/{quote('né #1')}", "x"))[0] == 202


async def test_a_query_asks_the_body(shop, reaches, errors_expected):
    async with shop.working() as api:
        await api.post("/v1/workflows/approval/a", [7])
        await reaches(shop.app.handle("approval", "a"), "SUSPENDED")
        assert await api.get("/v1/workflows/approval/a/queries/asked") == (200, {"value": 7})
        status, problem = await api.get("/v1/workflows/approval/a/queries/nothing")
        assert (status, problem["code"]) == (404, "unknown_name")
        status, problem = await api.get("/v1/workflows/approval/a/queries/broken")
        assert (status, problem["code"], problem["error_type"]) == (500, "query_failed", "ZeroDivisionError")


async def test_pause_resume_and_cancel(shop, reaches):
    handle = shop.app.handle("approval", "a")
    async with shop.working() as api:
        await api.post("/v1/workflows/approval/a", [7])
        assert (await api.post("/v1/workflows/approval/a/pause"))[0] == 200
        assert (await api.get("/v1/workflows/approval/a"))[1]["status"] == "PAUSED"
        assert (await api.post("/v1/workflows/approval/a/resume"))[1]["action"] == "resume"
        assert (await api.post("/v1/workflows/approval/a/cancel", {"reason": "no more"}))[0] == 202
        await reaches(handle, "CANCELLED")
        assert "no more" in (await api.get("/v1/workflows/approval/a"))[1]["error"]
        again = await api.post("/v1/workflows/approval/a/cancel")
        assert (again[0], again[1]["action"]) == (202, "cancel")  # it is what was asked for
        for action in ("pause", "resume", "terminate", "signals/decision"):
            status, problem = await api.post(f"/v1/workflows/approval/a/{action}")
            assert (status, problem["code"]) == (409, "invalid_state"), action


async def test_terminate(shop):
    async with shop.working() as api:
        await api.post("/v1/workflows/approval/a", [7])
        assert (await api.post("/v1/workflows/approval/a/terminate", {"reason": "a duplicate"}))[0] == 200
        answer = (await api.get("/v1/workflows/approval/a?wait=10s"))[1]
        assert answer["status"] == "TERMINATED"
        assert "a duplicate" in answer["error"]


async def test_what_has_ended_is_deleted(shop):
    async with shop.working() as api:
        await api.post("/v1/workflows/approval/a", [7])
        status, problem = await api.delete("/v1/workflows/approval/a")
        assert (status, problem["code"]) == (409, "invalid_state")
        await api.post("/v1/workflows/approval/a/terminate")
        status, answer = await api.delete("/v1/workflows/approval/a")
        assert (status, answer) == (200, {"workflow": "approval", "id": "a", "action": "delete"})
        for ask in (api.delete, api.get):
            status, problem = await ask("/v1/workflows/approval/a")
            assert (status, problem["code"]) == (404, "not_found")


async def test_a_start_may_be_delayed(shop):
    async with shop.working() as api:
        status, answer = await api.post("/v1/workflows/checkout/a?delay=1h&timeout=1m", ["tok"])
        assert (status, answer["status"]) == (202, "READY")
        created, due = (datetime.fromisoformat(answer[name]) for name in ("created_at", "due_at"))
        assert abs(due - created - timedelta(hours=1)) < timedelta(seconds=5)
        answer = (await api.post("/v1/workflows/checkout/b?at=2030-01-01T00:00:00Z", ["tok"]))[1]
        assert answer["due_at"] == "2030-01-01T00:00:00Z"
        assert (await api.post("/v1/workflows/checkout/c?delay=1h&at=2030-01-01T00:00:00Z", ["tok"]))[0] == 400
        await api.post("/v1/workflows/checkout/a/cancel")
        assert (await api.get("/v1/workflows/checkout/a?wait=10s"))[1]["status"] == "CANCELLED"
        assert shop.runs == []


async def test_retry_fork_and_move(shop):
    async with shop.working() as api:
        await api.post("/v1/workflows/checkout/a?wait=10s", ["bad"])
        assert (await api.post("/v1/workflows/checkout/a/retry"))[1] == {
            "workflow": "checkout",
            "id": "a",
            "action": "retry",
        }
        await api.get("/v1/workflows/checkout/a?wait=10s")
        assert shop.runs == ["bad", "bad"]
        response = await api.send("POST", "/v1/workflows/checkout/a/fork", b'{"id": "b", "before": "charge#0"}')
        assert response.header("location") == "/v1/workflows/checkout/b"
        assert (await api.get("/v1/workflows/checkout/b?wait=10s"))[1]["status"] == "FAILED"
        status, problem = await api.post("/v1/workflows/checkout/a/fork", {"id": "b"})
        assert (status, problem["code"]) == (409, "invalid_state")
        status, problem = await api.post("/v1/workflows/checkout/a/move")
        assert (status, problem["detail"].partition(":")[0]) == (409, "checkout is not pinned")


async def test_retry_now(shop, eventually):
    up = asyncio.Event()

    @shop.app.step(retry=hf.Retry(initial="1h"))
    async def flaky() -> str:
        if not up.is_set():
            raise ConnectionError("down")
        return "up"

    @shop.app.workflow
    async def stubborn() -> str:
        return await flaky()

    async with shop.working() as api:
        await api.post("/v1/workflows/stubborn/a")

        async def waits() -> bool:
            return bool((await api.get("/v1/workflows/stubborn/a/history"))[1]["events"])

        await eventually(waits)
        up.set()
        assert (await api.post("/v1/workflows/stubborn/a/retry-now"))[0] == 202
        assert (await api.get("/v1/workflows/stubborn/a?wait=10s"))[1]["result"] == "up"


VERBS = ["signals/go", "cancel", "terminate", "pause", "resume", "move", "retry", "retry-now", "fork"]


@pytest.mark.parametrize("verb", VERBS)
async def test_what_is_not_there_is_not_found(shop, verb):
    @shop.app.workflow(versions="pinned")
    async def tour() -> None: ...

    async with shop.working() as api:
        body = {"id": "new"} if verb == "fork" else None
        status, problem = await api.post(f"/v1/workflows/tour/nobody/{verb}", body)
        assert (status, problem["code"]) == (404, "not_found")


async def test_families_can_be_listed(shop):
    @shop.app.workflow
    async def twice(card: str) -> str:
        await shop.app.registry.workflow("checkout").options(id="first")(card)
        return await shop.app.registry.workflow("checkout").options(id="second")(card)

    async with shop.working() as api:
        await api.post("/v1/workflows/twice/a?wait=10s", ["tok"])

        async def ids(query: str) -> set[str]:
            return {each["id"] for each in (await api.get(f"/v1/workflows?{query}"))[1]["executions"]}

        assert await ids("parent=twice/a") == {"first", "second"}
        assert await ids("root=twice/a") == {"a", "first", "second"}
        assert await ids("root=checkout/first") == set()
        assert (await api.get("/v1/workflows?parent=twice"))[0] == 400
        answer = (await api.get("/v1/workflows/checkout/first"))[1]
        assert answer["parent"] == answer["root"] == {"workflow": "twice", "id": "a"}


async def test_executions_are_listed_a_page_at_a_time(shop):
    async with shop.working() as api:
        for number in range(3):
            await api.post(f"/v1/workflows/checkout/o-{number}?tag=n={number % 2}&wait=10s", ["tok"])
        await api.post("/v1/workflows/approval/x", [1])
        first = (await api.get("/v1/workflows/checkout?limit=2"))[1]
        rest = (await api.get(f"/v1/workflows/checkout?limit=2&after={quote(first['cursor'])}"))[1]
        ids = [each["id"] for each in (*first["executions"], *rest["executions"])]
        assert sorted(ids) == ["o-0", "o-1", "o-2"]
        assert rest["cursor"] is None
        assert len((await api.get("/v1/workflows"))[1]["executions"]) == 4
        tagged = (await api.get("/v1/workflows?tag=n=1&status=COMPLETED&since=2020-01-01T00:00:00Z"))[1]
        assert [each["id"] for each in tagged["executions"]] == ["o-1"]
        assert (await api.get("/v1/workflows?until=2020-01-01T00:00:00Z"))[1]["executions"] == []


async def test_a_token_in_an_error_is_masked(shop):
    async with shop.working() as api:
        await api.post("/v1/workflows/parcel/a", [])
        token = f"hf1.abc.{'0' * 64}"
        await api.post("/v1/workflows/parcel/a/terminate", {"reason": f"look: {token}"})
        answer = (await api.get("/v1/workflows/parcel/a"))[1]
        assert "hf1.(token)" in answer["error"]
        assert token not in json.dumps(answer)


async def test_the_password_of_a_url_in_an_error_is_masked(shop):
    async with shop.working() as api:
        await api.post("/v1/workflows/parcel/a", [])
        await api.post("/v1/workflows/parcel/a/terminate", {"reason": "no answer of redis://ann:canary@cache:6379"})
        paths = ("/v1/workflows/parcel/a", "/v1/workflows/parcel/a/show", "/v1/workflows/parcel/a/show?tracebacks=true")
        for path in paths:
            answer = json.dumps((await api.get(path))[1])
            assert "redis://ann:***@cache:6379" in answer and "canary" not in answer


async def test_head_is_get_without_the_body(shop):
    async with shop.working() as api:
        response = await api.send("HEAD", "/v1/health")
        assert (response.status, response.body) == (200, b"")
        assert response.header("content-length") == str(len(b'{"status":"ok"}'))
