"""Sweeps of functions: they call others for what is due, work on nothing themselves, and see what is due soon."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from msgspec.structs import replace
from tests.backends.aws.cloud import SWEEP_SECONDS, Cloud, Refusal, in_cloud

import holdfast as hf
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.ports import AHEAD_MS, Home
from holdfast.testing import run_virtual

SWEEP: dict[str, Any] = {"holdfast": "sweep"}
MANY = 1_500


class Shop:
    """What an environment runs, and which of them did what, in which order they were opened."""

    def __init__(self) -> None:
        self.data = MemoryData()
        self.ran: dict[str, list[int]] = {}
        self.opened = 0
        self.looks = 0

    def __call__(self, app: hf.App) -> None:
        number = self.opened
        self.opened += 1

        @app.step
        async def charge(order: str) -> str:
            self.ran.setdefault(order, []).append(number)
            await asyncio.sleep(0.02)
            return order

        @app.workflow
        async def checkout(order: str, seconds: float = 0) -> str:
            await hf.sleep(seconds)
            return await charge(order)

    async def open(self, owner: str) -> Home:
        return open_memory_home(data=self.data, owner=owner)

    async def start(self, cloud: Cloud, orders: list[str], seconds: float = 0, **options: Any) -> None:
        """Start executions as a client whose wake-ups are all lost."""

        async def open_home() -> Home:
            return await self.open("client")

        app = hf.App("shop", home=open_home, clock=cloud.clock)
        self(app)
        async with app:
            for order in orders:
                await app.registry.workflow("checkout").start(order, seconds, id=order, **options)


def test_a_sweep_has_the_index_in_as_many_parts_as_it_says() -> None:
    divided: list[int] = []

    class Divided(Shop):
        async def open(self, owner: str) -> Home:
            async def divide(parts: int) -> None:
                divided.append(parts)

            return replace(await super().open(owner), divide=divide)

    async def main() -> None:
        shop = Divided()
        async with Cloud(shop.open, shop) as cloud:
            for event in (SWEEP, SWEEP | {"parts": 20}, SWEEP):
                await cloud.invoke(event)

    run_virtual(main)
    assert divided == [20]


def test_what_is_overdue_is_spread_over_many_environments_and_the_sweep_does_none_of_it() -> None:
    async def story(cloud: Cloud, shop: Shop) -> None:
        await shop.start(cloud, [f"o{n}" for n in range(MANY)])
        await asyncio.sleep(10)
        sweeping, number = cloud.environment(), shop.opened - 1
        began = cloud.clock.now_ms()
        await cloud.invoke(SWEEP, sweeping)
        took_seconds = (cloud.clock.now_ms() - began) / 1000
        assert took_seconds < MANY / 1000, "at least a thousand a second"
        assert cloud.sqs.requests["SendMessageBatch"] == MANY / 10
        await asyncio.sleep(5)
        assert sorted(shop.ran) == sorted(f"o{n}" for n in range(MANY))
        assert {len(by) for by in shop.ran.values()} == {1}, "each ran once"
        shares = Counter(by for (by,) in shop.ran.values())
        assert number not in shares
        assert len(shares) > 20
        assert max(shares.values()) <= MANY / 10

    in_cloud(Shop, story)


def test_a_sweep_whose_time_is_up_ends_in_order_and_the_next_one_goes_on() -> None:
    async def story(cloud: Cloud, shop: Shop) -> None:
        await shop.start(cloud, [f"o{n}" for n in range(MANY)])
        await asyncio.sleep(10)
        cloud.timeout_seconds = 0.03  # for one page of a thousand, and not for two
        assert await cloud.invoke(SWEEP) is None
        rung = len(cloud.sqs.sent)
        assert rung == 1_000
        cloud.timeout_seconds = 60
        await asyncio.sleep(SWEEP_SECONDS)
        assert len(shop.ran) == rung
        await cloud.invoke(SWEEP)
        await asyncio.sleep(5)
        assert len(shop.ran) == MANY
        assert {len(by) for by in shop.ran.values()} == {1}

    in_cloud(Shop, story)


def test_what_is_due_soon_is_called_for_once_and_on_time_by_any_sweep_before() -> None:
    async def story(cloud: Cloud, shop: Shop) -> None:
        began = cloud.clock.now_ms()
        waits = {f"o{n}": 10 * n for n in range(1, 31)}
        for order, seconds in waits.items():
            await shop.start(cloud, [order], delay=f"{seconds}s")
        cloud.begin_sweeping()
        ended: dict[str, float] = {}
        while len(ended) < len(waits):
            await asyncio.sleep(0.5)
            ended |= {order: (cloud.clock.now_ms() - began) / 1000 for order in shop.ran.keys() - ended.keys()}
        assert all(
            waits[order] <= at <= waits[order] + 2 for order, at in ended.items() if waits[order] > SWEEP_SECONDS
        )
        assert len(cloud.sqs.sent) <= 1.3 * len(waits), "another environment may not know what one has called for"
        assert max(cloud.sqs.delays) <= AHEAD_MS / 1000

    in_cloud(Shop, story)


def test_sweeps_that_do_not_come_delay_what_they_would_have_found_and_nothing_is_lost() -> None:
    async def story(cloud: Cloud, shop: Shop) -> None:
        await shop.start(cloud, ["o1"], delay="2h")
        await asyncio.sleep(3 * 3600)
        assert not shop.ran
        await cloud.invoke(SWEEP)
        await asyncio.sleep(1)
        assert list(shop.ran) == ["o1"]

    in_cloud(Shop, story)


def test_a_call_that_came_to_nothing_is_repeated_by_the_next_sweep() -> None:
    async def story(cloud: Cloud, shop: Shop) -> None:
        await shop.start(cloud, ["o1", "o2"])
        await asyncio.sleep(10)
        cloud.put = lambda *_args, **_options: None  # type: ignore[method-assign]  # the queue loses them
        await cloud.invoke(SWEEP)
        await cloud.invoke(SWEEP)
        assert len(cloud.sqs.sent) == 2, "not again within moments"
        del cloud.put  # type: ignore[attr-defined]
        await asyncio.sleep(SWEEP_SECONDS)
        await cloud.invoke(SWEEP)
        await asyncio.sleep(1)
        assert sorted(shop.ran) == ["o1", "o2"]

    in_cloud(Shop, story)


def test_without_a_queue_the_sweep_does_the_work_itself() -> None:
    async def story(cloud: Cloud, shop: Shop) -> None:
        await shop.start(cloud, ["o1", "o2"])
        await shop.start(cloud, ["later"], delay="40s")
        await asyncio.sleep(10)
        cloud.sqs.broken = [Refusal("AWS.SimpleQueueService.NonExistentQueue")]
        await cloud.invoke(SWEEP)
        assert sorted(shop.ran) == ["o1", "o2"]
        await asyncio.sleep(SWEEP_SECONDS)
        cloud.sqs.broken = [Refusal("AWS.SimpleQueueService.NonExistentQueue")]
        await cloud.invoke(SWEEP)
        assert sorted(shop.ran) == ["later", "o1", "o2"]

    in_cloud(Shop, story)


def test_the_lease_of_a_living_owner_calls_for_nobody_and_a_dead_ones_does() -> None:
    async def story(cloud: Cloud, shop: Shop) -> None:
        handler = cloud.environment()
        started = {"holdfast": "start", "workflow": "checkout", "id": "o1", "input": ["o1"]}
        dying = asyncio.get_running_loop().create_task(cloud.invoke(started, handler))
        while not shop.ran:
            await asyncio.sleep(0.001)
        await cloud.invoke(SWEEP)
        assert cloud.sqs.sent == []
        await cloud.kill(handler, dying)
        cloud.environments.remove(handler)
        await cloud.invoke(SWEEP)
        assert cloud.sqs.sent == [], "its lease lasts a little longer"
        await asyncio.sleep(SWEEP_SECONDS)
        await cloud.invoke(SWEEP)
        await asyncio.sleep(1)
        assert len(shop.ran["o1"]) == 2
        assert [each["partition"] for each in cloud.sqs.sent] == ["wf#checkout#o1"]

    in_cloud(Shop, story)
