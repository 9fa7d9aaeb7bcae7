"""An actor for which more messages wait than one look takes in."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

import holdfast as hf
from holdfast.backends.aws.requests import BOUNDS
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.backends.memory.store import PAGE_ITEMS, MemoryStore
from holdfast.coordination.inbox import INBOX_PREFIX
from holdfast.items import HEAD
from holdfast.ports import Home
from holdfast.testing import VirtualClock, run_virtual
from holdfast.testing.world import swift

MESSAGES = 2 * PAGE_ITEMS + 500


class Counting(MemoryStore):
    """It counts the messages that are read."""

    def __init__(self, data: MemoryData) -> None:
        super().__init__(data)
        self.read = 0

    async def query(self, partition, *, prefix="", after=None, limit=1000):
        page = await super().query(partition, prefix=prefix, after=after, limit=limit)
        self.read += len(page.items) if prefix == INBOX_PREFIX else 0
        return page


class Flood:
    """Processes on one store that is billed, and an actor that notes what it is told."""

    def __init__(self) -> None:
        self.data, self.clock = MemoryData(), VirtualClock()

    def process(self, mailbox: int = MESSAGES):
        stores: list[Counting] = []

        async def open_home() -> Home:
            stores.append(Counting(self.data))
            home = open_memory_home(data=self.data)
            return replace(home, store=stores[-1], writes_are_paid=True, pages_tear=True, bounds=BOUNDS)

        app = hf.App("shop", home=open_home, clock=self.clock, limits=swift(hf.Limits()))

        class Log(hf.Actor, app=app, mailbox=mailbox):
            lines: tuple[int, ...] = ()

            async def note(self, line: int) -> None:
                await asyncio.sleep(0.001)
                self.lines = (*self.lines, line)

            async def all(self) -> list[int]:
                return list(self.lines)

        return app, Log, stores

    async def send(self, count: int = MESSAGES) -> None:
        client, log, _ = self.process()
        async with client:
            for number in range(count):
                await hf.send(log.at("one").note, number)


def test_each_message_of_a_flood_is_applied_once_and_in_order_and_hardly_read_twice():
    flood = Flood()

    async def main():
        await flood.send()
        app, log, stores = flood.process()
        async with app.worker():
            assert await log.at("one").all() == list(range(MESSAGES))
        assert stores[0].read < 2 * 2 * MESSAGES  # pages are torn, so each look is two readings

    run_virtual(main)


def test_a_worker_that_stops_in_a_flood_leaves_the_rest_to_the_next():
    flood = Flood()

    async def main():
        await flood.send()
        first, log, _ = flood.process()
        async with first.worker():
            while flood.data.find("actor#Log#one", HEAD).epoch < 2:  # one commit, of the first page at most
                await asyncio.sleep(0.001)
        head = flood.data.find("actor#Log#one", HEAD)
        assert head.owner is None
        assert head.due_at is not None
        assert head.due_at <= flood.clock.now_ms()
        second, log, _ = flood.process()
        async with second.worker():
            assert await log.at("one").all() == list(range(MESSAGES))

    run_virtual(main)


@pytest.mark.parametrize("mailbox", [PAGE_ITEMS, PAGE_ITEMS + 1])
def test_a_mailbox_of_more_than_a_page_takes_as_many_as_it_says(mailbox):
    flood = Flood()

    async def main():
        await flood.send(PAGE_ITEMS)
        client, log, _ = flood.process(mailbox)
        async with client:
            if mailbox > PAGE_ITEMS:
                await hf.send(log.at("one").note, 0)
            with pytest.raises(hf.MailboxFull, match=str(mailbox)):
                await hf.send(log.at("one").note, 1)

    run_virtual(main)
