"""Queries: looking at the live state of an execution, wherever and whenever, without touching it."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

import holdfast as hf


@pytest.fixture
def ran():
    return Counter()


@pytest.fixture
def counter(app, ran):
    @app.step(name="note")
    async def note(what: str) -> None:
        ran[what] += 1

    @app.workflow
    async def counter(left: int) -> int:
        total = 0

        @hf.query
        def total_so_far() -> int:
            return total

        @hf.query
        def summary() -> dict[str, int]:
            return {"left": left, "total": total}

        await note("started")
        try:
            while left:
                total += await hf.signal("add", int)
                left -= 1
        finally:
            await note("finished")
        return total

    return counter


async def test_of_a_suspended_execution(app, counter, ran, reaches, eventually):
    async with app.worker():
        handle = await counter.start(2, id="c")
        await handle.signal("add", 5)

        async def five() -> bool:
            return await handle.query("total_so_far") == 5

        await eventually(five)
        await reaches(handle, "SUSPENDED")
        assert await handle.query("total_so_far") == 5
        assert await handle.query("summary") == {"left": 1, "total": 5}
        await handle.signal("add", 1)
        assert await handle == 6
    assert ran == {"started": 1, "finished": 1}


async def test_of_one_that_has_ended(app, counter, ran):
    async with app.worker():
        handle = await counter.start(1, id="c")
        await handle.signal("add", 7)
        await handle
        assert await handle.query("summary") == {"left": 0, "total": 7}
    assert ran == {"started": 1, "finished": 1}


async def test_from_a_client_without_a_worker(app, counter, reaches):
    async with app.worker():
        handle = await counter.start(2, id="c")
        await handle.signal("add", 5)
        await reaches(handle, "SUSPENDED")
    async with app:
        assert await handle.query("total_so_far") == 5


async def test_of_one_that_is_running_a_step(app, eventually):
    gate = asyncio.Event()

    @app.step
    async def slow() -> None:
        await gate.wait()

    @app.workflow
    async def job() -> str:
        state = "starting"
        hf.query(lambda: state)

        @hf.query
        def where() -> str:
            return state

        state = "working"
        await slow()
        state = "done"
        return state

    async with app.worker():
        handle = await job.start(id="j")
        assert await handle.query("where") == "working"
        gate.set()
        await handle
        assert await handle.query("where") == "done"


async def test_looking_runs_no_step_and_no_clean_up(app, counter, ran, reaches):
    async with app.worker():
        handle = await counter.start(1, id="c")
        await reaches(handle, "SUSPENDED")
        for _ in range(5):
            await handle.query("total_so_far")
        history = await handle.history()
        assert ran == {"started": 1}
        await handle.signal("add", 1)
        await handle
        assert len(await handle.history()) == len(history) + 2
    assert ran == {"started": 1, "finished": 1}


async def test_before_the_first_turn_the_body_is_run_up_to_its_first_wait(app, counter):
    async with app:
        handle = await counter.start(3, id="c")
        assert await handle.query("summary") == {"left": 3, "total": 0}


async def test_one_that_the_body_does_not_expose(app, counter):
    async with app.worker():
        handle = await counter.start(3, id="c")
        with pytest.raises(hf.ConfigurationError, match="exposes no query 'sum' now; it has: summary, total_so_far"):
            await handle.query("sum")


async def test_an_error_of_the_function_reaches_the_caller(app):
    @app.workflow
    async def job() -> None:
        @hf.query
        def broken() -> int:
            return 1 // 0

        await hf.signal("go")

    async with app.worker():
        handle = await job.start(id="j")
        with pytest.raises(ZeroDivisionError):
            await handle.query("broken")


async def test_a_query_that_waits_is_refused_with_a_clear_error(app):
    @app.workflow
    async def job() -> None:
        @hf.query
        async def waits() -> int:  # type: ignore[misc]
            return 1

        await hf.signal("go")

    async with app.worker():
        handle = await job.start(id="j")
        with pytest.raises(hf.HoldfastError, match="waits"):
            await handle.query("waits")
            await handle


async def test_a_query_may_ask_what_the_body_may_ask(app):
    @app.workflow
    async def job() -> None:
        @hf.query
        def about() -> list[str]:
            return [hf.current().id, str(hf.now().year)]

        await hf.signal("go")

    async with app.worker():
        handle = await job.start(id="j")
        assert (await handle.query("about"))[0] == "j"


async def test_queries_are_of_the_current_run(app, reaches):
    @app.workflow
    async def loop(n: int) -> None:
        @hf.query
        def current() -> int:
            return n

        if n < 3:
            hf.continue_as_new(n + 1)
        await hf.signal("go")

    async with app.worker():
        handle = await loop.start(0, id="l")
        await reaches(handle, "SUSPENDED")
        assert await handle.query("current") == 3


async def test_outside_a_body_nothing_can_be_exposed():
    with pytest.raises(hf.InvalidInput, match="hf.query works inside a workflow body only"):
        hf.query(lambda: 1)
