"""One execution over HTTP: readers see how it stands, and only those who may inspect see what errors say."""

from __future__ import annotations

import asyncio

from tests.http.conftest import Api

import holdfast as hf
from holdfast.commands.right import Right

SHOW = "/v1/workflows/checkout/b/show"


def reader(api: Api) -> Api:
    caller = hf.Caller("grafana", frozenset({Right.READ}))
    return Api(api.app, authenticate=lambda _request: caller)


async def failed(api: Api) -> None:
    await api.post("/v1/workflows/checkout/b?wait=10s", ["bad"])


async def test_who_may_inspect_sees_the_cause_and_the_next_step(memory_shop):
    async with memory_shop.working() as api:
        await failed(api)
        status, told = await api.get(f"{SHOW}?tracebacks=true&payloads=true")
    assert status == 200
    (trouble,) = told["troubles"]
    assert "the card was declined" in trouble["title"] and trouble["line"] == "holdfast retry checkout b"
    assert "raise hf.Terminal" in told["traceback"] and told["input"] == {"card": "bad", "cents": 100}


async def test_a_reader_sees_types_of_errors_and_no_payload(memory_shop):
    async with memory_shop.working() as api:
        await failed(api)
        status, told = await reader(api).get(SHOW)
        refused = [await reader(api).get(f"{SHOW}?{wish}=true") for wish in ("payloads", "tracebacks")]
    assert status == 200 and told["traceback"] is None and "input" not in told
    assert told["timeline"][-1]["error"] == "Terminal"
    assert [each[0] for each in refused] == [403, 403]


async def test_a_tenant_sees_its_own_and_nothing_of_others(memory_shop):
    async with memory_shop.working() as api:
        await failed(api)
        tenant = Api(api.app, authenticate=lambda _request: hf.Caller("ann", tenant="acme/"))
        assert (await tenant.get(SHOW))[0] == 403


async def test_executions_are_listed_by_the_text_of_their_error_for_those_who_may_see_it(memory_shop):
    async with memory_shop.working() as api:
        await failed(api)
        assert len((await api.get("/v1/workflows?error=TERMINAL"))[1]["executions"]) == 1
        assert (await api.get("/v1/workflows?error=nothing-like-it"))[1]["executions"] == []
        reader = Api(api.app, authenticate=lambda _request: hf.Caller("ann", rights=frozenset({"read"})))
        assert (await reader.get("/v1/workflows?error=Terminal"))[0] == 403


async def test_executions_are_listed_by_what_they_wait_for(memory_shop):
    async with memory_shop.working() as api:
        await api.post("/v1/workflows/approval/w", [7])
        path = "/v1/workflows?waits_for=signal:decision"
        while not (found := (await api.get(path))[1]["executions"]):
            await asyncio.sleep(0.01)
        assert [each["id"] for each in found] == ["w"] and found[0]["waits"][0]["name"] == "decision"
        assert (await api.get("/v1/workflows?waits_for=signal:other"))[1]["executions"] == []
        assert (await api.get("/v1/workflows?waits_for=nothing"))[0] == 400
