"""Queues that are changed while they work."""

from __future__ import annotations

import asyncio

import pytest
from tests.flow.held import Stay, declare, start

import holdfast as hf
from holdfast.errors import StoreUnavailable
from holdfast.flow import changing, gates


@pytest.fixture
def stay() -> Stay:
    return Stay()


def mail(app: hf.App) -> hf.Queue:
    queue: hf.Queue = app.registry.queues["mail"]
    return queue


async def test_a_higher_limit_lets_more_begin_and_a_lower_one_takes_no_slot_away(app, stay, eventually) -> None:
    letter = declare(app, stay, limit=1)
    async with app.worker():
        handles = await start(letter, *[f"a-{number}" for number in range(6)])
        await eventually(lambda: len(stay.inside) == 1)
        await mail(app).change(limit=4)
        await eventually(lambda: len(stay.inside) == 4)
        await mail(app).change(limit=2)
        stay.go(2)
        await eventually(lambda: len(stay.inside) == 2)
        assert (await mail(app).status()).limit == 2
        stay.go(4)
        await asyncio.gather(*handles)
        assert stay.most == 4


async def test_nothing_begins_in_a_queue_that_is_paused(app, stay, eventually) -> None:
    letter = declare(app, stay, limit=2)
    async with app.worker():
        await mail(app).pause()
        assert (await mail(app).status()).paused
        (handle,) = await start(letter, "a-0")
        await eventually(lambda: _waits(app))
        assert stay.inside == []
        await mail(app).resume()
        stay.go()
        assert await handle == "a-0"


async def _waits(app: hf.App) -> bool:
    return (await mail(app).status()).waiting == 1


async def test_it_says_who_has_its_slots(app, stay, eventually) -> None:
    letter = declare(app, stay, limit=2, rate=hf.Rate(1000, per="1s"))
    async with app.worker():
        (handle,) = await start(letter, "a-0")
        await eventually(lambda: stay.inside == ["a-0"])
        status = await mail(app).status()
        assert [(slot.workflow, slot.id, slot.key) for slot in status.slots] == [("letter", "a-0", "a")]
        assert (status.limit, status.limit_per_key, status.rate) == (2, None, hf.Rate(1000, per="1s"))
        stay.go()
        await handle


async def test_changes_hold_for_later_workers_until_they_are_reset(app, stay) -> None:
    declare(app, stay, limit=2, rate=hf.Rate(5, per="1s"))
    async with app:
        await mail(app).pause()
        await mail(app).change(limit=7, rate=None, rate_per_key=hf.Rate(3, per="1m", burst=2))
    async with app.worker():
        status = await mail(app).status()
        assert (status.paused, status.limit, status.rate) == (True, 7, None)
        assert status.rate_per_key is not None
        assert (status.rate_per_key.count, status.rate_per_key.burst) == (3, 2)
        await mail(app).reset()
        status = await mail(app).status()
        assert (status.paused, status.limit, status.rate_per_key) == (True, 2, None)


async def test_changes_at_once_are_all_kept(app, stay) -> None:
    declare(app, stay, limit=2)
    async with app:
        queue = mail(app)
        await asyncio.gather(queue.change(limit=9), queue.change(limit_per_key=3), queue.pause())
        status = await queue.status()
        assert (status.limit, status.limit_per_key, status.paused) == (9, 3, True)


async def test_a_change_whose_answer_was_lost_is_made_once(memory_world, stay, monkeypatch) -> None:
    app = memory_world.app("shop")
    declare(app, stay, limit=2)
    async with app:
        store, lost = app.runtime().home.store, []
        write = store.write

        async def forgetful(*writes):
            answer = await write(*writes)
            if not lost:
                lost.append(writes)
                raise StoreUnavailable("the answer was lost")
            return answer

        monkeypatch.setattr(store, "write", forgetful)
        await mail(app).change(limit=9)
        there = await store.get(mail(app).partition, changing.SETTINGS)
        assert lost
        assert there is not None
        assert there.revision == 1


@pytest.mark.parametrize(
    "numbers", [{"limit": 0}, {"limit": 5_000}, {"limit_per_key": "2"}, {"rate": 5}, {"rate_per_key": "5/s"}]
)
async def test_numbers_that_make_no_sense_are_refused_and_change_nothing(numbers, memory_world, stay) -> None:
    app = memory_world.app("shop")
    declare(app, stay, limit=2)
    async with app:
        with pytest.raises(hf.InvalidInput):
            await mail(app).change(**numbers)
        assert (await mail(app).status()).limit == 2


async def test_what_is_started_after_a_pause_waits(app, stay, eventually) -> None:
    letter = declare(app, stay, limit=2)
    async with app.worker():
        for number in range(5):
            await mail(app).pause()
            (handle,) = await start(letter, f"a-{number}")
            assert (await handle.status()).status == "QUEUED"
            await mail(app).resume()
            stay.go()
            await handle
            await eventually(lambda: _is_free(app))


async def test_what_is_started_after_a_lower_limit_waits_until_enough_have_ended(app, stay, eventually) -> None:
    letter = declare(app, stay, limit=4)
    async with app.worker():
        first = await start(letter, "a-0", "a-1")
        await eventually(lambda: len(stay.inside) == 2)
        await mail(app).change(limit=1)
        (last,) = await start(letter, "a-2")
        assert (await last.status()).status == "QUEUED"
        stay.go(3)
        await asyncio.gather(*first, last)
        assert stay.most == 2


async def test_what_is_started_after_a_lower_rate_waits_for_its_token(app, stay) -> None:
    letter = declare(app, stay)
    async with app.worker():
        stay.go(2)
        (first,) = await start(letter, "a-0")
        await first
        await mail(app).change(rate=hf.Rate(1, per="1h"))
        first, second = await start(letter, "a-1", "a-2")
        await first
        assert (await second.status()).status == "QUEUED"
        await mail(app).reset()
        stay.go()
        await second


async def test_a_round_that_has_read_the_numbers_before_a_pause_lets_nothing_begin(
    app, stay, eventually, monkeypatch
) -> None:
    read, paused, has_paused = gates._settings, False, asyncio.Event()

    async def overtaken(gate, host):
        nonlocal paused
        settings = await read(gate, host)
        if not paused and not settings.paused:
            paused = True
            await mail(app).pause()
            has_paused.set()
        return settings

    letter = declare(app, stay, limit=2)
    async with app.worker():
        await mail(app).pause()
        (handle,) = await start(letter, "a-0")
        monkeypatch.setattr(gates, "_settings", overtaken)
        await mail(app).resume()
        await asyncio.wait_for(has_paused.wait(), 10)
        await eventually(lambda: _has_decided(app))
        status = await handle.status()
        await mail(app).resume()
        stay.go()
        assert await handle == "a-0"
    assert status.status == "QUEUED"


async def test_a_change_is_seen_whose_process_dies_before_it_tells_the_worker(
    app, stay, eventually, monkeypatch
) -> None:
    letter = declare(app, stay, limit=2)
    async with app.worker():
        await mail(app).pause()
        (handle,) = await start(letter, "a-0")
        await eventually(lambda: _waits(app))
        with monkeypatch.context() as dying:
            dying.setattr(changing, "_gate_here", lambda *_: None)
            dying.setattr(changing, "wake", lambda *_: None)
            await mail(app).resume()
        stay.go()
        assert await asyncio.wait_for(handle, 30) == "a-0"


async def _has_decided(app: hf.App) -> bool:
    """Whether the worker has read what was changed last, and has nothing left to do about it."""
    gate = app.runtime().host.entities[mail(app).partition]
    return not gate.books.is_changed and not gate.books.is_stale


async def _is_free(app: hf.App) -> bool:
    return (await mail(app).status()).slots == ()
