"""A store that takes only so much at once: what is more goes in several writes, each of which leaves a whole state."""

from __future__ import annotations

import asyncio
import dataclasses
from collections import Counter
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.scenarios import ACTOR_SCENARIOS, EVENT_SCENARIOS, SCENARIOS

import holdfast as hf
from holdfast.actors.turn.commit import together
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.errors import InvalidInput
from holdfast.items import Bounds, Delete, Item, Put, body_of, parts_of
from holdfast.testing import crash_at_every_write, run_swarm
from holdfast.testing.world import MemoryDatabase

BOUNDS = Bounds(writes=100, body_bytes=4 * 2**20)
NARROW = Bounds(writes=2, body_bytes=2**20)
"""One thing at a time."""
FORGETFUL = hf.Limits(linger_seconds=0.0, near_seconds=0.0, resident=0)


class Bounded:
    """A store that refuses more than it takes at once, as DynamoDB does."""

    def __init__(self, store, bounds):
        self._store, self._bounds = store, bounds
        self.largest = 0
        self.get, self.query, self.due, self.scan = store.get, store.query, store.due, store.scan
        self.close, self.purge, self.write_after = store.close, store.purge, store.write_after

    def write(self, *writes):
        self.largest = max(self.largest, len(writes))
        if len(writes) > self._bounds.writes or sum(len(body_of(each)) for each in writes) > self._bounds.body_bytes:
            raise InvalidInput(f"{len(writes)} writes at once")
        return self._store.write(*writes)


class BoundedWorld:
    """One home on which every app commits at most so much at once."""

    def __init__(self, bounds=BOUNDS):
        self.data = MemoryData()
        self.bounds = bounds
        self.largest = 0
        self.stores = []

    async def open(self):
        home = open_memory_home(data=self.data)
        store = Bounded(home.store, self.bounds)
        self.stores.append(store)
        return replace(home, store=store, purges=store, sequencer=store, bounds=self.bounds)

    def app(self, **options):
        return hf.App("shop", home=self.open, **options)

    @property
    def largest_write(self):
        return max(store.largest for store in self.stores)


@dataclass
class Placed:
    order: int


def declare_till(app):
    class Till(hf.Actor, app=app):
        total: int = 0
        seen: list[int] = hf.field(default_factory=list)

        async def add(self, number: int) -> int:
            self.total += 1
            self.seen.append(number)
            return self.total

        @hf.read
        async def numbers(self) -> list[int]:
            return self.seen

        async def pour(self, many: int) -> None:
            self.total = -1
            for number in range(many):
                await hf.send(Till.at("other").add, number)

    return Till


@given(st.lists(st.integers(0, 40), max_size=60), st.integers(2, 9), st.integers(40, 90))
def test_parts_hold_everything_in_order_and_fit(sizes, writes, body_bytes):
    bounds = Bounds(writes=writes, body_bytes=body_bytes)
    all_writes = [Put(Item("p", str(n), body=bytes(size))) for n, size in enumerate(sizes)]
    parts = parts_of(all_writes, bounds)
    assert [each for part in parts for each in part] == all_writes
    assert all(part and bounds.fit(part) for part in parts)


def test_what_is_too_large_by_itself_is_a_part_of_its_own():
    bounds = Bounds(writes=10, body_bytes=10)
    large, small = Put(Item("p", "1", body=bytes(11))), Delete("p", "2")
    assert parts_of([small, large, small], bounds) == [[small], [large], [small]]
    assert parts_of([large], None) == [[large]]
    assert parts_of([], None) == parts_of([], bounds) == []


async def test_300_messages_that_wait_for_one_actor():
    world = BoundedWorld()
    app = world.app()
    till = declare_till(app).at("main")
    async with app:
        for number in range(300):
            await hf.send(till.add, number)
    async with app.worker():
        async with asyncio.timeout(60):
            while len(numbers := await till.numbers()) < 300:
                await asyncio.sleep(0)
    assert numbers == list(range(300))
    assert world.largest_write <= 100


async def test_300_calls_at_once_each_with_a_reply_that_is_kept():
    world = BoundedWorld()
    app = world.app()
    till = declare_till(app)
    async with app.worker():
        answers = await asyncio.gather(*(till.at("main", request_id=f"r{n}").add(n) for n in range(300)))
    assert sorted(answers) == list(range(1, 301))
    assert world.largest_write <= 100


async def test_300_events_that_wait_in_the_outbox():
    world = BoundedWorld()
    app = world.app()
    handled = []

    @app.consumer(Placed)
    async def pack(event: Placed) -> None:
        handled.append(event.order)

    async with app:
        for order in range(300):
            await app.publish(Placed(order), id=f"order-{order}")
    async with app.worker():
        async with asyncio.timeout(60):
            while len(handled) < 300 or (await app.outbox.waiting()).items:
                await asyncio.sleep(0)
    assert sorted(handled) == list(range(300))
    assert world.largest_write <= 100


@pytest.mark.parametrize("limits", [hf.Limits(), FORGETFUL], ids=["resident", "forgetful"])
async def test_250_signals_that_wait_for_one_execution(limits):
    world = BoundedWorld()
    app = world.app(limits=limits)

    @app.workflow
    async def gather(many: int) -> list[int]:
        return [await hf.signal("number", int) for _ in range(many)]

    async with app:
        handle = await gather.start(250, id="g")
        for number in range(250):
            await handle.signal("number", number)
    async with app.worker():
        assert await handle == list(range(250))
    assert world.largest_write <= 100


async def test_250_signals_that_nobody_has_read_when_the_run_ends():
    world = BoundedWorld()
    app = world.app()

    @app.workflow
    async def relay_race(runs: int) -> list[int]:
        numbers = [await hf.signal("number", int) for _ in range(10)]
        return numbers if runs == 1 else hf.continue_as_new(runs - 1)

    async with app:
        handle = await relay_race.start(5, id="r")
        for number in range(250):
            await handle.signal("number", number)
    async with app.worker():
        assert await handle == list(range(40, 50))
    assert world.largest_write <= 100
    assert not [sort for sort in world.data.partitions["wf#relay_race#r"] if sort.startswith("i#")]


async def test_a_call_that_sends_more_than_one_commit_takes_fails_and_leaves_nothing():
    world = BoundedWorld()
    app = world.app()
    till = declare_till(app)
    async with app.worker():
        with pytest.raises(InvalidInput, match="at most 95 of them"):
            await till.at("main").pour(96)
        assert await till.at("main").add(1) == 1
        assert await till.at("other").numbers() == []


class NarrowDatabase(MemoryDatabase):
    """What the processes of a simulated world share: they write hardly anything at once."""

    async def open(self, owner):
        return replace(await super().open(owner), bounds=NARROW)


NARROWED = [
    dataclasses.replace(each, database=NarrowDatabase)
    for each in (*SCENARIOS, *ACTOR_SCENARIOS, *EVENT_SCENARIOS)
    if each.database is MemoryDatabase and not each.has_client
]


@pytest.fixture
def splits(monkeypatch):
    """How often a commit of an actor, or anything else, was split. Single calls may write as much as they like."""
    counted = Counter()

    def counting_parts(writes, bounds):
        parts = parts_of(writes, bounds)
        counted["parts"] += len(parts) > 1
        return parts

    def counting_together(finished, bounds, **options):
        batch, rest = together(finished, bounds, **options)
        counted["actors"] += bool(rest)
        return batch, rest

    monkeypatch.setattr("holdfast.actors.scope.OWN_WRITES", -1_000)
    monkeypatch.setattr("holdfast.replay.journal.parts_of", counting_parts)
    monkeypatch.setattr("holdfast.actors.mailbox.delivery.parts_of", counting_parts)
    monkeypatch.setattr("holdfast.actors.turn.commit.together", counting_together)
    return counted


def test_a_swarm_in_which_everything_is_split(splits):
    run_swarm(NARROWED, range(60))
    assert splits["parts"] >= 20
    assert splits["actors"] >= 50


@pytest.mark.parametrize("name", ["requests", "signals", "events of an actor"])
def test_a_crash_at_any_write_of_what_is_split_changes_nothing(name, splits):
    (each,) = [each for each in NARROWED if each.name == name]
    report = crash_at_every_write(each)
    assert report.points == 4 * report.writes > 0
    assert splits.total() > 0
