"""Between two runs: what comes while one ends and the next has not begun is neither lost nor counted twice (G1, G5).

Found by ``make torture``. Here the moment is made to happen: somebody acts just before the concluding write.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import replace

import holdfast as hf
from holdfast.backends.memory import open_memory_home
from holdfast.items import Item, Update, Write
from holdfast.ports import Home


class Ambush:
    """A store that lets something happen before the next write that ends a run."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.before_the_end: Callable[[], Awaitable[None]] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def write(self, *writes: Write) -> Sequence[Item | None]:
        ends = isinstance(writes[0], Update) and writes[0].owner is None and writes[0].body is not UNSET
        if ends and self.before_the_end is not None:
            happens, self.before_the_end = self.before_the_end, None
            await happens()
        return await self._store.write(*writes)


@pytest.fixture
def ambush(memory_world) -> Ambush:
    return Ambush(open_memory_home(data=memory_world.data).store)


@pytest.fixture
def app(memory_world, ambush):
    async def open_ambushed() -> Home:
        return replace(open_memory_home(data=memory_world.data), store=ambush)

    return memory_world.app(home=open_ambushed)


async def test_a_signal_that_waits_survives_another_that_comes_as_the_run_ends(app, ambush):
    @app.workflow
    async def job(done: list[int]) -> list[int]:
        await hf.sleep("5ms")
        done = [*done, await hf.signal("n", int)]
        if len(done) < 3:
            hf.continue_as_new(done)
        return done

    async with app.worker():
        handle = await job.start([], id="j")
        await handle.signal("n", 1)
        await handle.signal("n", 2)
        ambush.before_the_end = lambda: handle.signal("n", 3)
        assert await handle == [1, 2, 3]


async def test_a_repeated_signal_is_dropped_in_the_next_run_too(app):
    @app.workflow
    async def job(done: list[str]) -> list[str]:
        done = [*done, await hf.signal("n", str)]
        if len(done) < 3:
            hf.continue_as_new(done)
        return done

    async with app.worker():
        handle = await job.start([], id="j")
        for id in ("a", "b", "a", "b", "a", "c"):
            await handle.signal("n", id, id=id)
        assert await handle == ["a", "b", "c"]


async def test_a_message_that_is_carried_over_says_nothing_about_patches(app):
    @app.workflow
    async def job(run: int, answers: list[bool]) -> list[bool]:
        answers = [*answers, hf.patched("new")]
        await hf.signal("go")
        answers.append(hf.patched("newer"))
        if run < 2:
            hf.continue_as_new(run + 1, answers)
        return answers

    async with app.worker():
        handle = await job.start(0, [], id="j")
        await handle.signal("nobody takes it")
        for _ in range(3):
            await handle.signal("go")
        assert await handle.result("60s") == [True] * 6


async def test_a_request_to_cancel_that_comes_between_two_runs_is_not_lost(app, ambush):
    @app.workflow
    async def job(run: int) -> int:
        await hf.sleep("5ms")
        if run < 1:
            hf.continue_as_new(run + 1)
        await hf.signal("never")
        return run

    async with app.worker():
        handle = await job.start(0, id="j")
        ambush.before_the_end = lambda: handle.cancel("enough")
        with pytest.raises(hf.ExecutionCancelled, match="enough"):
            await handle.result("60s")


async def test_two_requests_to_cancel_at_once_do_not_interrupt_the_clean_up(memory_world):
    app = memory_world.app()
    cleaned: list[str] = []

    @app.step
    async def clean_up() -> None:
        await asyncio.sleep(0.01)
        cleaned.append("up")

    @app.workflow
    async def job() -> None:
        try:
            await hf.signal("never")
        finally:
            await clean_up()

    async with app:
        handle = await job.start(id="j")
        await handle.cancel("one")
        await handle.cancel("two")
        async with app.worker():
            with pytest.raises(hf.ExecutionCancelled, match="one"):
                await handle.result("60s")
    assert cleaned == ["up"]
