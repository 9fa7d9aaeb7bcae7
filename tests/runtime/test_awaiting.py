"""``await handle`` in a body, of an execution that runs in another worker: its end is told, not found by looking.

By himself whoever waits looks once a minute: who hears within seconds was told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

import pytest

import holdfast as hf
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.items import HEAD
from holdfast.ports import Home
from holdfast.workflows.record import decode_record

KEEPS: Final = hf.Limits(linger_seconds=30, near_seconds=30)
"""Of a worker that lets go of nothing."""

KEEPS_ONE: Final = hf.Limits(linger_seconds=30, near_seconds=30, running=1)
"""Of a worker that takes one execution and no other."""

AWAITED: Final = "wf#other#o"


class Town:
    """Two workers on one home: ``here`` somebody waits for what runs ``there``."""

    def __init__(self) -> None:
        self.data = MemoryData()
        self.here, self.there = self.app(KEEPS_ONE), self.app(KEEPS)

    def app(self, limits: hf.Limits) -> hf.App:
        async def open_shared() -> Home:
            return open_memory_home(data=self.data)

        app = hf.App("town", home=open_shared, limits=limits)

        @app.workflow
        async def other(laps: int = 1) -> str:
            word = await hf.signal("word", str)
            if laps > 1:
                hf.continue_as_new(laps - 1)
            return word

        @app.workflow
        async def waits(at_once: int = 1, impatience: tuple[float, ...] = ()) -> list[str]:
            for patience_seconds in impatience:
                with pytest.raises(TimeoutError):
                    await other.handle("o").result(patience_seconds)
            return list(await asyncio.gather(*(other.handle("o") for _ in range(at_once))))

        return app

    async def start(self, app: hf.App, workflow: str, id: str, *args: Any) -> hf.Handle[Any]:
        return await app.registry.workflow(workflow).start(*args, id=id)

    def requests(self) -> int:
        """How many requests to be told lie in the inbox of the awaited execution, read or not."""
        return sum(sort.startswith("i#await#") for sort in self.data.partitions[AWAITED])

    def run(self) -> int:
        return decode_record(self.data.partitions[AWAITED][HEAD].body).run

    async def notes(self) -> int:
        """How often the awaited execution has noted that somebody wants to be told."""
        history = await self.here.handle("other", "o").history()
        return sum(event.kind == "await" for event in history)


@pytest.fixture
def town() -> Town:
    return Town()


async def eventually(check: Callable[[], Awaitable[object]]) -> None:
    async with asyncio.timeout(60):
        while not await check():
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("at_once", [1, 3])
async def test_an_end_in_another_worker_is_told(town, at_once):
    async with town.here.worker(), town.there.worker():
        other = await town.start(town.there, "other", "o")
        waits = await town.start(town.here, "waits", "w", at_once)
        await eventually(town.notes)
        await other.signal("word", "hello")
        assert await waits.result("60s") == ["hello"] * at_once
        assert await town.notes() == 1


async def test_an_end_that_came_before_is_seen_at_once_and_nobody_is_asked(town):
    async with town.here.worker(), town.there.worker():
        other = await town.start(town.there, "other", "o")
        await other.signal("word", "hello")
        await other
        waits = await town.start(town.here, "waits", "w")
        assert await waits.result("60s") == ["hello"]
    assert town.requests() == 0


async def test_a_request_outlives_new_runs_and_the_worker_that_took_it(town):
    async def second_run():
        return town.run() == 1

    async with town.here.worker():
        async with town.there.worker():
            other = await town.start(town.there, "other", "o", 2)
            waits = await town.start(town.here, "waits", "w")
            await eventually(town.notes)
            await other.signal("word", "the first")
            await eventually(second_run)
        async with town.app(KEEPS).worker():
            await town.here.handle("other", "o").signal("word", "hello")
            assert await waits.result("60s") == ["hello"]


async def test_a_request_outlives_a_worker_that_dies(town):
    async with town.here.worker():
        async with town.there.worker():
            await town.start(town.there, "other", "o")
            waits = await town.start(town.here, "waits", "w")
            await eventually(town.notes)
            town.there.employed.abandon()
        async with town.app(KEEPS).worker():
            await town.here.handle("other", "o").signal("word", "hello")
            assert await waits.result("60s") == ["hello"]


@pytest.mark.parametrize("paused", [False, True], ids=["noted", "not read yet"])
async def test_a_termination_is_told(town, paused):
    async def asked():
        return town.requests() if paused else await town.notes()

    async with town.here.worker(), town.there.worker():
        other = await town.start(town.there, "other", "o")
        if paused:
            await other.pause()
            await eventually(lambda: is_let_go(town))
        waits = await town.start(town.here, "waits", "w")
        await eventually(asked)
        await other.terminate("enough")
        with pytest.raises(hf.ExecutionFailed, match="ended as TERMINATED: enough"):
            await waits.result("60s")


async def is_let_go(town):
    return town.data.partitions[AWAITED][HEAD].owner is None


async def test_who_waits_again_and_again_has_asked_once(town):
    async with town.here.worker(), town.there.worker():
        other = await town.start(town.there, "other", "o")
        waits = await town.start(town.here, "waits", "w", 1, (0.01, 0.01, 0.01))

        async def gave_up_three_times():
            return [event.kind for event in await waits.history()].count("timer") == 3

        await eventually(gave_up_three_times)
        await other.signal("word", "hello")
        assert await waits.result("60s") == ["hello"]
        assert await town.notes() == town.requests() == 1


async def test_a_fork_does_not_answer_for_the_one_it_was_forked_from(town):
    async with town.here.worker(), town.there.worker():
        other = await town.start(town.there, "other", "o")
        waits = await town.start(town.here, "waits", "w")
        await eventually(town.notes)
        fork = await other.fork("o-2")
        assert await fork.history() == []
        await fork.signal("word", "from the fork")
        assert await fork.result("60s") == "from the fork"
        await other.signal("word", "hello")
        assert await waits.result("60s") == ["hello"]


async def test_the_history_says_who_waits(town):
    async with town.here.worker(), town.there.worker():
        other = await town.start(town.there, "other", "o")
        await town.start(town.here, "waits", "w")
        await eventually(town.notes)
        (event,) = await other.history()
        assert (event.kind, event.name, event.outcome) == (
            "await",
            "execution 'w' of workflow 'waits'",
            "waits for the end",
        )
