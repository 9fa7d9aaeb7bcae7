"""Paused executions: they cost nothing while they are (G14), keep what came, and can be ended."""

from __future__ import annotations

import asyncio

import pytest

import holdfast as hf
from holdfast.kernel.host import quiet


@pytest.fixture
def sleeps(app):
    @app.workflow
    async def sleeps() -> str:
        await hf.sleep("50ms")
        return await hf.signal("go", str)

    return sleeps


async def swept(app: hf.App) -> None:
    """Until a sweep has found all that is due, and all that follows from it has happened."""
    worker = app.employed
    assert worker is not None
    await worker.sweeper.sweep(60_000)
    await asyncio.sleep(0.1)
    await quiet(worker.host)


async def paused(app: hf.App, workflow, count: int = 1, **options):
    """So many executions of it, paused and overdue."""
    async with app:
        handles = [await workflow.start(id=str(number), **options) for number in range(count)]
        for handle in handles:
            await handle.pause()
            await handle.signal("go", "on")
        return handles


async def test_an_overdue_one_costs_a_sweep_no_statements(sqlite_world, eventually) -> None:
    app = sqlite_world.app(limits=hf.Limits(sweep_seconds=1000.0, purge_seconds=1000.0))

    @app.workflow
    async def waits() -> str:
        return await hf.signal("go", str)

    handles = await paused(app, waits, count=20)
    async with app.worker():
        store = app.runtime().home.transactions
        await swept(app)
        commits, statements = store.commits, store.statements
        for _ in range(3):
            await swept(app)
        assert (store.commits, store.statements) == (commits, statements + 3)
        for handle in handles:
            await handle.resume()
        assert [await handle for handle in handles] == ["on"] * 20


async def test_one_whose_time_is_up_ends(app, sleeps, eventually) -> None:
    (handle,) = await paused(app, sleeps, timeout="50ms")
    async with app.worker():
        await asyncio.sleep(0.06)
        await swept(app)
        with pytest.raises(hf.ExecutionTimedOut):
            await handle.result(timeout="60s")


async def test_its_deadline_is_found_although_a_signal_came(app) -> None:
    @app.workflow
    async def waits() -> None:
        await hf.signal("go")
        await hf.signal("never")

    (handle,) = await paused(app, waits, timeout="300ms")
    async with app.worker():
        await swept(app)
        assert (await handle.status()).status == "PAUSED"
        assert (await handle.status()).due_at is not None
        await asyncio.sleep(0.3)
        await swept(app)
        with pytest.raises(hf.ExecutionTimedOut):
            await handle.result(timeout="60s")


async def test_one_that_is_cancelled_ends(app, sleeps) -> None:
    (handle,) = await paused(app, sleeps)
    async with app.worker():
        await handle.cancel("enough")
        with pytest.raises(hf.ExecutionCancelled, match="enough"):
            await handle.result(timeout="60s")


async def test_a_timer_that_comes_while_it_is_paused_in_memory_waits_for_resume(app, sleeps, reaches) -> None:
    async with app.worker():
        handle = await sleeps.start(id="1")
        await handle.pause()
        await asyncio.sleep(0.1)
        await swept(app)
        assert (await handle.status()).status == "PAUSED"
        await handle.signal("go", "on")
        await handle.resume()
        assert await handle.result(timeout="60s") == "on"
