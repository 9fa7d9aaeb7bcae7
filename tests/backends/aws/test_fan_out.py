"""More work than one environment takes on goes to others; and leases last as long as the invocation does."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from msgspec.structs import replace
from tests.backends.aws.cloud import SWEEP_SECONDS, TIMEOUT_SECONDS, Cloud, in_cloud
from tests.backends.aws.test_lambda import start, status, until_ended

import holdfast as hf
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.items import Item, Update, Write
from holdfast.ports import Home, Store

CHILDREN = 600
MOST = hf.Limits().called_running


class Counted:
    """A store that counts the renewals of leases, and the most entities that one process has held at once."""

    def __init__(self, store: Store, shop: Shop) -> None:
        self._store, self._shop = store, shop

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def write(self, *writes: Write) -> Any:
        for each in writes:
            if isinstance(each, Update) and isinstance(each.lease_until, int) and not each.add_epoch:
                self._shop.renewals += 1
        return self._store.write(*writes)


class Shop:
    def __init__(self) -> None:
        self.data = MemoryData()
        self.opened = self.renewals = 0
        self.began: dict[str, list[int]] = {}
        self.busy: Counter[int] = Counter()
        self.busiest: Counter[int] = Counter()
        self.seconds = 0.5

    def __call__(self, app: hf.App) -> None:
        number, self.opened = self.opened, self.opened + 1

        @app.step
        async def pack(order: str) -> str:
            self.began.setdefault(order, []).append(number)
            self.busy[number] += 1
            self.busiest[number] = max(self.busiest[number], self.busy[number])
            await asyncio.sleep(self.seconds)
            self.busy[number] -= 1
            return order

        @app.workflow
        async def parcel(order: str) -> str:
            return await pack(order)

        @app.workflow
        async def delivery(count: int) -> int:
            handles = [await parcel.start(f"p{n}", id=f"p{n}") for n in range(count)]
            return len([await handle for handle in handles])

    async def open(self, owner: str) -> Home:
        home = open_memory_home(data=self.data, owner=owner)
        return replace(home, store=Counted(home.store, self))


def test_the_children_of_one_parent_run_in_many_environments() -> None:
    async def story(cloud: Cloud, shop: Shop) -> None:
        cloud.begin_sweeping()
        began = cloud.clock.now_ms()
        await cloud.invoke(start("delivery", "d", CHILDREN))
        told = await until_ended(cloud, "delivery", "d")
        assert told.get("result") == CHILDREN, told
        assert (cloud.clock.now_ms() - began) / 1000 < 10
        assert {len(by) for by in shop.began.values()} == {1}
        assert len(shop.busiest) >= CHILDREN / MOST
        assert max(shop.busiest.values()) <= MOST
        assert shop.renewals == 0

    in_cloud(Shop, story)


def head(shop: Shop, id: str) -> Item:
    found = shop.data.find(f"wf#parcel#{id}", "@")
    assert found is not None
    return found


def test_a_lease_lasts_until_the_invocation_ends_and_is_not_renewed() -> None:
    async def story(cloud: Cloud, shop: Shop) -> None:
        shop.seconds = 50
        began = cloud.clock.now_ms()
        running = asyncio.ensure_future(cloud.invoke(start("parcel", "p", "p")))
        await asyncio.sleep(1)
        assert head(shop, "p").lease_until == began + TIMEOUT_SECONDS * 1000
        assert (await running)["status"] == "COMPLETED"
        assert shop.renewals <= 1, "what the execution waits for is told once"

    in_cloud(Shop, story)


def test_in_a_long_invocation_a_lease_lasts_a_minute_and_is_renewed_before_its_end() -> None:
    async def story(cloud: Cloud, shop: Shop) -> None:
        shop.seconds, cloud.timeout_seconds = 600, 900
        running = asyncio.ensure_future(cloud.invoke(start("parcel", "p", "p")))
        for _ in range(59):
            await asyncio.sleep(10)
            assert cloud.clock.now_ms() < (head(shop, "p").lease_until or 0) <= cloud.clock.now_ms() + 60_000
        assert (await running)["status"] == "COMPLETED"
        assert 10 <= shop.renewals <= 14
        assert len(shop.began["p"]) == 1

    in_cloud(Shop, story)


def test_a_request_to_cancel_reaches_an_execution_whose_lease_is_not_renewed() -> None:
    async def story(cloud: Cloud, shop: Shop) -> None:
        shop.seconds = 50
        running = asyncio.ensure_future(cloud.invoke(start("parcel", "p", "p")))
        await asyncio.sleep(7)
        await cloud.invoke({"holdfast": "cancel", "workflow": "parcel", "id": "p"})
        async with asyncio.timeout(6):
            assert (await running)["status"] == "CANCELLED"

    in_cloud(Shop, story)


@pytest.mark.parametrize("seconds_left", [60, 900])
def test_what_a_dead_environment_held_is_taken_over_by_a_sweep_after_its_lease(seconds_left: float) -> None:
    async def story(cloud: Cloud, shop: Shop) -> None:
        shop.seconds, cloud.timeout_seconds = 30, seconds_left
        handler = cloud.environment()
        dying = asyncio.ensure_future(cloud.invoke(start("parcel", "p", "p"), handler))
        await asyncio.sleep(3)
        await cloud.kill(handler, dying)
        cloud.environments.remove(handler)
        died_ms, shop.seconds = cloud.clock.now_ms(), 0
        cloud.begin_sweeping()
        while (await cloud.invoke(status("parcel", "p")))["status"] != "COMPLETED":
            await asyncio.sleep(1)
        assert 55 <= (cloud.clock.now_ms() - died_ms) / 1000 <= 60 + SWEEP_SECONDS + 2
        assert len(shop.began["p"]) == 2

    in_cloud(Shop, story)
