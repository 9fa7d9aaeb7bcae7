"""Plain asyncio in a body: everything works, durably, and repeats itself on every replay."""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from contextvars import ContextVar

import pytest

import holdfast as hf

VAR: ContextVar[str] = ContextVar("var", default="unset")


@pytest.fixture
def work(app):
    """A step that takes so many milliseconds, and ends after another one, and answers its argument."""
    ended: dict[str, asyncio.Event] = defaultdict(asyncio.Event)

    @app.step(name="work", retry=hf.Retry(max_attempts=1))
    async def work(value: str, delay_ms: int = 0, fail: bool = False, after: str = "") -> str:
        await asyncio.sleep(delay_ms / 1000)
        if after:
            await ended[after].wait()
        asyncio.get_running_loop().call_later(0.002, ended[value].set)
        if fail:
            raise LookupError(value)
        return value

    return work


async def run(app, body, *args):
    """The result of ``body`` as a workflow of its own."""
    workflow = app.workflow(name="body")(body)
    async with app.worker():
        return await workflow(*args)


# ── gather, wait, as_completed, shield ──────────────────────────────────────────────────────────────────────────────


async def test_gather_answers_in_the_order_of_its_arguments(app, work):
    async def body() -> list[str]:
        return list(await asyncio.gather(work("a", 4), work("b", 1), work("c", 2)))

    assert await run(app, body) == ["a", "b", "c"]


async def test_gather_raises_the_first_failure(app, work):
    async def body() -> str:
        try:
            await asyncio.gather(work("a", after="c"), work("b", fail=True), work("c", fail=True, after="b"))
        except LookupError as error:
            return str(error)
        return ""

    assert await run(app, body) == "b"


async def test_gather_can_collect_failures(app, work):
    async def body() -> list[str]:
        found = await asyncio.gather(work("a"), work("b", fail=True), work("c"), return_exceptions=True)
        await hf.sleep("1ms")
        return [each if isinstance(each, str) else repr(each) for each in found]

    assert await run(app, body) == ["a", "LookupError('b')", "c"]


async def test_gather_of_steps_sleeps_and_signals(app, work):
    async def body() -> list[str]:
        async def slept() -> str:
            await hf.sleep("2ms")
            return "slept"

        return list(await asyncio.gather(work("a"), slept(), hf.signal("s", str), asyncio.sleep(0.001, "mine")))

    workflow = app.workflow(name="body")(body)
    async with app.worker():
        handle = await workflow.start(id="w")
        await handle.signal("s", "signalled")
        assert await handle == ["a", "slept", "signalled", "mine"]


async def test_the_first_to_finish_wins_the_same_race_on_every_replay(app, work):
    async def body() -> list[str]:
        tasks = [asyncio.create_task(work(name, delay)) for name, delay in [("slow", 6), ("fast", 1), ("mid", 3)]]
        order = []
        pending = set(tasks)
        while pending:
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            order += [task.result() for task in done]
            await hf.sleep("1ms")
        return order

    assert sorted(await run(app, body)) == ["fast", "mid", "slow"]


async def test_wait_with_a_time_out_leaves_the_rest_running(app, work, eventually):
    noted = []

    @app.step
    async def note() -> None:
        noted.append("too late")

    async def body() -> list[int | str]:
        tasks = [asyncio.create_task(work("fast")), asyncio.create_task(hf.signal("go", str))]
        await tasks[0]
        done, pending = await asyncio.wait(tasks, timeout=0.005)
        (rest,) = pending
        await note()
        return [len(done), len(pending), await rest]

    workflow = app.workflow(name="body")(body)
    async with app.worker():
        handle = await workflow.start(id="w")
        await eventually(lambda: noted)
        await handle.signal("go", "gone")
        assert await handle == [1, 1, "gone"]


async def test_as_completed_of_tasks_comes_in_the_order_of_completion(app, work):
    async def body() -> list[str]:
        tasks = [asyncio.create_task(work(name, after=after)) for name, after in [("c", "b"), ("a", ""), ("b", "a")]]
        return [await each for each in asyncio.as_completed(tasks)]

    assert await run(app, body) == ["a", "b", "c"]


async def test_as_completed_of_bare_coroutines_is_refused_with_the_remedy(app, work):
    async def body() -> None:
        for each in asyncio.as_completed([work("a"), work("b"), work("c")]):
            await each

    with pytest.raises(hf.ExecutionFailed, match=r"create_task\(c\) for c in coroutines") as caught:
        await run(app, body)
    assert isinstance(caught.value.__cause__, hf.DeterminismError)


async def test_shield_lets_a_step_finish_although_its_waiter_gave_up(app, work):
    async def body() -> list[str]:
        task = asyncio.create_task(work("kept", 8))
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(task), 0.001)
        return [str(task.done()), await task]

    assert await run(app, body) == ["False", "kept"]


# ── TaskGroup, timeout, cancellation within the body ────────────────────────────────────────────────────────────────


async def test_a_task_group_cancels_the_siblings_of_a_failure(app, work):
    async def body() -> list[str]:
        ended = []

        async def member(name: str, fail: bool = False, after: str = "") -> None:
            try:
                ended.append(await work(name, fail=fail, after=after))
            except asyncio.CancelledError:
                ended.append(f"{name} cancelled")
                raise

        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(member("a"))
                group.create_task(member("b", fail=True, after="a"))
                group.create_task(member("c", after="never"))
        except* LookupError as errors:
            ended += [str(each) for each in errors.exceptions]
        return ended

    assert await run(app, body) == ["a", "c cancelled", "b"]


async def test_the_errors_of_a_task_group_are_told_when_nobody_catches_them(app, work):
    async def body() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(work("sold out", fail=True))

    with pytest.raises(hf.ExecutionFailed, match="LookupError: sold out"):
        await run(app, body)


async def test_timeout_cancels_a_step_and_the_body_goes_on(app, work):
    async def body() -> list[str]:
        seen = []
        try:
            async with asyncio.timeout(0.002):
                await work("never", 10_000)
        except TimeoutError:
            seen.append("timed out")
        seen.append(await work("next"))
        return seen

    assert await run(app, body) == ["timed out", "next"]


async def test_timeout_that_is_not_reached_leaves_no_timer_behind(app, work):
    async def body() -> str:
        async with asyncio.timeout(3600):
            return await work("quick")

    assert await run(app, body) == "quick"


async def test_timeouts_nest_and_reschedule(app, work):
    async def body() -> list[str]:
        seen = []
        try:
            async with asyncio.timeout(0.004) as outer:
                try:
                    async with asyncio.timeout(0.001):
                        await asyncio.Event().wait()
                except TimeoutError:
                    seen.append("inner")
                outer.reschedule(outer.when() + 0.001)
                await asyncio.Event().wait()
        except TimeoutError:
            seen.append("outer")
        return seen

    assert await run(app, body) == ["inner", "outer"]


async def test_wait_for_is_asyncios_own(app, work):
    async def body() -> list[str]:
        seen = [await asyncio.wait_for(work("in time"), 5)]
        try:
            await asyncio.wait_for(hf.signal("never"), 0.002)
        except TimeoutError:
            seen.append("too late")
        return seen

    assert await run(app, body) == ["in time", "too late"]


async def test_a_cancelled_task_cleans_up_with_durable_steps(app, work):
    async def body() -> list[str]:
        seen = []

        async def guarded() -> None:
            try:
                await hf.signal("never")
            finally:
                seen.append(await work("cleaned up", 1))

        task = asyncio.create_task(guarded())
        await hf.sleep("1ms")
        task.cancel("enough")
        with contextlib.suppress(asyncio.CancelledError):
            await task
        return [*seen, str(task.cancelled())]

    assert await run(app, body) == ["cleaned up", "True"]


async def test_what_a_body_leaves_running_is_cancelled_when_it_ends(app, work):
    ended = []

    @app.step
    async def note(what: str) -> None:
        ended.append(what)

    async def body() -> str:
        async def background() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                await note("cleaned up")

        asyncio.create_task(background())  # noqa: RUF006 - leaving it behind is the point
        await asyncio.sleep(0)
        return "ended"

    assert await run(app, body) == "ended"
    assert ended == ["cleaned up"]


async def test_an_error_nobody_looks_at_fails_nothing(app, work):
    async def body() -> str:
        asyncio.create_task(work("lost", fail=True))  # noqa: RUF006 - leaving it behind is the point
        await hf.sleep("5ms")
        return "ended"

    assert await run(app, body) == "ended"


# ── Event, Queue, Semaphore, Lock, Condition, Barrier ───────────────────────────────────────────────────────────────


async def test_an_event_wakes_those_who_wait(app, work):
    async def body() -> list[str]:
        event, seen = asyncio.Event(), []

        async def waiter(n: int) -> None:
            await event.wait()
            seen.append(await work(f"{n}"))

        tasks = [asyncio.create_task(waiter(n)) for n in range(3)]
        await work("setting")
        event.set()
        await asyncio.gather(*tasks)
        return sorted(seen)

    assert await run(app, body) == ["0", "1", "2"]


async def test_a_queue_between_producers_and_consumers(app, work):
    async def body() -> list[str]:
        queue: asyncio.Queue[int] = asyncio.Queue(maxsize=2)
        seen: list[str] = []

        async def produce(start: int) -> None:
            for n in range(start, start + 5):
                await work(f"{n}", n % 3)
                await queue.put(n)

        async def consume() -> None:
            while True:
                seen.append(await work(str(await queue.get()), 1))
                queue.task_done()

        consumers = [asyncio.create_task(consume()) for _ in range(2)]
        await asyncio.gather(produce(0), produce(10))
        await queue.join()
        for consumer in consumers:
            consumer.cancel()
        return sorted(seen, key=int)

    assert await run(app, body) == [str(n) for n in (0, 1, 2, 3, 4, 10, 11, 12, 13, 14)]


async def test_a_semaphore_bounds_what_runs_at_once(app):
    running, most = [0], [0]

    @app.step
    async def guarded() -> None:
        running[0] += 1
        most[0] = max(most[0], running[0])
        await asyncio.sleep(0.001)
        running[0] -= 1

    async def body() -> None:
        limit = asyncio.Semaphore(3)

        async def one() -> None:
            async with limit:
                await guarded()

        await asyncio.gather(*[one() for _ in range(12)])

    await run(app, body)
    assert most == [3]


async def test_locks_conditions_and_barriers(app, work):
    async def body() -> list[str]:
        lock, condition, barrier, seen = asyncio.Lock(), asyncio.Condition(), asyncio.Barrier(2), []

        async def one(name: str) -> None:
            async with lock:
                seen.append(f"{name} in")
                await work(name, 1)
                seen.append(f"{name} out")
            await barrier.wait()
            async with condition:
                condition.notify_all()

        async def other() -> None:
            async with condition:
                await condition.wait()
            seen.append("notified")

        await asyncio.gather(other(), one("a"), one("b"))
        return seen

    assert await run(app, body) == ["a in", "a out", "b in", "b out", "notified"]


async def test_async_generators_and_context_managers_in_a_body(app, work):
    @contextlib.asynccontextmanager
    async def held(name: str):
        await work(f"take {name}")
        try:
            yield name
        finally:
            await work(f"release {name}")

    async def rows(count: int):
        for n in range(count):
            yield await work(f"row {n}")

    async def body() -> list[str]:
        async with held("a") as name:
            seen = [name] + [row async for row in rows(3)]
            async with contextlib.AsyncExitStack() as stack:
                seen.append(await stack.enter_async_context(held("b")))
        return seen

    workflow = app.workflow(name="body")(body)
    async with app.worker():
        handle = await workflow.start(id="w")
        assert await handle == ["a", "row 0", "row 1", "row 2", "b"]
        history = await handle.history()
    assert [event.name for event in history] == [f"work#{n}" for n in range(7)]


async def test_context_variables_of_the_body_survive_its_waits(app, work):
    async def body() -> list[str]:
        VAR.set("outer")

        async def task() -> str:
            mine = VAR.get()
            VAR.set("inner")
            await hf.sleep("1ms")
            return f"{mine} {VAR.get()}"

        return [await asyncio.create_task(task()), VAR.get()]

    assert await run(app, body) == ["outer inner", "outer"]


async def test_context_variables_of_the_starter_do_not_leak_into_the_body(app):
    """They would be gone after a replay, and the body would take another path."""

    @app.step
    async def see() -> str:
        return VAR.get()

    async def body() -> list[str]:
        seen = [VAR.get(), await see()]
        await hf.sleep("2ms")
        return [*seen, VAR.get(), await see()]

    VAR.set("starter")
    assert await run(app, body) == ["unset"] * 4


async def test_operations_are_named_by_task_and_occurrence(app, work):
    async def body() -> None:
        async def lane(n: int) -> None:
            await work(str(n))
            await work(str(n))

        await work("first")
        await asyncio.gather(lane(1), lane(2))

    workflow = app.workflow(name="body")(body)
    async with app.worker():
        handle = await workflow.start(id="w")
        await handle
        names = {event.name for event in await handle.history()}
    assert names == {"work#0", "lane#0/work#0", "lane#0/work#1", "lane#1/work#0", "lane#1/work#1"}
