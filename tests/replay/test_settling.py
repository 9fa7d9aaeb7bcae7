"""Where writes are paid, the last entries before a rest ride in the head, and an end after a wait needs no claim.

What it saves, and that nothing is lost, repeated or ended by one that it is not for.
"""

from __future__ import annotations

import asyncio
from random import Random

import pytest
from msgspec.structs import replace

import holdfast as hf
from holdfast.backends.aws.units import units_of
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.items import HEAD, Put, place
from holdfast.replay.entries import Cancelled, Done, Marked, Pending
from holdfast.replay.journal import SEGMENT_PREFIX
from holdfast.testing import PATIENT, VirtualClock, run_virtual
from holdfast.workflows.record import decode_record, partition_of

AT_ONCE = replace(PATIENT, linger_seconds=0.0, near_seconds=0.0)
PLACE = partition_of("work", "one")
HOUR = 3_600


class Told:
    """A store, and what it was asked to write for the execution."""

    def __init__(self, store):
        self._store = store
        self.writes = []

    def __getattr__(self, name):
        return getattr(self._store, name)

    def write(self, *writes):
        self.writes += [writes] if place(writes[0])[0] == PLACE else []
        return self._store.write(*writes)

    @property
    def told(self):
        """The writes in short: a segment, a claim, or how it was left."""
        return [_told(each[0]) for each in self.writes]


def _told(write):
    if isinstance(write, Put):
        return "start" if write.item.sort == HEAD else "segment"
    return "claim" if write.add_epoch else write.status


class Shop:
    """Processes on one home in memory, on which each write is paid for."""

    def __init__(self, result="paid"):
        self.data = MemoryData()
        self.ran = []
        self.result = result

    def process(self, owner, *, name="work", steps=1, limits=AT_ONCE, units=None, wait=HOUR, then=0):
        """An app whose workflow does some steps, waits, and does others. Answers its workflow and its store, too."""
        stores = []
        until = VirtualClock().now_ms() / 1000 + wait

        async def open_home():
            home = open_memory_home(data=self.data, owner=owner)
            stores.append(Told(home.store))
            return replace(home, store=stores[-1], writes_are_paid=True, purges=None, units_of=units)

        app = hf.App("shop", home=open_home, clock=VirtualClock(), limits=limits)

        @app.step
        async def step(number: int) -> str:
            self.ran.append((owner, number))
            return self.result

        @app.workflow(name=name, retention="1h")
        async def work(word: str) -> str:
            for number in range(steps):
                await step(number)
            if wait:
                await hf.sleep(round(until - hf.now().timestamp(), 3))
            else:
                word += await hf.signal("go", str) + await hf.signal("go", str)
            for number in range(steps, steps + then):
                await step(number)
            return word

        return app, work, stores

    def record(self):
        return decode_record(self.data.find(PLACE, HEAD).body)

    def segments(self):
        return [sort for sort in self.data.partitions[PLACE] if sort.startswith(SEGMENT_PREFIX)]


def test_a_step_a_sleep_and_the_end_are_three_writes():
    async def main():
        shop = Shop()
        app, work, stores = shop.process("a")
        async with app.worker():
            assert await (await work.start("done", id="one")) == "done"
        assert stores[0].told == ["start", "SUSPENDED", "COMPLETED"]
        assert not shop.segments()

    run_virtual(main)


def test_where_an_execution_lingers_its_last_step_is_written_at_once():
    async def main():
        shop = Shop()
        app, work, stores = shop.process("a", limits=PATIENT)
        async with app.worker():
            assert await (await work.start("done", id="one")) == "done"
        assert stores[0].told == ["start", "segment", "SUSPENDED", "COMPLETED"]

    run_virtual(main)


def test_another_process_goes_on_behind_what_the_head_holds_and_its_next_segment_brings_it_along():
    async def main():
        shop = Shop()
        (first, work, _), (second, again, stores) = (shop.process(owner, then=2) for owner in "ab")
        async with first.worker():
            handle = await work.start("done", id="one")
            await asyncio.sleep(60)
            assert [event.name for event in await handle.history()] == ["step#0"]
        assert [type(each) for each in shop.record().notes][:1] == [Done]
        assert not shop.segments()
        async with second.worker():
            await asyncio.sleep(HOUR + 60)
            assert [event.name for event in await again.handle("one").history()] == [
                "step#0",
                "sleep#0",
                "step#1",
                "step#2",
            ]
        assert shop.ran == [("a", 0), ("b", 1), ("b", 2)]
        assert stores[0].told == ["claim", "segment", "segment", "COMPLETED"]

    run_virtual(main)


def test_a_message_that_leads_to_another_wait_is_taken_out_by_the_release():
    async def main():
        shop = Shop()
        app, work, stores = shop.process("a", steps=0, wait=0)
        async with app.worker():
            handle = await work.start("done", id="one")
            await asyncio.sleep(60)
            del stores[0].writes[:]
            await handle.signal("go", "!")
            await asyncio.sleep(60)
            assert [_told(each[0]) for each in stores[0].writes[1:]] == ["claim", "SUSPENDED"]
            assert not [sort for sort in shop.data.partitions[PLACE] if sort.startswith("i#")]
            await handle.signal("go", "?")
            assert await handle == "done!?"
        assert not shop.segments()

    run_virtual(main)


def test_what_a_retry_has_kept_aside_does_not_hide_what_the_head_holds():
    """What is kept aside counts as an entry until the body asks for it again: another process counts fewer."""

    async def main():
        shop = Shop()

        def process(owner):
            app, _, stores = shop.process(owner, name="other")

            @app.step(retry=hf.Retry(max_attempts=1))
            async def flaky() -> None:
                shop.ran.append((owner, "flaky"))
                if len(shop.ran) == 1:
                    raise ValueError("not now")

            @app.step
            async def steady(number: int) -> None:
                shop.ran.append((owner, number))

            @app.workflow(name="work")
            async def mended() -> str:
                try:
                    await flaky()
                finally:
                    await steady(1)
                await hf.sleep(HOUR)
                await steady(2)
                await hf.sleep(HOUR)
                return "done"

            return app, mended, stores

        (first, mended, _), (second, same, _) = process("a"), process("b")
        async with first.worker():
            handle = await mended.start(id="one")
            with pytest.raises(hf.ExecutionFailed):
                await handle
            await handle.retry()
            await asyncio.sleep(1.5 * HOUR)
        async with second.worker():
            assert await same.handle("one") == "done"
        assert shop.ran == [("a", "flaky"), ("a", 1), ("a", "flaky"), ("a", 2)]

    run_virtual(main)


def test_progress_that_ends_a_count_of_deaths_is_a_segment():
    async def main():
        shop = Shop()
        app, work, stores = shop.process("a")
        async with app.worker():
            handle = await work.start("done", id="one")
            runtime = app.runtime()
            host, entity = runtime.host, runtime.host.entities[PLACE]
            while entity.work is None:
                await asyncio.sleep(0)
            entity.work.journal.deaths = 1
            assert host.limits.linger_seconds == 0
            await handle
        assert stores[0].told[:3] == ["start", "segment", "SUSPENDED"]

    run_virtual(main)


@pytest.mark.parametrize(("size", "rides"), [(10, True), (300, True), (3_000, False)])
def test_what_would_make_the_head_dearer_is_a_segment(size, rides):
    async def main():
        shop = Shop(Random(1).randbytes(size).hex())
        app, work, stores = shop.process("a", units=units_of)
        async with app.worker():
            assert await (await work.start("done", id="one")) == "done"
        assert ("segment" not in stores[0].told) == rides

    run_virtual(main)


def test_who_was_heard_to_wait_is_told_of_a_termination_although_only_the_head_says_so():
    async def main():
        shop = Shop()
        app, work, _ = shop.process("a")

        @app.workflow
        async def waiting() -> str:
            try:
                await work.handle("one")
            except hf.ExecutionTerminated:
                return "told"
            return "done"

        async with app.worker():
            handle = await work.start("done", id="one")
            waits = await waiting.start(id="two")
            await asyncio.sleep(60)
            assert not shop.segments()
            assert [type(each) for each in shop.record().notes] == [Done, Marked, Pending]
            await handle.terminate("enough")
            assert await waits == "told"

    run_virtual(main)


@pytest.mark.parametrize(("then", "told"), [(0, ["COMPLETED", "claim", "CANCELLED"]), (1, ["claim", "CANCELLED"])])
def test_what_came_meanwhile_is_told_before_the_end_of_the_wait(then, told):
    """The process that has the execution in memory has not heard of it, and runs the body ahead: that is void."""

    async def main():
        shop = Shop()
        (app, work, stores), (client, same, _) = (shop.process(owner, then=then) for owner in "ab")
        async with app.worker(), client:
            handle = await work.start("done", id="one")
            await asyncio.sleep(60)
            del stores[0].writes[:]
            client.runtime().home.doorbell.ring = lambda _partition: None  # it is lost
            await same.handle("one").cancel("no more")
            with pytest.raises(hf.ExecutionCancelled):
                await handle
        assert stores[0].told == told
        assert [type(each) for each in shop.record().tail] == [Done, Cancelled], "it was cancelled in its sleep"

    run_virtual(main)


def test_a_process_that_has_the_first_in_memory_does_not_end_the_second_with_it():
    """Both were claimed as often, have got as many messages, and wait for the same time."""

    async def main():
        shop = Shop()
        (stale, first, _), (fresh, second, _) = (shop.process(owner, wait=3 * HOUR) for owner in "ab")
        async with stale.worker():
            await first.start("first", id="one")
            await asyncio.sleep(HOUR)
            there = shop.data.find(PLACE, HEAD)
            for sort in list(shop.data.partitions[PLACE]):
                shop.data.remove(PLACE, sort)  # it ended elsewhere, while this process was stopped; TTL has deleted it
            async with fresh.worker():
                await second.start("second", id="one")
                await asyncio.sleep(60)
            again = shop.data.find(PLACE, HEAD)
            assert (again.epoch, again.status, again.due_at) == (there.epoch, there.status, there.due_at)
            await asyncio.sleep(3 * HOUR)
            assert bytes(shop.record().result) == b'"second"'
            assert shop.ran == [("a", 0), ("b", 0)]

    run_virtual(main)
