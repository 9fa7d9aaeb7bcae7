"""The shards of an outbox: where each write is billed, the events of an app do not go through one head."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest import mock

import msgspec
import pytest
from msgspec.structs import replace

import holdfast as hf
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.items import HEAD
from holdfast.messaging.listing import list_waiting
from holdfast.messaging.outbox import ENTRY_PREFIX, all_parts
from holdfast.messaging.relay import Relays
from holdfast.ports import Home
from holdfast.testing import VirtualClock, run_virtual

MANY = 60


class Placed(msgspec.Struct):
    order: str


class Shop:
    """An app that publishes and consumes, on a home whose writes are ``billed``."""

    def __init__(self, data: MemoryData | None = None, *, billed: bool = True, consumes: bool = True) -> None:
        self.data = data or MemoryData()
        self.handled: list[str] = []
        self.billed = billed
        self.app = app = hf.App("shop", home=self._open, clock=VirtualClock())
        handled = self.handled

        class Desk(hf.Actor, app=app):
            placed: int = 0

            async def order(self, count: int) -> None:
                for _ in range(count):
                    self.placed += 1
                    await app.publish(Placed(f"{self.key} {self.placed}"))

        self.Desk = Desk
        if consumes:

            @app.consumer(Placed)
            async def bill(event: Placed) -> None:
                handled.append(event.order)

    async def _open(self) -> Home:
        return replace(open_memory_home(data=self.data), writes_are_paid=self.billed)

    def waiting(self) -> dict[str, int]:
        """How many events wait in each partition."""
        counts = {
            part: sum(each.startswith(ENTRY_PREFIX) for each in self.data.partitions.get(part, {})) for part in PARTS
        }
        return {part: count for part, count in counts.items() if count}

    async def until(self, holds: Any) -> None:
        for _ in range(10_000):
            if holds():
                return
            await asyncio.sleep(0.05)
        raise AssertionError("it has not happened")


PARTS = all_parts("shop")
MAIN, *SHARDS = PARTS


def of_one(handled: list[str], actor: str) -> list[int]:
    return [int(each.split(" ")[1]) for each in handled if each.startswith(f"{actor} ")]


def test_events_of_many_actors_are_in_many_shards_and_each_actor_s_in_its_order():
    async def main() -> None:
        shop = Shop()
        async with shop.app.worker():
            for _ in range(2):
                await asyncio.gather(*(shop.Desk.at(f"d{number}").order(3) for number in range(MANY)))
            await shop.until(lambda: len(shop.handled) == 6 * MANY)
            assert all(of_one(shop.handled, f"d{number}") == [*range(1, 7)] for number in range(MANY))
        assert shop.data.find(MAIN, HEAD).revision == 0  # the subscriptions are there, and no event was
        assert all(shop.data.find(shard, HEAD).revision for shard in SHARDS)

    run_virtual(main)


def test_events_of_clients_are_spread_by_their_ids_and_a_repeat_is_handled_once():
    async def main() -> None:
        shop = Shop()
        async with shop.app.worker():
            for _ in range(2):
                for number in range(MANY):
                    await shop.app.publish(Placed(f"web {number}"), id=f"web-{number}")
            await shop.until(lambda: len(shop.handled) == MANY and not shop.waiting())
            assert sorted(of_one(shop.handled, "web")) == [*range(MANY)]
        assert shop.data.find(MAIN, HEAD).revision == 0

    run_virtual(main)


def test_a_home_whose_writes_are_free_has_no_shards():
    async def main() -> None:
        shop = Shop(billed=False)
        async with shop.app.worker():
            await asyncio.gather(*(shop.Desk.at(f"d{number}").order(1) for number in range(MANY)))
            await shop.until(lambda: len(shop.handled) == MANY)
        assert not any(shop.data.find(shard, HEAD) for shard in SHARDS)

    run_virtual(main)


@pytest.mark.parametrize("limit", [1, 7, 1000])
def test_the_list_of_what_waits_has_all_shards_page_after_page(limit):
    async def main() -> None:
        shop = Shop(consumes=False)
        async with shop.app:
            for number in range(MANY):
                await shop.app.publish(Placed(f"web {number}"), id=f"web-{number}")
            assert len(shop.waiting()) > 1
            found, after = [], None
            while True:
                page = await list_waiting(shop.app.runtime().home, None, after=after, limit=limit)
                found += page.items
                assert len(page.items) <= limit
                if (after := page.after) is None:
                    break
            assert {each.app for each in found} == {"shop"}
            assert sorted(each.id for each in found) == sorted(f"web-{number}" for number in range(MANY))

    run_virtual(main)


@pytest.mark.parametrize("billed_before", [False, True])
def test_events_that_wait_when_a_home_is_moved_come_before_later_ones(billed_before):
    async def main() -> None:
        before = Shop(billed=billed_before)
        with mock.patch.object(Relays, "serves", return_value=False):
            async with before.app.worker():
                await before.Desk.at("d").order(2)
                await before.app.publish(Placed("web 1"), id="web-1")
                await before.until(lambda: sum(before.waiting().values()) == 3)
        after = Shop(before.data, billed=not billed_before)
        async with after.app.worker():
            await after.Desk.at("d").order(2)
            await after.until(lambda: len(after.handled) == 5)
            assert of_one(after.handled, "d") == [1, 2, 3, 4]
            assert of_one(after.handled, "web") == [1]
            await after.until(lambda: not after.waiting())

    run_virtual(main)
