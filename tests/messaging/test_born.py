"""Events that stand alone: their handlers come into being with our lease, and nothing is read for them."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace
from tests.messaging.places import Placed, virtually

import holdfast as hf
from holdfast.actors.turn import born
from holdfast.backends.memory import open_memory_home
from holdfast.backends.memory.store import MemoryStore
from holdfast.errors import StoreUnavailable
from holdfast.items import Put, place
from holdfast.messaging.outbox import is_hidden
from holdfast.ports import Home

EVENTS = 30


class Watching(MemoryStore):
    """It notes what is asked of the actors that handle events. ``loses``: so many answers to their births."""

    loses = 0

    def __init__(self, data):
        super().__init__(data)
        self.reads, self.written = [], []

    async def get(self, partition, sort="@"):
        self.note(partition)
        return await super().get(partition, sort)

    async def query(self, partition, **options):
        self.note(partition)
        return await super().query(partition, **options)

    def note(self, partition):
        if partition.startswith("actor#") and is_hidden(partition):
            self.reads.append(partition)

    def write(self, *writes):
        partition = place(writes[0])[0]
        written = super().write(*writes)
        if not (partition.startswith("actor#") and is_hidden(partition)):
            return written
        self.written.append(writes)
        if self.loses and isinstance(writes[-1], Put):
            self.loses -= 1
            return lost(written)
        return written


async def lost(written):
    await written
    raise StoreUnavailable("its answer is lost")


def process(at, handled, *, loses=0, takes=0.01, **limits):
    stores: list[Watching] = []

    async def open_home() -> Home:
        stores.append(Watching(at.data))
        stores[-1].loses = loses
        return replace(open_memory_home(data=at.data), store=stores[-1], writes_are_paid=True)

    app = hf.App("shop", home=open_home, clock=at.clock, limits=hf.Limits(**limits))

    @app.consumer(Placed)
    async def pack(event: Placed) -> None:
        await asyncio.sleep(takes)
        handled.append(event.order)

    return app, stores


async def publish(app):
    await asyncio.gather(*(app.publish(Placed(str(number))) for number in range(EVENTS)))


@virtually
async def test_each_takes_two_writes_and_no_read(place):
    handled: list[str] = []
    app, stores = process(place, handled)
    async with app.worker():
        await publish(app)
        await place.rest()
    (store,) = stores
    assert sorted(map(int, handled)) == list(range(EVENTS))
    assert store.reads == []
    assert len(store.written) == 2 * EVENTS
    born_heads = [writes[-1].item for writes in store.written if isinstance(writes[-1], Put)]
    assert len(born_heads) == EVENTS
    assert all(head.due_at is not None for head in born_heads), "one is not found if its process dies (G1)"


@pytest.mark.parametrize(("loses", "running"), [(EVENTS, 2_000), (0, 2)], ids=["answers are lost", "there is no room"])
def test_each_is_handled_once_where_it_cannot_begin_at_once(loses, running):
    @virtually
    async def test(place):
        handled: list[str] = []
        app, stores = process(place, handled, loses=loses, running=running)
        async with app.worker():
            await publish(app)
            await place.rest(seconds=60)
        assert sorted(map(int, handled)) == list(range(EVENTS))
        assert stores[0].loses == 0
        assert len(stores[0].written) > 2 * EVENTS, "each has begun at once"

    test()


@virtually
async def test_a_repeat_that_comes_while_it_runs_is_taken_in_before_it_is_released(place):
    handled: list[str] = []
    app, _ = process(place, handled, takes=1.0)
    async with app.worker():
        for _ in range(3):
            await app.publish(Placed("one"), id="one")
            await asyncio.sleep(0.3)
        await place.rest()
    assert handled == ["one"]
    assert place.unrest() == []


def test_one_that_outlasts_its_lease_before_it_begins_is_left_to_a_claim(monkeypatch):
    monkeypatch.setattr(born, "lease_until", lambda now, _host: now)

    @virtually
    async def test(place):
        handled: list[str] = []
        app, stores = process(place, handled)
        async with app.worker():
            await publish(app)
            await place.rest()
        assert sorted(map(int, handled)) == list(range(EVENTS))
        assert len(stores[0].written) > 2 * EVENTS

    test()
