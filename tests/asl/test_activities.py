"""The tasks of an activity: each goes to one worker, on any home."""

from __future__ import annotations

import asyncio

from holdfast.asl.stored import queue
from holdfast.asl.stored.queue import Waiting, put, take


async def test_a_task_that_is_put_there_again_goes_to_no_second_worker(world) -> None:
    app = world.app()
    async with app:
        store, waiting = app.runtime().home.store, Waiting("t", "{}", 5)
        for _ in range(2):
            await put(store, "work", waiting)
        assert await take(store, "work", 7) == waiting
        await put(store, "work", waiting)  # by the recovery of a process that died before it recorded the step
        assert await take(store, "work", 8) is None


async def test_workers_that_ask_at_once_get_a_task_each(world, monkeypatch) -> None:
    """Also if the page that each has read holds only tasks that others have taken meanwhile."""
    monkeypatch.setattr(queue, "LOOKED_AT", 2)
    app = world.app()
    async with app:
        store = app.runtime().home.store
        tasks = [Waiting(f"t{n}", "{}", n) for n in range(5)]
        for each in tasks:
            await put(store, "work", each)
        taken = await asyncio.gather(*(take(store, "work", 9) for _ in range(8)))
    found = [each.token for each in taken if each is not None]
    assert sorted(found) == [each.token for each in tasks]
