"""Cancelling executions, and executions that run out of time."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter

import pytest

import holdfast as hf
from holdfast.workflows.record import CancelRequest


@pytest.fixture
def done():
    """What the steps of these tests have done, in order."""
    return []


@pytest.fixture
def do(app, done):
    @app.step(name="do")
    async def do(what: str, delay_ms: int = 0) -> str:
        await asyncio.sleep(delay_ms / 1000)
        done.append(what)
        return what

    return do


async def cancelled(handle, reason=""):
    await handle.cancel(reason)
    with pytest.raises(hf.ExecutionCancelled) as caught:
        await handle
    return caught.value


async def test_cancelled_error_is_raised_where_it_waits(app, do, done, reaches):
    @app.workflow
    async def job() -> None:
        try:
            await hf.sleep("1h")
        except asyncio.CancelledError as error:
            await do(f"cancelled: {error}")
            raise

    async with app.worker():
        handle = await job.start(id="j")
        await reaches(handle, "SUSPENDED")
        error = await cancelled(handle, "changed my mind")
        assert "changed my mind" in str(error)
        assert (await handle.status()).status == "CANCELLED"
    assert done == ["cancelled: changed my mind"]


@pytest.mark.parametrize("wait", ["sleep", "signal", "callback", "event", "gather", "queue", "child"])
async def test_whatever_it_waits_for(app, do, done, wait, reaches):
    @app.workflow
    async def child() -> None:
        await hf.signal("never")

    @app.workflow
    async def job() -> None:
        waits = {
            "sleep": lambda: hf.sleep("1h"),
            "signal": lambda: hf.signal("never"),
            "callback": lambda: hf.callback().result(),
            "event": lambda: asyncio.Event().wait(),
            "gather": lambda: asyncio.gather(hf.sleep("1h"), hf.sleep("2h")),
            "queue": lambda: asyncio.Queue().get(),
            "child": lambda: child(),  # noqa: PLW0108 - it must be called in the body
        }
        try:
            await waits[wait]()
        finally:
            await do("cleaned up")

    async with app.worker():
        handle = await job.start(id="j")
        await reaches(handle, "BLOCKED" if wait in {"event", "queue"} else "SUSPENDED")
        await cancelled(handle)
    assert done == ["cleaned up"]


async def test_a_running_step_is_cancelled_with_the_execution(app, eventually):
    seen = []

    @app.step
    async def endless() -> None:
        seen.append("started")
        try:
            await asyncio.Event().wait()
        finally:
            seen.append("stopped")

    @app.workflow
    async def job() -> None:
        await endless()

    async with app.worker():
        handle = await job.start(id="j")
        await eventually(lambda: seen)
        await cancelled(handle)
        await eventually(lambda: seen == ["started", "stopped"])


async def test_cancelling_before_the_first_turn_runs_no_step(app, do, done):
    @app.workflow
    async def job() -> None:
        await do("something")

    async with app:
        handle = await job.start(id="j")
        await handle.cancel()
    async with app.worker():
        with pytest.raises(hf.ExecutionCancelled):
            await handle
    assert done == []


async def test_clean_up_may_wait_for_long(app, do, done, reaches):
    @app.workflow
    async def job() -> None:
        try:
            await hf.signal("never")
        finally:
            await do("a")
            await hf.sleep("5ms")
            await do("b")

    async with app.worker():
        handle = await job.start(id="j")
        await reaches(handle, "SUSPENDED")
        await cancelled(handle)
    assert done == ["a", "b"]


async def test_cancelling_twice_does_not_interrupt_the_clean_up(app, do, done, reaches):
    @app.workflow
    async def job() -> None:
        try:
            await hf.signal("never")
        finally:
            await do("a")
            await hf.sleep("20ms")
            await do("b")

    async with app.worker():
        handle = await job.start(id="j")
        await reaches(handle, "SUSPENDED")
        await handle.cancel("once")
        await asyncio.sleep(0.005)
        await cancelled(handle, "twice")
    assert done == ["a", "b"]


async def test_of_two_requests_at_once_the_first_gives_the_reason(app, reaches):
    @app.workflow
    async def job() -> None:
        await hf.sleep("1h")

    async with app:
        handle = await job.start(id="j")
        await handle.cancel("first")  # no process works on it, so both wait
        await handle.cancel("second")
    async with app.worker():
        with pytest.raises(hf.ExecutionCancelled, match="first"):
            await app.handle("job", "j")
        again = await job.start(id="k")
        await reaches(again, "SUSPENDED")
        await again.cancel("first")
        await again.cancel("second")
        with pytest.raises(hf.ExecutionCancelled, match="first"):
            await again


async def test_a_body_may_refuse_to_be_cancelled(app, do, reaches):
    @app.workflow
    async def job() -> str:
        with contextlib.suppress(asyncio.CancelledError):
            await hf.signal("never")
        return await do("went on")

    async with app.worker():
        handle = await job.start(id="j")
        await reaches(handle, "SUSPENDED")
        await handle.cancel()
        assert await handle == "went on"
        assert (await handle.status()).status == "COMPLETED"


async def test_a_body_may_answer_a_cancellation_with_an_error_of_its_own(app, reaches):
    @app.workflow
    async def job() -> None:
        try:
            await hf.signal("never")
        except asyncio.CancelledError:
            raise LookupError("lost the parcel") from None

    async with app.worker():
        handle = await job.start(id="j")
        await reaches(handle, "SUSPENDED")
        await handle.cancel()
        with pytest.raises(hf.ExecutionFailed, match="lost the parcel"):
            await handle


async def test_only_the_main_task_is_cancelled_and_passes_it_on_as_asyncio_does(app, do, done, reaches):
    @app.workflow
    async def job() -> None:
        async def member(n: int) -> None:
            try:
                await hf.signal("never")
            finally:
                await do(f"member {n}")

        async with asyncio.TaskGroup() as group:
            for n in range(3):
                group.create_task(member(n))

    async with app.worker():
        handle = await job.start(id="j")
        await reaches(handle, "SUSPENDED")
        await cancelled(handle)
    assert sorted(done) == ["member 0", "member 1", "member 2"]


async def test_what_has_ended_cannot_be_cancelled(app):
    @app.workflow
    async def job() -> None: ...

    async with app.worker():
        handle = await job.start(id="j")
        await handle
        with pytest.raises(hf.InvalidState, match="has ended as COMPLETED"):
            await handle.cancel()


async def test_one_execution_cancels_another(app, reaches):
    @app.workflow
    async def victim() -> None:
        await hf.signal("never")

    @app.workflow
    async def killer() -> str:
        handle = victim.handle("v")
        await handle.cancel("from inside")
        try:
            await handle
        except hf.ExecutionCancelled as error:
            return str(error)
        return "?"

    async with app.worker():
        await reaches(await victim.start(id="v"), "SUSPENDED")
        assert "victim 'v' ended as CANCELLED" in await killer()


async def test_reasons_are_text(app):
    @app.workflow
    async def job() -> None:
        await hf.signal("go")

    async with app.worker():
        handle = await job.start(id="j")
        for call in (handle.cancel, handle.terminate):
            with pytest.raises(hf.InvalidInput, match="is text, not 7"):
                await call(7)
        await handle.signal("go")
        await handle


async def test_a_cancellation_read_twice_from_the_inbox_counts_once(app, do, done, reaches):
    """A message leaves the inbox with the commit after it; another ring before that must not deliver it again."""

    @app.workflow
    async def job() -> None:
        try:
            await hf.signal("never")
        finally:
            await hf.sleep("10ms")
            await do("cleaned up")

    async with app.worker():
        handle = await job.start(id="j")
        await reaches(handle, "SUSPENDED")
        await asyncio.gather(handle.cancel(), *[handle.signal("noise", n) for n in range(20)])
        with pytest.raises(hf.ExecutionCancelled):
            await handle
    assert done == ["cleaned up"]


async def test_a_body_that_cancels_itself_is_cancelled(app):
    @app.workflow
    async def job() -> None:
        raise asyncio.CancelledError("myself")

    async with app.worker():
        with pytest.raises(hf.ExecutionCancelled):
            await job()


# ── Again ───────────────────────────────────────────────────────────────────────────────────────────────────────────


async def requests(handle):
    """How many requests to stop are in its history."""
    return sum(event.outcome == "cancel requested" for event in await handle.history())


async def requested_twice(handle):
    """Whether two requests are."""
    return await requests(handle) == 2


@pytest.mark.parametrize("how", ["suppressed", "in a branch", "in a task", "after a clean-up", "in a task group"])
async def test_a_body_that_has_survived_a_cancellation_gets_the_next_one(app, do, done, eventually, how):
    @app.workflow
    async def job() -> str:
        async def stubborn() -> None:
            with contextlib.suppress(asyncio.CancelledError):
                await hf.signal("never")

        match how:
            case "suppressed":
                await stubborn()
            case "in a branch":

                async def branch() -> None:
                    await stubborn()
                    await do("survived")
                    await hf.signal("never")

                await asyncio.gather(branch(), branch())
            case "in a task":
                await asyncio.create_task(stubborn())
            case "after a clean-up":
                try:
                    await hf.signal("never")
                except asyncio.CancelledError:
                    await do("cleaned up")
            case "in a task group":
                with contextlib.suppress(asyncio.CancelledError):
                    async with asyncio.TaskGroup() as group:
                        group.create_task(stubborn())
        await do("survived")
        await hf.sleep("1d")
        return "finished as if nobody had cancelled"

    async with app.worker():
        handle = await job.start(id="j")
        await handle.cancel("one")
        await eventually(lambda: "survived" in done)
        await handle.cancel("two")
        with pytest.raises(hf.ExecutionCancelled, match="two"):
            await handle
        assert await requests(handle) == 2


@pytest.mark.parametrize(
    "wait", ["step", "sleep", "signal", "gather", "TaskGroup", "task", "helper", "event", "shield"]
)
async def test_a_clean_up_is_not_interrupted_and_who_survives_it_gets_the_next_request(app, do, done, eventually, wait):
    @app.step
    async def gate() -> None:
        done.append("cleaning up")
        while "open" not in done:
            await asyncio.sleep(0.001)

    async def helper() -> None:
        await gate()

    async def clean_up() -> None:
        match wait:
            case "step":
                await gate()
            case "sleep":
                await do("cleaning up")
                await hf.sleep("1s")
            case "signal":
                await do("cleaning up")
                await hf.signal("go on")
            case "gather":
                await asyncio.gather(gate(), do("beside"))
            case "TaskGroup":
                async with asyncio.TaskGroup() as group:
                    group.create_task(gate())
            case "task":
                await asyncio.create_task(helper())
            case "helper":
                await helper()
            case "event":
                opened = asyncio.Event()

                async def open_it() -> None:
                    await gate()
                    opened.set()

                opening = asyncio.create_task(open_it())
                await opened.wait()
                await opening
            case "shield":
                await asyncio.shield(helper())

    @app.workflow
    async def job() -> str:
        with contextlib.suppress(asyncio.CancelledError):
            try:
                await hf.signal("never")
            finally:
                await clean_up()
                await do("cleaned up")
        await do("survived")
        await hf.sleep("1d")
        return "finished as if nobody had cancelled"

    async with app.worker():
        handle = await job.start(id="j")
        await handle.cancel("one")
        await eventually(lambda: "cleaning up" in done)
        for _ in range(3):
            await handle.cancel("two")
        await handle.signal("mark")
        await eventually(lambda: received(handle, "mark"))
        done.append("open")
        await handle.signal("go on")
        with pytest.raises(hf.ExecutionCancelled, match="two"):
            await handle
        assert await requests(handle) == 2
    assert "cleaned up" in done


async def received(handle, name):
    """Whether a signal is in its history."""
    return any((event.kind, event.name) == ("signal", name) for event in await handle.history())


async def test_a_request_that_waits_for_a_clean_up_is_delivered_by_the_next_worker(world, reaches, eventually):
    """It is in the journal when the first worker dies, in the middle of the clean-up."""

    def code(app):
        @app.step(name="do")
        async def do(what: str) -> None: ...

        @app.workflow
        async def job() -> str:
            try:
                await hf.signal("never")
            except asyncio.CancelledError:
                await do("clean up")
                await hf.signal("cleaned up")
            await do("survived")
            await hf.sleep("1d")
            return "finished as if nobody had cancelled"

        return job

    first, second = world.app(), world.app()
    before, after = code(first), code(second)
    async with first.worker(grace=0):
        handle = await before.start(id="j")
        await reaches(handle, "SUSPENDED")
        await handle.cancel("one")
        await handle.cancel("two")
        await eventually(lambda: requested_twice(handle))
        await reaches(handle, "SUSPENDED")
    async with second.worker():
        handle = after.handle("j")
        await handle.signal("cleaned up")
        with pytest.raises(hf.ExecutionCancelled, match="two"):
            await handle
        assert [event.name for event in await handle.history() if event.kind == "step"] == ["do#0"]


async def test_one_request_that_comes_twice_counts_once(app):
    """Who sends it dies before it knows that it has sent it, and sends it again."""

    @app.workflow
    async def job() -> str:
        with contextlib.suppress(asyncio.CancelledError):
            await hf.signal("never")
        return await hf.signal("go on", str)

    async with app.worker():
        handle = await job.start(id="j")
        for _ in range(2):
            await handle._send(CancelRequest("please", "the-request"))
        await handle.signal("go on", "went on")
        assert await handle == "went on"
        assert await requests(handle) == 1


async def test_time_runs_out_for_a_body_that_survived_a_cancellation(app):
    @app.workflow
    async def stubborn() -> str:
        with contextlib.suppress(asyncio.CancelledError):
            await hf.signal("never")
        await hf.sleep("1d")
        return "finished"

    async with app.worker():
        handle = await stubborn.start(id="j", timeout="300ms")
        await handle.cancel("not now")
        with pytest.raises(hf.ExecutionTimedOut):
            await handle


async def test_cancelling_what_is_cancelled_is_done(app, reaches):
    @app.workflow
    async def job() -> None:
        await hf.signal("never")

    async with app.worker():
        handle = await job.start(id="j")
        await cancelled(handle)
        await handle.cancel("again")
        assert (await handle.status()).status == "CANCELLED"


# ── Time-outs of executions ─────────────────────────────────────────────────────────────────────────────────────────


async def test_an_execution_runs_out_of_time(app, do, done):
    @app.workflow(timeout="20ms")
    async def job() -> None:
        try:
            await hf.sleep("1h")
        finally:
            await do("cleaned up")

    async with app.worker():
        handle = await job.start(id="j")
        with pytest.raises(hf.ExecutionTimedOut, match="TIMED_OUT"):
            await handle
        assert (await handle.status()).status == "TIMED_OUT"
    assert done == ["cleaned up"]


async def test_the_starters_limit_goes_before_the_workflows(app):
    @app.workflow(timeout="10ms")
    async def job() -> str:
        await hf.sleep("25ms")
        return "done"

    async with app.worker():
        assert await (await job.start(timeout="10s")) == "done"
        with pytest.raises(hf.ExecutionTimedOut):
            await job()


async def test_an_execution_in_time_is_not_disturbed(app):
    @app.workflow(timeout="1h")
    async def job() -> str:
        await hf.sleep("1ms")
        return "done"

    async with app.worker():
        handle = await job.start(id="j")
        assert await handle == "done"
        assert [event.name for event in await handle.history()] == ["sleep#0"]


async def test_time_runs_out_although_no_process_is_there(app, do):
    @app.workflow
    async def job() -> None:
        await hf.signal("never")

    async with app:
        handle = await job.start(id="j", timeout="1ms")
        await asyncio.sleep(0.01)
    async with app.worker():
        with pytest.raises(hf.ExecutionTimedOut):
            await handle


async def test_time_runs_out_over_all_runs(app):
    runs = Counter()

    @app.step
    async def count() -> None:
        runs["n"] += 1

    @app.workflow(timeout="500ms")
    async def job() -> None:
        await count()
        await hf.sleep("1ms")
        hf.continue_as_new()

    async with app.worker():
        with pytest.raises(hf.ExecutionTimedOut):
            await job()
    assert runs["n"] > 1


async def test_a_cancelled_execution_that_cleans_up_for_too_long_runs_out_of_time(app, reaches):
    @app.workflow
    async def job() -> None:
        try:
            await hf.signal("never")
        finally:
            await hf.sleep("1h")

    async with app.worker():
        handle = await job.start(id="j", timeout="500ms")
        await reaches(handle, "SUSPENDED")
        await handle.cancel()
        with pytest.raises((hf.ExecutionTimedOut, hf.ExecutionCancelled)):
            await handle.result(timeout="60s")
