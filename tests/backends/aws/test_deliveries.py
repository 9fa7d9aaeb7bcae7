"""Messages come to the handler twice, late, in any order, and to two environments at once: each takes effect once.

SQS promises at-least-once delivery and only its best effort at order ("Amazon SQS at-least-once delivery", developer
guide); an event source may hand the same message to two environments, as when its visibility ended meanwhile.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest
from tests.backends.aws.cloud import Cloud
from tests.backends.aws.local import lean_client
from tests.backends.aws.world import DynamoDatabase

import holdfast as hf
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.ports import Home
from holdfast.testing import run_virtual

ORDERS = [f"o{number}" for number in range(6)]
LATEST_SECONDS = 40.0
SEEDS = 3


class RestlessCloud(Cloud):
    """Each message is delivered as soon as it is there and once more later; each batch, to two environments at once."""

    def __init__(self, open_store: Callable[[str], Awaitable[Home]], build: Any, seed: int) -> None:
        super().__init__(open_store, build)
        self.delivered: Counter[str] = Counter()
        self._random = Random(seed)
        self._last = -1
        self._sequence: dict[str, int] = {}

    def put(self, body: str, delay_seconds: float, *, id: str | None = None, received: int = 0) -> None:
        known = id or f"message-{next(self._numbers)}"
        self._sequence.setdefault(known, len(self._sequence))
        super().put(body, delay_seconds + self._random.random(), id=known, received=received)
        if received == 0:
            later = delay_seconds + self._random.uniform(1.0, LATEST_SECONDS)
            super().put(body, later, id=known, received=received)

    async def _deliver(self, batch: list[tuple[str, str, int]]) -> None:
        self._random.shuffle(batch)
        for id, _, _ in batch:
            number = self._sequence[id]
            self.delivered[id] += 1
            self.delivered["!out of order"] += number < self._last
            self.delivered["!again"] += self.delivered[id] > 1
            self._last = number
        self.delivered["!at once"] += len(batch)
        await asyncio.gather(super()._deliver(batch), super()._deliver(batch))


class Shop:
    """What it did, by whom; its effects are at least once, told apart by their key."""

    def __init__(self) -> None:
        self.charged: Counter[str] = Counter()

    def __call__(self, app: hf.App) -> None:
        class Till(hf.Actor, app=app):
            orders: list[str] = hf.field(default_factory=list)

            async def add(self, order: str) -> int:
                self.orders.append(order)
                return len(self.orders)

        @app.step
        async def charge(order: str) -> str:
            self.charged[hf.current().idempotency_key] += 1
            await asyncio.sleep(0.2)
            return f"charged {order}"

        @app.workflow
        async def checkout(order: str) -> list[object]:
            paid = await charge(order)
            await hf.sleep("5s")
            approved = await hf.signal("approved", bool)
            await Till.at("main").add(order)
            await hf.send(Till.at("sent").add, order)
            return [paid, approved]


def home_opener(name: str) -> Callable[[str], Awaitable[Home]]:
    if name == "dynamodb":
        return DynamoDatabase(lean_client()).open
    data = MemoryData()

    async def open_home(owner: str) -> Home:
        return open_memory_home(data=data, owner=owner)

    return open_home


@pytest.mark.parametrize("name", ["memory", pytest.param("dynamodb", marks=pytest.mark.aws)])
def test_whatever_the_deliveries_each_message_takes_effect_once(name: str) -> None:
    seen = Counter[str]()
    for seed in range(SEEDS):
        run_virtual(lambda: _a_busy_day(name, seed, seen), seed=seed)  # noqa: B023 - it runs here and now
    assert all(seen[what] >= SEEDS * len(ORDERS) for what in ("!out of order", "!again", "!at once")), seen


async def until_completed(cloud: Cloud, order: str) -> Any:
    while True:
        told = await cloud.invoke({"holdfast": "status", "workflow": "checkout", "id": order})
        if told["status"] == "COMPLETED":
            return told["result"]
        await asyncio.sleep(5)


async def _a_busy_day(name: str, seed: int, seen: Counter[str]) -> None:
    shop = Shop()
    async with RestlessCloud(home_opener(name), shop, seed) as cloud:
        cloud.begin_sweeping()
        for order in ORDERS:
            named = {"workflow": "checkout", "id": order}
            cloud.put(json.dumps({"holdfast": "start", **named, "input": [order]}), 0)
            cloud.put(
                json.dumps({"holdfast": "signal", **named, "name": "approved", "value": True}), 0, id=f"s-{order}"
            )
        await asyncio.sleep(LATEST_SECONDS)
        for order in ORDERS:
            assert await until_completed(cloud, order) == [f"charged {order}", True]
        await asyncio.sleep(400)  # for what comes late, or once more
        app = cloud.app()
        async with app:
            for key in ("main", "sent"):
                state = (await app.actor("Till", key).status()).state
                assert sorted(state["orders"]) == ORDERS, key
        assert len(shop.charged) == len(ORDERS)
        assert cloud.dead == []
        seen.update({what: count for what, count in cloud.delivered.items() if what.startswith("!")})
