"""Nothing is taken before an earlier entry of its sender, on stores whose pages are no snapshots (G6)."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace
from tests.messaging.places import Placed

import holdfast as hf
from holdfast.backends.memory import open_memory_home
from holdfast.backends.memory.store import MemoryData, MemoryStore
from holdfast.coordination.arrived import arrived, arrived_next
from holdfast.coordination.inbox import INBOX_PREFIX, inbox_sort
from holdfast.items import Item, Put
from holdfast.ports import Page


class TornStore(MemoryStore):
    """A store in which the commit of ``entries`` comes in the middle of a reading: the page misses its first entry."""

    def __init__(self, *entries):
        super().__init__(MemoryData())
        self.entries = entries
        self.torn = 0

    async def query(self, partition, *, prefix="", after=None, limit=1000):
        if self.entries:
            entries, self.entries = self.entries, ()
            await self.write(*map(Put, entries))
        page = await super().query(partition, prefix=prefix, after=after, limit=limit)
        if self.torn == 0 and len(page.items) > 1:
            self.torn += 1
            return Page(page.items[1:], page.cursor)
        return page


def entry(stamp, sender):
    return Item("p", inbox_sort(stamp, sender))


async def taken(*entries, limit=None):
    store = TornStore(*entries)
    home = replace(open_memory_home(), store=store, pages_tear=True)
    found = await arrived(home, "p", INBOX_PREFIX, limit)
    assert store.torn == 1, "no page was torn"
    return found


@pytest.mark.parametrize("limit", [None, 10])
async def test_a_commit_is_taken_whole_or_from_its_beginning(limit):
    entries = (entry(1, "a"), entry(2, "a"), entry(3, "a"))
    assert await taken(*entries, limit=limit) == list(entries)


async def test_what_only_the_second_reading_shows_waits():
    # Whether the first of "a" has itself an earlier one that this reading has missed, only a third would tell.
    assert await taken(entry(1, "a"), entry(2, "b")) == [entry(2, "b")]


async def test_the_next_ones_are_on_the_first_page_that_has_some():
    store = MemoryStore(MemoryData())
    entries = [entry(stamp, "a") for stamp in range(2_500)]
    for first in range(0, 2_500, 100):
        await store.write(*map(Put, entries[first : first + 100]))
    for tears in (False, True):
        home, known, looks = replace(open_memory_home(), store=store, pages_tear=tears), set(), []
        more = True
        while more:
            found, more = await arrived_next(home, "p", INBOX_PREFIX, known)
            looks.append((len(found), more))
            known.update(item.sort for item in found)
        assert looks == [(1_000, True), (2_000, True), (2_500, False)]


async def test_the_next_ones_of_a_torn_page_have_no_gap():
    store = TornStore(*(entry(stamp, "a") for stamp in (1, 2, 3)))
    home = replace(open_memory_home(), store=store, pages_tear=True)
    found, more = await arrived_next(home, "p", INBOX_PREFIX, ())
    assert ([item.sort for item in found], more) == ([entry(stamp, "a").sort for stamp in (1, 2, 3)], False)
    assert store.torn == 1, "no page was torn"


async def test_what_a_second_reading_shows_behind_the_first_is_still_to_come():
    """Between the two, an owner took what the first has shown; the second ends with one of another sender."""

    pages = iter((Page((entry(1, "a"), entry(2, "a")), "cursor"), Page((entry(2, "a"), entry(3, "b")), None)))

    class Moving(MemoryStore):
        async def query(self, partition, *, prefix="", after=None, limit=1000):
            return next(pages)

    home = replace(open_memory_home(), store=Moving(MemoryData()), pages_tear=True)
    assert await arrived_next(home, "p", INBOX_PREFIX, ()) == ((entry(2, "a"),), True)


async def test_an_empty_place_is_read_once():
    reads = []

    class Counted(MemoryStore):
        async def query(self, *args, **options):
            reads.append(args)
            return await super().query(*args, **options)

    assert (
        await arrived(replace(open_memory_home(), store=Counted(MemoryData()), pages_tear=True), "p", INBOX_PREFIX)
        == []
    )
    assert len(reads) == 1


async def test_a_snapshot_is_read_once():
    store = TornStore(entry(1, "a"), entry(2, "a"))
    home = replace(open_memory_home(), store=store)
    assert await arrived(home, "p", INBOX_PREFIX) == [entry(2, "a")], "the store lies about its pages"


@pytest.mark.parametrize("where", ["out#shop", "actor#!shop!note#actor#Sender#s"])
async def test_events_of_a_torn_page_are_all_handled_in_their_order(where):
    torn = []

    class Torn(MemoryStore):
        async def query(self, partition, *, prefix="", after=None, limit=1000):
            page = await super().query(partition, prefix=prefix, after=after, limit=limit)
            if partition == where and prefix in {"o#", "i#"} and len(page.items) == 3 and not torn:
                torn.append(page)
                return Page(page.items[1:], page.cursor)
            return page

    async def home():
        return replace(open_memory_home(), store=Torn(MemoryData()), pages_tear=True)

    app, handled, all_handled = hf.App("shop", home=home), [], asyncio.Event()

    @app.consumer(Placed)
    async def note(event: Placed) -> None:
        handled.append(event.order)
        if len(handled) == 3:
            all_handled.set()

    class Sender(hf.Actor, app=app):
        async def publish(self) -> None:
            for order in ("a", "b", "c"):
                await app.publish(Placed(order))

    async with app.worker():
        await Sender.at("s").publish()
        async with asyncio.timeout(60):
            await all_handled.wait()
    assert handled == ["a", "b", "c"]
    assert torn, "no page was torn"


async def test_a_whole_page_is_read_once():
    class Whole(MemoryStore):
        read = 0

        async def query(self, partition, *, prefix="", after=None, limit=1000):
            self.read += 1
            return replace(await super().query(partition, prefix=prefix, after=after, limit=limit), whole=True)

    store = Whole(MemoryData())
    await store.write(Put(entry(1, "a")), Put(entry(2, "b")))
    home = replace(open_memory_home(), store=store, pages_tear=True)
    assert await arrived(home, "p", INBOX_PREFIX) == [entry(1, "a"), entry(2, "b")]
    assert store.read == 1
