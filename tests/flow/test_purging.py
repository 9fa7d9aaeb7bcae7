"""Ending what waits in a queue, by order."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace
from tests.flow.held import Stay, declare, places, start

import holdfast as hf
from holdfast.backends.memory import open_memory_home
from holdfast.flow import changing
from holdfast.flow.record import SETTINGS
from holdfast.flow.settings import decode_settings
from holdfast.ports import Home
from holdfast.testing import PATIENT, VirtualClock, run_virtual


@pytest.fixture
def stay() -> Stay:
    return Stay()


def mail(app: hf.App) -> hf.Queue:
    queue: hf.Queue = app.registry.queues["mail"]
    return queue


async def statuses(handles: list[hf.Handle[str]]) -> list[str]:
    return [(await handle.status()).status for handle in handles]


async def is_done(app: hf.App) -> bool:
    return not (await mail(app).status()).purging


async def test_what_waits_ends_and_what_has_begun_goes_on(app, stay, eventually) -> None:
    letter = declare(app, stay, limit=1)
    async with app.worker():
        (first,) = await start(letter, "a-0")
        await eventually(lambda: stay.inside == ["a-0"])
        others = await start(letter, "a-1", "b-1", "b-2")
        await mail(app).purge()
        for each in others:
            with pytest.raises(hf.ExecutionCancelled, match="purged from queue mail"):
                await each
        later = await start(letter, "a-9")
        await eventually(lambda: is_done(app))
        stay.go(2)
        assert await asyncio.gather(first, *later) == ["a-0", "a-9"]
        await eventually(lambda: _has_no_place(app))
        assert stay.order == ["a-0", "a-9"]


async def _has_no_place(app: hf.App) -> bool:
    return not await places(app)


async def test_only_what_waits_under_a_key_ends(app, stay, eventually) -> None:
    letter = declare(app, stay, limit=1)
    async with app.worker():
        (first,) = await start(letter, "a-0")
        await eventually(lambda: stay.inside == ["a-0"])
        others = await start(letter, "a-1", "b-1", "c-1")
        await mail(app).purge(key="b")
        with pytest.raises(hf.ExecutionCancelled):
            await others[1]
        stay.go(3)
        assert await asyncio.gather(first, others[0], others[2]) == ["a-0", "a-1", "c-1"]


async def test_an_order_waits_for_a_worker_and_is_done_once_it_is_carried_out(app, stay, eventually) -> None:
    letter = declare(app, stay, limit=1)
    async with app:
        handles = await start(letter, "a-0", "a-1")
        await mail(app).purge()
        await mail(app).purge()
        assert (await mail(app).status()).purging
        assert await statuses(handles) == ["QUEUED", "QUEUED"]
    async with app.worker():
        await eventually(lambda: is_done(app))
        assert await statuses(handles) == ["CANCELLED", "CANCELLED"]
        there = await app.runtime().home.store.get(mail(app).partition, SETTINGS)
        assert there is not None and all(each.done for each in decode_settings(there.body).purges)
        assert stay.order == []


async def test_one_that_was_retried_cleans_up_with_its_slot(app, stay, eventually) -> None:
    queue = app.queue("mail", limit=1)
    broken: list[bool] = [True]

    @app.workflow(queue=queue)
    async def parcel(name: str) -> str:
        await stay_in(name)
        await hf.sleep("1h")
        return name

    @app.step
    async def stay_in(name: str) -> str:
        if broken:
            raise hf.Terminal("the van is broken")
        return await stay(name)

    async with app.worker():
        parcels: list[hf.Handle[str]] = [await parcel.start("late", id="late")]
        with pytest.raises(hf.ExecutionFailed):
            await parcels[0]
        broken.clear()
        blocker = await parcel.start("blocker", id="blocker")
        await eventually(lambda: stay.inside == ["blocker"])
        await parcels[0].retry()
        await mail(app).purge()
        await eventually(lambda: is_done(app))
        assert await statuses(parcels) == ["QUEUED"]
        await blocker.terminate()
        stay.go()
        with pytest.raises(hf.ExecutionCancelled):
            await parcels[0]


async def test_more_than_one_round_ends(memory_world, stay, eventually, monkeypatch) -> None:
    monkeypatch.setattr("holdfast.flow.purging.MOST_PURGED", 3)
    app = memory_world.app("shop")
    letter = declare(app, stay, limit=1)
    async with app.worker():
        (first,) = await start(letter, "a-0")
        await eventually(lambda: stay.inside == ["a-0"])
        others = await start(letter, *[f"a-{number}" for number in range(1, 11)])
        await mail(app).purge()
        await asyncio.gather(*others, return_exceptions=True)
        assert set(await statuses(others)) == {"CANCELLED"}
        stay.go()
        assert await first == "a-0"


@pytest.mark.parametrize("most_named", [changing.MOST_LATER, 1])
def test_what_came_by_a_clock_that_is_ahead_ends_too(memory_world, stay, monkeypatch, most_named: int) -> None:
    monkeypatch.setattr(changing, "MOST_LATER", most_named)
    ahead = memory_world.app("shop", clock=VirtualClock(offset_ms=5_000), limits=PATIENT)
    app = memory_world.app("shop", clock=VirtualClock(), limits=PATIENT)
    far_ahead = declare(ahead, stay, limit=1)
    letter = declare(app, stay, limit=1)

    async def main() -> None:
        async with ahead, app.worker():
            await mail(app).pause()
            handles = [*await start(far_ahead, "a-0", "a-1"), *await start(letter, "b-0")]
            await mail(app).purge(key="a")
            await mail(app).purge(key="a")
            for number in range(2):
                with pytest.raises(hf.ExecutionCancelled):
                    await letter.handle(f"a-{number}")
            assert await statuses(handles) == ["CANCELLED", "CANCELLED", "QUEUED"]
            await mail(app).resume()
            stay.go(2)
            later = [] if most_named == 1 else await start(letter, "a-2")
            assert await asyncio.gather(handles[2], *later) == ["b-0", *(each.id for each in later)]

    run_virtual(main)


@pytest.mark.parametrize("paid", [False, True])
def test_what_comes_in_the_moment_after_an_order_waits_as_ever(stay, *, paid: bool) -> None:
    async def home() -> Home:
        return replace(open_memory_home(), writes_are_paid=paid)

    app = hf.App("shop", home=home, clock=VirtualClock(), limits=PATIENT)
    letter = declare(app, stay, limit=1)

    async def main() -> None:
        async with app.worker():
            await mail(app).pause()
            early, resumed = await start(letter, "early", "resumed")
            await resumed.pause()
            before = app.clock.now_ms()
            await mail(app).purge()
            await resumed.resume()
            (late,) = await start(letter, "late")
            assert app.clock.now_ms() == before, "all of it in one millisecond"
            await mail(app).resume()
            with pytest.raises(hf.ExecutionCancelled):
                await early
            stay.go(2)
            assert await asyncio.gather(resumed, late) == ["resumed", "late"]

    run_virtual(main)


async def test_so_many_orders_are_kept_at_a_time(memory_world, stay, monkeypatch) -> None:
    monkeypatch.setattr(changing, "MOST_PURGES", 2)
    app = memory_world.app("shop")
    declare(app, stay, limit=1)
    async with app:
        await mail(app).purge(key="a")
        await mail(app).purge(key="b")
        await mail(app).purge(key="a")
        with pytest.raises(hf.InvalidState, match="2 purges"):
            await mail(app).purge(key="c")


@pytest.mark.parametrize("key", [7, "a\nb", "x" * 600])
async def test_a_key_that_is_none_is_refused(memory_world, stay, key: Any) -> None:
    app = memory_world.app("shop")
    declare(app, stay, limit=1)
    async with app:
        with pytest.raises(hf.InvalidInput):
            await mail(app).purge(key=key)
