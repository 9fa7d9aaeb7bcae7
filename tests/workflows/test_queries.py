"""Queries: looking at the live state of an execution, wherever and whenever, without touching it."""

from __future__ import annotations

import asyncio

import pytest

import holdfast as hf


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


# ── What a query may not do ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def asks(app):
    """``await asks(ask)``: a handle of an execution with a query that calls ``ask`` with some things to ask for."""

    @app.step
    async def work() -> int:
        return 1

    @app.workflow
    async def other() -> int:
        return 1

    things = {
        "a step": work,
        "a child": other,
        "a child with options": other.options(id="o"),
        "a task": lambda: asyncio.create_task(work.function()),
        "a timer": lambda: asyncio.get_running_loop().call_later(1, print),
        "hf.sleep": lambda: hf.sleep(1),
        "hf.signal": lambda: hf.signal("go"),
        "hf.wait_for": lambda: hf.wait_for(work),
        "hf.map": lambda: hf.map(work, [1]),
    }

    @app.workflow
    async def job(thing: str) -> str:
        @hf.query
        def asking() -> str:
            things[thing]()
            return "answered"

        await hf.signal("go")
        return "done"

    return job, things


THINGS = (
    "a step",
    "a child",
    "a child with options",
    "a task",
    "a timer",
    "hf.sleep",
    "hf.signal",
    "hf.wait_for",
    "hf.map",
)


@pytest.mark.parametrize("thing", THINGS)
async def test_a_query_that_asks_for_something_durable_is_refused_and_changes_nothing(app, asks, thing):
    job, _ = asks
    async with app.worker():
        handle = await job.start(thing, id="j")
        with pytest.raises(hf.InvalidInput, match="was called in a query. A query only looks"):
            await handle.query("asking")
        await handle.signal("go")
        assert await handle == "done"
        with pytest.raises(hf.InvalidInput, match="was called in a query"):
            await handle.query("asking")
        assert {event.kind for event in await handle.history()} == {"signal"}


# ── After the end ───────────────────────────────────────────────────────────────────────────────────────────────────


def another(world, name="counter"):
    """An app with other code for the workflow, which knows nothing of what the old one asked for or exposed."""
    app = world.app()

    @app.step(name="other")
    async def other() -> None: ...

    async def rewritten(left: int) -> int:
        await other()
        return left

    app.workflow(name=name)(rewritten)
    return app


async def test_of_one_that_has_ended_any_code_may_ask(app, world, counter):
    async with app.worker():
        handle = await counter.start(1, id="c")
        await handle.signal("add", 7)
        await handle
    changed = another(world)
    async with changed:
        handle = changed.handle("counter", "c")
        assert await handle.query("total_so_far") == 7
        assert await handle.query("summary") == {"left": 0, "total": 7}
        with pytest.raises(hf.HoldfastError):
            await handle.query("never exposed")


async def test_of_one_that_failed_too(app, world):
    @app.workflow(name="counter")
    async def fails(left: int) -> int:
        hf.query(lambda: left)
        raise LookupError("no")

    async with app.worker():
        with pytest.raises(hf.ExecutionFailed):
            await (await fails.start(5, id="c"))
    changed = another(world)
    async with changed:
        assert await changed.handle("counter", "c").query("<lambda>") == 5


async def test_a_helper_that_changed_does_not_matter_either(app):
    """The version of the code is that of its body, which is the same."""
    known = {"a": 1}

    @app.workflow
    async def job() -> int:
        price = known["a"]

        @hf.query
        def asked() -> tuple[int, int]:
            return price, 2

        return price

    async with app.worker():
        handle = await job.start(id="j")
        await handle
        assert await handle.query("asked") == (1, 2)  # by replay: what the function answers, as it is
        known.clear()
        assert await handle.query("asked") == [1, 2]  # as it was recorded


async def test_answers_that_fail_or_are_too_large_are_not_recorded(app, world):
    @app.workflow(name="counter")
    async def job(left: int) -> int:
        @hf.query
        def broken() -> int:
            raise SystemExit(1)

        @hf.query
        def large() -> str:
            return "x" * 100_000

        @hf.query
        def unknown() -> object:
            return object()

        @hf.query
        def small() -> int:
            return left

        return left

    async with app.worker():
        await (await job.start(5, id="c"))
    changed = another(world)
    async with changed:
        handle = changed.handle("counter", "c")
        assert await handle.query("small") == 5
        for name in ("broken", "large", "unknown"):
            with pytest.raises(hf.HoldfastError):
                await handle.query(name)


async def test_what_was_recorded_is_forgotten_when_it_goes_on(app, world):
    broken = [True]

    @app.step(retry=hf.Retry(max_attempts=1))
    async def work() -> None:
        if broken:
            raise LookupError("broken")

    @app.workflow(name="counter")
    async def job(left: int) -> int:
        state = "working"

        @hf.query
        def where() -> str:
            return state

        await work()
        state = "done"
        await hf.signal("go")
        return left

    async with app.worker():
        handle = await job.start(5, id="c")
        with pytest.raises(hf.ExecutionFailed):
            await handle
        broken.clear()
        await handle.retry()
        await handle.signal("go")
        await handle
        changed = another(world)
        async with changed:
            assert await changed.handle("counter", "c").query("where") == "done"
