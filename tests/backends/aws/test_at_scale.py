"""Ten thousand children of one parent, and twenty thousand overdue executions, on functions in virtual time.

The store is in memory, and each of its requests takes as long as one of DynamoDB, so what is shown is what the
algorithm does: how many environments share the work, what falls to the busiest, what runs twice, and how many requests
a piece of work takes. ``make torture-aws`` plays full sizes, ``make test`` a tenth of them.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import Counter
from typing import Any

import pytest
from msgspec.structs import replace
from tests.backends.aws.cloud import Cloud, in_cloud
from tests.backends.aws.test_lambda import start, until_ended

import holdfast as hf
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.items import Write
from holdfast.ports import Home, Store

LOG = logging.getLogger(__name__)
FULL = "HOLDFAST_TORTURE" in os.environ
CHILDREN = 10_000 if FULL else 1_000
OVERDUE = 20_000 if FULL else 2_000

MOST_AT_ONCE = hf.Limits().called_running
REQUEST_SECONDS = 0.005
"""A request of DynamoDB takes "single-digit milliseconds" (developer guide, "What is Amazon DynamoDB?"): the middle."""

STEP_SECONDS = 0.5
MOST_REQUESTS_OF_A_CHILD = 8
MOST_REQUESTS_OF_AN_OVERDUE = 8
LEAST_A_SECOND = 1_000
STARTED_TOGETHER = 500
OVERDUE_SECONDS = 120
SETTLED_SECONDS = 120


class Slow:
    """A store whose requests take a while, and are counted."""

    def __init__(self, store: Store, requests: Counter[str]) -> None:
        self._store, self._requests = store, requests

    def write(self, *writes: Write) -> asyncio.Future[Any]:
        return asyncio.ensure_future(self._after("write", lambda: self._store.write(*writes)))

    async def get(self, *args: Any) -> Any:
        return await self._after("get", lambda: self._store.get(*args))

    async def query(self, *args: Any, **options: Any) -> Any:
        return await self._after("query", lambda: self._store.query(*args, **options))

    async def due(self, *args: Any, **options: Any) -> Any:
        return await self._after("due", lambda: self._store.due(*args, **options))

    async def close(self) -> None:
        await self._store.close()

    async def _after(self, what: str, ask: Any) -> Any:
        self._requests[what] += 1
        await asyncio.sleep(REQUEST_SECONDS)
        return await ask()


class Shop:
    """A parent of many children, and those by themselves; ``ran`` tells which environments packed an order."""

    def __init__(self) -> None:
        self.data = MemoryData()
        self.opened = 0
        self.ran: dict[str, list[int]] = {}
        self.busy: Counter[int] = Counter()
        self.busiest: Counter[int] = Counter()
        self.requests: Counter[str] = Counter()
        self.last_at_ms = 0

    def __call__(self, app: hf.App) -> None:
        number, self.opened = self.opened, self.opened + 1

        @app.step
        async def pack(order: str) -> str:
            self.ran.setdefault(order, []).append(number)
            self.busy[number] += 1
            self.busiest[number] = max(self.busiest[number], self.busy[number])
            await asyncio.sleep(STEP_SECONDS)
            self.busy[number] -= 1
            self.last_at_ms = app.clock.now_ms()
            return order

        @app.workflow
        async def parcel(order: str) -> str:
            return await pack(order)

        @app.workflow
        async def delivery(count: int) -> int:
            return len(await asyncio.gather(*(parcel(f"p{n}") for n in range(count))))

    async def open(self, owner: str) -> Home:
        home = open_memory_home(data=self.data, owner=owner)
        slow: Any = Slow(home.store, self.requests)
        return replace(home, store=slow, writes_are_paid=True, reads_are_paid=True, hears_peers=False)

    @property
    def share_of_the_busiest(self) -> int:
        """How many orders one environment has packed at most."""
        return max(Counter(number for by in self.ran.values() for number in by).values())

    @property
    def repeats(self) -> int:
        """How many were packed again."""
        return sum(len(by) - 1 for by in self.ran.values())

    def told(self, what: str, count: int, seconds: float) -> str:
        """The figures of a run."""
        asked = {name: round(asked / count, 2) for name, asked in self.requests.items()}
        each = self.requests.total() / count
        return (
            f"{count} {what}: {seconds:.1f} virtual seconds, {count / seconds:,.0f}/s; "
            f"{len(self.busiest)} environments, at most {self.share_of_the_busiest} in one, "
            f"{max(self.busiest.values())} at once; {self.repeats} repeats; {each:.2f} requests each, {asked}"
        )


def test_the_children_of_one_parent_are_shared_by_many_environments() -> None:
    async def story(cloud: Cloud, shop: Shop) -> None:
        cloud.begin_sweeping()
        began = cloud.clock.now_ms()
        await cloud.invoke(start("delivery", "d", CHILDREN))
        told = await until_ended(cloud, "delivery", "d")
        LOG.info(shop.told("children", CHILDREN, (cloud.clock.now_ms() - began) / 1000))
        assert told.get("result") == CHILDREN, told
        assert len(shop.ran) == CHILDREN
        assert shop.repeats == 0
        assert max(shop.busiest.values()) <= MOST_AT_ONCE
        assert len(shop.busiest) >= CHILDREN / MOST_AT_ONCE / 4
        assert shop.share_of_the_busiest <= CHILDREN / 4
        assert shop.requests.total() <= MOST_REQUESTS_OF_A_CHILD * CHILDREN

    in_cloud(Shop, story)


def test_what_is_overdue_is_dispatched_by_one_sweep_and_done_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(cloud: Cloud, shop: Shop) -> None:
        client = cloud.app()
        parcel: Any = client.registry.workflow("parcel")
        with monkeypatch.context() as patch:
            patch.setattr(cloud, "put", lambda *_args, **_options: None)  # all wake-ups are lost
            async with client:
                for first in range(0, OVERDUE, STARTED_TOGETHER):
                    numbers = range(first, min(first + STARTED_TOGETHER, OVERDUE))
                    await asyncio.gather(*(parcel.start(f"o{n}", id=f"o{n}") for n in numbers))
            await asyncio.sleep(OVERDUE_SECONDS)
        assert not shop.ran
        shop.requests.clear()
        cloud.sqs.sent.clear()
        began = cloud.clock.now_ms()
        await cloud.invoke({"holdfast": "sweep"})
        dispatched = Counter(each["partition"] for each in cloud.sqs.sent)
        seconds = (cloud.clock.now_ms() - began) / 1000
        await asyncio.sleep(SETTLED_SECONDS)
        LOG.info("dispatched within %.3f virtual seconds, %d/s", seconds, OVERDUE / seconds)
        LOG.info(shop.told("overdue", OVERDUE, (shop.last_at_ms - began) / 1000))
        assert len(dispatched) == OVERDUE == dispatched.total()
        assert OVERDUE / seconds >= LEAST_A_SECOND
        assert len(shop.ran) == OVERDUE
        assert shop.repeats == 0
        assert max(shop.busiest.values()) <= MOST_AT_ONCE
        assert shop.requests.total() <= MOST_REQUESTS_OF_AN_OVERDUE * OVERDUE

    in_cloud(Shop, story)
