"""Deaths are counted where they are noticed, and nothing else is (G1)."""

from __future__ import annotations

import asyncio

import pytest

import holdfast as hf
from holdfast.replay.entries import (
    Cancelled,
    Done,
    Intended,
    Marked,
    Parked,
    Pending,
    Received,
    Resumed,
    TakenOver,
    deaths_in_a_row,
    decode_entries,
    encode_entries,
    standing,
)
from holdfast.replay.journal import Journal
from holdfast.testing.virtual_time import run_virtual
from holdfast.testing.world import World

DIED = TakenOver(1)


def test_deaths_in_a_row_begin_anew_with_progress_and_with_nothing_else():
    step = Done("a#0", 2, "step")
    assert deaths_in_a_row([DIED, DIED]) == 2
    assert deaths_in_a_row([DIED, step]) == 0
    assert deaths_in_a_row([DIED, step, DIED]) == 1
    assert deaths_in_a_row([DIED, Received("s", "go", 2)]) == 0
    assert deaths_in_a_row([DIED, Cancelled(2)]) == 0
    assert deaths_in_a_row([DIED, Parked(2), DIED]) == 1
    notes = [Intended("a#0", 2), Marked("m", 2), Pending({"a#0": "f"}), Resumed(3)]
    assert deaths_in_a_row([DIED, *notes, DIED]) == 2


def test_deaths_are_no_part_of_what_stands():
    step, later = Done("a#0", 2, "step"), Done("b#0", 3, "step")
    assert standing([DIED, step, DIED, Parked(3), later]) == [step, later]
    assert decode_entries(encode_entries([DIED, Parked(2)])) == [DIED, Parked(2)]
    assert decode_entries(b"[]") == []  # how a takeover was written before


async def test_a_takeover_costs_the_one_segment_it_always_did(memory_world):
    home = await memory_world.home()
    journal = Journal(home.store, "wf#shop#1", run=0, owner="b", epoch=2)
    await journal.load()
    await journal.fence(5)
    assert (journal.position, journal.count, journal.deaths) == (1, 0, 1)
    again = Journal(home.store, "wf#shop#1", run=0, owner="c", epoch=3)
    await again.load()
    assert (again.position, again.count, again.deaths, again.entries) == (1, 0, 1, [])
    await again.fence()  # we were the last owner ourselves
    assert (again.position, again.deaths) == (2, 1)
    again.record(Done("a#0", 6, "step"))
    await again.commit()
    assert (again.position, again.count, again.deaths) == (3, 1, 0)


LIMITS = hf.Limits(most_deaths=4)


class Shop:
    """A virtual world. Its workers crash once a step has begun that is to kill them."""

    def __init__(self, new_database, limits):
        self.attempts, self.others = [], []
        self.kills, self.fails = True, False
        self.begun = asyncio.Event()
        self.world = World(self._build, limits=limits, database=new_database())

    def _build(self, app, ledger):
        @app.step(retry=hf.Retry(max_attempts=2, initial="1s", jitter=hf.Jitter.NONE))
        async def work() -> str:
            self.attempts.append(hf.current().attempt)
            if self.kills:
                self.begun.set()
                await asyncio.sleep(1_000)
            if self.fails:
                self.fails = False
                raise OSError("not now")
            return "done"

        @app.step
        async def slow(n: int) -> int:
            self.others.append(n)
            await asyncio.sleep(4)
            return n

        @app.workflow
        async def job() -> str:
            return await work()

        @app.workflow
        async def other() -> int:
            return await slow(1) + await slow(2)

        async def user():
            return None

        self.job, self.other = job, other
        return user

    async def crash(self):
        """Have a worker take up what there is, and die of it."""
        process = await self.world.boot()
        self.begun.clear()
        await self.begun.wait()
        process.crash()
        self.world.database.forget(process.name)


async def in_shop(new_database, limits, main):
    shop = Shop(new_database, limits)
    try:
        await main(shop)
    finally:
        await shop.world.close()
    assert shop.world.violations() == []


def test_an_attempt_counts_deaths_and_the_retries_do_not(new_database):
    async def main(shop):
        client = await shop.world.client()
        job = await client.call(lambda: shop.job.start(id="j"))
        await shop.crash()
        await shop.crash()
        shop.kills, shop.fails = False, True
        await shop.world.boot()
        assert await client.call(lambda: job.result("1h")) == "done"
        assert shop.attempts == [1, 2, 3, 4]  # two deaths, a failure, and then it is done: max_attempts is 2
        history = await client.call(job.history)
        assert [(each.outcome, each.attempts) for each in history if each.kind == "step"] == [
            ("retrying", 3),
            ("done", 4),
        ]

    run_virtual(lambda: in_shop(new_database, LIMITS, main))


def test_an_innocent_neighbour_with_long_steps_is_not_parked(new_database):
    async def main(shop):
        client = await shop.world.client()
        others = [await client.call(lambda n=n: shop.other.start(id=f"o-{n}")) for n in range(5)]
        job = await client.call(lambda: shop.job.start(id="j"))
        for _ in range(4):
            await shop.crash()
        await shop.world.boot()
        for other in others:
            assert await client.call(lambda other=other: other.result("1h")) == 3
        async with asyncio.timeout(600):  # the lease of the last process has to lapse first
            while (await client.call(job.status)).status != "BLOCKED":
                await asyncio.sleep(1)
        assert len(shop.attempts) == 4
        await asyncio.sleep(3_600)
        assert len(shop.attempts) == 4
        await client.call(job.resume)
        shop.kills = False
        assert await client.call(lambda: job.result("1h")) == "done"
        assert shop.attempts[4:] == [1]  # it counts anew

    run_virtual(lambda: in_shop(new_database, LIMITS, main))


@pytest.mark.parametrize("end", ["terminate", "pause"])
def test_a_parked_execution_can_be_terminated_or_paused_and_resumed(new_database, end):
    async def main(shop):
        client = await shop.world.client()
        job = await client.call(lambda: shop.job.start(id="j"))
        await shop.crash()
        await shop.world.boot()
        await asyncio.sleep(60)
        assert (await client.call(job.status)).status == "BLOCKED"
        shop.kills = False
        if end == "terminate":
            await client.call(lambda: job.terminate("enough"))
            assert (await client.call(job.status)).status == "TERMINATED"
        else:
            await client.call(job.pause)
            await client.call(job.resume)
            assert await client.call(lambda: job.result("1h")) == "done"
        await asyncio.sleep(600)

    run_virtual(lambda: in_shop(new_database, hf.Limits(most_deaths=1), main))


def test_a_parked_execution_is_counted_by_every_sweep_and_claimed_by_none(new_database):
    async def main(shop):
        client = await shop.world.client()
        job = await client.call(lambda: shop.job.start(id="j"))
        await shop.crash()
        worker = shop.world.admit()
        told, claimed = [], []
        events = {"swept": told, "claimed": claimed}
        worker.app.telemetry.subscribe(lambda event, fields: events.get(event, []).append(fields))
        await worker.start()
        await asyncio.sleep(60)
        status = await client.call(job.status)
        assert (status.status, status.due_at) == ("BLOCKED", None)
        told.clear()
        claimed.clear()
        await asyncio.sleep(3_600)
        assert len(told) >= 59
        assert all(each == {"due": 0, "oldest_seconds": 0.0, "blocked": 1} for each in told)
        assert claimed == []
        shop.kills = False
        await client.call(job.resume)
        assert await client.call(lambda: job.result("1h")) == "done"
        await asyncio.sleep(120)
        assert told[-1] == {"due": 0, "oldest_seconds": 0.0, "blocked": 0}

    run_virtual(lambda: in_shop(new_database, hf.Limits(most_deaths=1), main))
