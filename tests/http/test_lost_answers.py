"""The store applies a write and does not answer: 503 to the caller, and the same again under the same id is one."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.http.conftest import Api, Shop

import holdfast as hf
from holdfast import persist
from holdfast.backends.memory import open_memory_home
from holdfast.errors import StoreUnavailable
from holdfast.ports import Home


class Deaf:
    """A store whose answers to writes are lost while ``lost`` is set."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.lost = False
        self.count = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def write(self, *writes: Any) -> Any:
        answer = await self._store.write(*writes)
        if self.lost:
            self.count += 1
            raise StoreUnavailable("no answer from table-7")
        return answer


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(persist, "CALLER_PATIENCE_SECONDS", 0.0)


@pytest.fixture
def deaf(memory_world):
    """An API that works on nothing, behind a store that may not answer."""
    stores: list[Deaf] = []

    async def open_home() -> Home:
        home = open_memory_home(data=memory_world.data)
        stores.append(Deaf(home.store))
        return replace(home, store=stores[0])

    return Api(Shop(hf.App("shop", home=open_home)).app), stores


async def lose(api, stores, path, value, **headers):
    """Send a request whose answer the store does not give, and the same again."""
    stores[0].lost = True
    response = await api.send("POST", path, value, **headers)
    assert (response.status, response.header("retry-after")) == (503, "1")
    assert b"store_unavailable" in response.body and b"table-7" not in response.body
    assert stores[0].count > 0
    stores[0].lost = False
    return await api.send("POST", path, value, **headers)


async def test_a_start_whose_answer_was_lost_is_the_same_execution_when_it_is_sent_again(impatient, deaf):
    api, stores = deaf
    async with api.app:
        assert (await lose(api, stores, "/v1/workflows/checkout/a", b'["tok"]')).status == 202
        assert (await lose(api, stores, "/v1/workflows/checkout", b'["tok"]', idempotency_key="b")).status == 202
        listed = (await api.get("/v1/workflows"))[1]["executions"]
        assert sorted(each["id"] for each in listed) == ["a", "b"]


async def test_a_message_whose_answer_was_lost_is_applied_once_when_it_is_sent_again(
    impatient, deaf, memory_shop, eventually
):
    api, stores = deaf
    async with api.app:
        for number in range(2):
            sent = await lose(api, stores, "/v1/actors/Cart/k/add/send", b'["lamp"]', request_id=f"r-{number}")
            assert sent.status == 202
        async with memory_shop.working() as working:

            async def all_applied():
                answers = [await working.get(f"/v1/actors/Cart/k/requests/r-{number}") for number in range(2)]
                return [answer["status"] for _, answer in answers] == ["completed", "completed"]

            await eventually(all_applied)
            assert await working.get("/v1/actors/Cart/k/total") == (200, {"result": 2})


async def test_a_signal_whose_answer_was_lost_is_received_once_when_it_is_sent_again(impatient, deaf, memory_shop):
    api, stores = deaf
    async with api.app:
        await api.post("/v1/workflows/approval/a", [7])
        path = "/v1/workflows/approval/a/signals/decision"
        assert (await lose(api, stores, path, b'{"sku": "x", "n": 1}', message_id="m-1")).status == 202
        async with memory_shop.working() as working:
            answer = (await working.get("/v1/workflows/approval/a?wait=10s"))[1]
            assert answer["result"] == "Line(sku='x', n=1): 7"
            events = (await working.get("/v1/workflows/approval/a/history"))[1]["events"]
            assert [each["name"] for each in events if each["kind"] == "signal"] == ["decision"]
