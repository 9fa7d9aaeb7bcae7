"""Blocking steps share threads: one that waits for its thread has not begun."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import holdfast as hf
from holdfast.runtime import worker
from holdfast.workflows import threads
from holdfast.workflows.threads import Threads

PATIENCE_SECONDS = 100


@pytest.fixture
def world(sqlite_world, monkeypatch):
    monkeypatch.setattr(worker, "STEP_THREADS", 1)
    return sqlite_world


class Shop:
    """An app with one thread, which ``hold`` keeps until ``go`` is set, and what was sent."""

    def __init__(self, app: hf.App, *, at_most_once: bool) -> None:
        self.go, self.held = threading.Event(), threading.Event()
        self.sent: list[int] = []

        @app.step
        def hold() -> None:
            self.held.set()
            self.go.wait(PATIENCE_SECONDS)

        @app.step(timeout="1s", at_most_once=at_most_once)
        def send(number: int) -> int:
            self.sent.append(number)
            return number

        @app.workflow
        async def job(count: int) -> list[int]:
            _, *sent = await asyncio.gather(hold(), *(send(number) for number in range(count)))
            return sent

        self.job = job


@pytest.mark.parametrize("at_most_once", [False, True])
async def test_the_clock_of_a_step_begins_with_its_thread(app, at_most_once) -> None:
    shop = Shop(app, at_most_once=at_most_once)
    async with app.worker():
        handle = await shop.job.start(50, id="j")
        with pytest.raises(hf.WaitTimeout):
            await handle.result(timeout="1100ms")  # longer than any attempt may take
        assert shop.sent == []
        shop.go.set()
        assert await handle.result(timeout="60s") == list(range(50))
        assert sorted(shop.sent) == list(range(50))


async def test_an_at_most_once_step_that_has_not_got_its_thread_is_run_by_the_next_process(world, eventually) -> None:
    first, second = world.app(), world.app()
    before, after = Shop(first, at_most_once=True), Shop(second, at_most_once=True)
    async with first.worker(grace=0):
        handle = await before.job.start(3, id="j")
        await eventually(before.held.is_set)
        assert [event.name for event in await handle.history()] == []  # nothing says that one was begun
    after.go.set()
    async with second.worker():
        assert await after.job.handle("j").result(timeout="60s") == [0, 1, 2]
    before.go.set()
    assert before.sent == []
    assert sorted(after.sent) == [0, 1, 2]


async def test_who_does_not_wait_any_more_leaves_the_thread_to_others(app, eventually) -> None:
    shop = Shop(app, at_most_once=True)

    @app.workflow
    async def impatient() -> str:
        try:
            async with asyncio.timeout(0.05):
                return str(await shop.job(3))
        except TimeoutError:
            return "gave up"

    async with app.worker():
        holder = await shop.job.start(0, id="holder")
        await eventually(shop.held.is_set)
        handles = [await impatient.start() for _ in range(3)]
        assert [await each for each in handles] == ["gave up"] * 3
        shop.go.set()
        await holder
        assert await shop.job(2) == [0, 1]


async def test_a_paused_execution_keeps_no_thread_from_others(app, eventually) -> None:
    shop = Shop(app, at_most_once=True)
    shop.go.set()

    @app.workflow
    async def waits() -> list[int]:
        await hf.signal("go")
        return await shop.job(1)

    async with app.worker():
        paused = await waits.start(id="p")
        await paused.pause()
        await paused.signal("go")
        assert await shop.job(5) == list(range(5))
        await paused.resume()
        assert await paused.result(timeout="60s") == [0]


async def test_threads_that_never_come_free_are_reported(app, eventually, monkeypatch) -> None:
    monkeypatch.setattr(threads, "BUSY_SECONDS", 0.01)
    shop = Shop(app, at_most_once=True)
    async with app.worker():
        handle = await shop.job.start(1)
        await eventually(lambda: app.telemetry.counts["threads_busy"])
        shop.go.set()
        assert await handle == [0]


class TestSeats:
    @pytest.fixture
    def threads(self):
        with ThreadPoolExecutor(1) as pool:
            yield Threads(pool, 1, lambda *_: None)

    async def test_they_are_given_in_the_order_in_which_they_were_asked_for(self, threads) -> None:
        first = await threads.take()
        assert threads.take_now() is None
        second, third = (asyncio.ensure_future(threads.take()) for _ in range(2))
        await asyncio.sleep(0)
        first.leave()
        first.leave()  # once is enough
        seat = await second
        assert not third.done()
        assert await seat.run(lambda: 7) == 7
        (await third).leave()
        assert threads.take_now() is not None

    async def test_one_that_is_given_to_somebody_who_went_away_goes_to_the_next(self, threads) -> None:
        first = await threads.take()
        second, third = (asyncio.ensure_future(threads.take()) for _ in range(2))
        await asyncio.sleep(0)
        first.leave()
        second.cancel()
        (await third).leave()
        assert threads.take_now() is not None

    async def test_it_is_free_when_its_thread_is_however_long_nobody_waits_any_more(self, threads) -> None:
        go = threading.Event()
        seat = await threads.take()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await seat.run(lambda: go.wait(PATIENCE_SECONDS))
        seat.leave()
        assert threads.take_now() is None
        go.set()
        async with asyncio.timeout(PATIENCE_SECONDS):
            (await threads.take()).leave()
