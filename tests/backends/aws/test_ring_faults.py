"""Wake-ups when everything goes wrong that no emulator shows: turned away, lost answers, failed entries, late, doubled.

A ring is a hint (G8): whatever becomes of it, the work is done, once, and at last nothing is left over.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random
from typing import Any

import pytest
from tests.backends.aws.cloud import Cloud
from tests.backends.aws.faults import APPLIED, NOT_APPLIED, FaultyConnection, refused

import holdfast as hf
from holdfast.backends.aws.connection import Connection
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.ports import Home
from holdfast.testing.virtual_time import run_virtual

TURNED_AWAY = ("rate exceeded", "not connected", "failed before")
FAULTS = (*TURNED_AWAY, *APPLIED)
assert NOT_APPLIED.keys() >= set(TURNED_AWAY)
ENTRY_FAILED = "entry failed"
FORBIDDEN = "forbidden"
ORDERS = 24
SEEN: dict[str, Counter[str]] = {"sqs": Counter(), "deliveries": Counter(), "told": Counter()}


class Faulty(FaultyConnection):
    """Besides what happens to any request, some entries of a batch fail; and the role is taken away for a while."""

    def __init__(self, connection: Connection, random: Random) -> None:
        super().__init__(connection, lambda _operation: random.choice(FAULTS) if random.random() < 0.3 else None)
        self._random = random

    async def send(self, operation: str, parameters: dict[str, Any]) -> dict[str, Any]:
        drawn = self._random.random()
        if drawn < 0.03:
            self.suffered[FORBIDDEN] += 1
            raise refused("AccessDenied", 403)(operation)
        if operation != "SendMessageBatch" or drawn > 0.25:
            return await super().send(operation, parameters)
        failing = {each["Id"] for each in parameters["Entries"] if self._random.random() < 0.5}
        passed = [each for each in parameters["Entries"] if each["Id"] not in failing]
        answer = await self.connection.send(operation, parameters | {"Entries": passed}) if passed else {}
        self.suffered[ENTRY_FAILED] += len(failing)
        failed = [{"Id": id, "Code": "InternalError", "SenderFault": False} for id in sorted(failing)]
        return {"Successful": answer.get("Successful", []), "Failed": failed}


class Shop:
    def __init__(self) -> None:
        self.effects: Counter[str] = Counter()
        self.early: list[str] = []

    def __call__(self, app: hf.App) -> None:
        shop = self

        @app.step
        async def charge(order: str) -> None:
            shop.effects[order] += 1

        class Till(hf.Actor, app=app, name="Till"):
            orders: list[str] = hf.field(default_factory=list[str])

            async def add(self, order: str) -> int:
                self.orders = [*self.orders, order]
                return len(self.orders)

            @hf.read
            async def all(self) -> list[str]:
                return self.orders

        @app.workflow
        async def checkout(order: str, waits: list[int]) -> str:
            await charge(order)
            for seconds in waits:
                due = hf.now().timestamp() + seconds
                await hf.sleep(seconds)
                if hf.now().timestamp() < due:
                    shop.early.append(order)
            await Till.at("main").add(order)
            return order


@pytest.mark.parametrize("seed", range(4))
def test_whatever_becomes_of_rings_the_work_is_done_once_and_never_early(seed: int) -> None:
    data, shop, random = MemoryData(), Shop(), Random(seed)

    async def open_store(owner: str) -> Home:
        return open_memory_home(data=data, owner=owner)

    async def main() -> None:
        async with Cloud(open_store, shop) as cloud:
            cloud.way_to_queue = queue = Faulty(cloud.sqs, random)
            cloud.disorder, cloud.doubles = random, 1
            cloud.begin_sweeping()
            names = [f"o{n}" for n in range(ORDERS)]
            client = cloud.app()
            async with client:
                for name in names:
                    waits = [random.choice((1, 30, 600, 1200, 3600)) for _ in range(3)]
                    await client.registry.workflow("checkout").start(name, waits, id=name)
                await asyncio.sleep(4 * 3600)
                found = [await client.handle("checkout", name).status() for name in names]
            assert [each.status for each in found] == ["COMPLETED"] * ORDERS
            asked = {"holdfast": "call", "actor": "Till", "key": "main", "method": "all"}
            assert sorted(await cloud.invoke(asked)) == sorted(names)
            assert shop.effects == dict.fromkeys(names, 1)
            assert shop.early == []
            SEEN["sqs"].update(queue.suffered)
            SEEN["deliveries"].update(cloud.mishaps)
            SEEN["told"].update(cloud.told)

    run_virtual(main)


def test_everything_went_wrong_often_enough() -> None:
    """Runs after the test above, in the same process; alone it draws its own."""
    for seed in range(4 if not SEEN["sqs"] else 0):
        test_whatever_becomes_of_rings_the_work_is_done_once_and_never_early(seed)
    assert all(SEEN["sqs"][fault] >= 5 for fault in (*FAULTS, ENTRY_FAILED, FORBIDDEN)), SEEN
    assert all(SEEN["deliveries"][what] >= 50 for what in ("late", "again")), SEEN
    assert SEEN["told"]["ring_failed"] >= 10, SEEN
