"""A lock by hand, and ours, under the same schedules."""

from __future__ import annotations

import asyncio

from tests.compared import naive
from tests.compared.stage import begin, outcome, told

# ── Release ─────────────────────────────────────────────────────────────────────────────────────────────────────────


async def five_seconds_inside():
    await asyncio.sleep(5)
    return "was inside"


def locked(app, stage):
    return lambda: naive.with_lock(stage.store, "report", five_seconds_inside)


def leased(app, stage):
    @app.with_lease("report", ttl="10s", wait=0)
    async def work() -> str:
        return await five_seconds_inside()

    return work


def test_a_latecomer_does_not_release_what_another_holds(compare):
    async def schedule(stage):
        one, two, three = [await stage.boot() for _ in range(3)]
        first = begin(one)
        await asyncio.sleep(1)
        one.pause()
        await asyncio.sleep(13)
        second = begin(two)
        await asyncio.sleep(1)
        one.resume()
        first = await outcome(first)
        assert not second.done()
        return first, await told(three), await second

    by_naive, by_ours = compare(schedule, locked, leased)
    assert by_naive == ("was inside", "was inside", "was inside")  # the third beside the second
    assert by_ours == ("LeaseLost", "WaitTimeout", "was inside")


# ── What the lock guards ────────────────────────────────────────────────────────────────────────────────────────────


def owned(app, stage):
    async def write(text):
        async def work():
            await asyncio.sleep(1)
            await stage.store.put("report", {"text": text})

        await naive.with_owned_lock(stage.store, "lock", work)

    return write


def fenced(app, stage):
    async def write(text):
        async with app.lease("report", ttl="10s", wait=0) as held:
            await asyncio.sleep(1)
            row = {"text": text, "fence": held.fence}
            await stage.store.put("report", row, when=lambda there: there is None or there["fence"] <= held.fence)

    return write


def test_a_holder_that_slept_through_its_lock_does_not_write(compare):
    async def schedule(stage):
        one, two = await stage.boot(), await stage.boot()
        first = begin(one, "old")
        await asyncio.sleep(0.5)
        one.pause()
        await asyncio.sleep(13)
        second = await told(two, "new")
        one.resume()
        return await outcome(first), second, stage.store.rows["report"]["text"]

    by_naive, by_ours = compare(schedule, owned, fenced)
    assert by_naive == ("Refused", None, "old")  # it heard when it let go, which was after it had written
    assert by_ours == ("Refused", None, "new")  # the write itself was refused
