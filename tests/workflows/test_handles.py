"""Handles: everything one can do with an execution from outside (G1, G2, G11)."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

import holdfast as hf
from holdfast.replay.journal import Journal
from holdfast.workflows.record import partition_of

ONCE = hf.Retry(max_attempts=1)


@pytest.fixture
def do(app, ran, broken):
    @app.step(name="do", retry=ONCE)
    async def do(what: str) -> str:
        ran[what] += 1
        if what in broken:
            raise LookupError(f"{what} is broken")
        return what

    return do


@pytest.fixture
def echo(app):
    @app.workflow
    async def echo(word: str, times: int = 1) -> str:
        return " ".join([word] * times)

    return echo


@pytest.fixture
def waits(app, do):
    @app.workflow
    async def waits(word: str = "") -> str:
        await do("before")
        answer = await hf.signal("go", str)
        await do("after")
        return word + answer

    return waits


# ── Starting ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_start_answers_a_handle_and_awaiting_it_the_result(app, echo):
    async with app.worker():
        handle = await echo.start("hi", id="e-1")
        assert handle.id == "e-1"
        assert handle.workflow == "echo"
        assert repr(handle) == "<Handle of echo 'e-1'>"
        assert await handle == "hi"
        assert await handle == "hi"
        assert await handle.result() == "hi"


async def test_calling_it_starts_and_waits(app, echo):
    async with app.worker():
        assert await echo("hi", times=2) == "hi hi"


async def test_without_an_id_each_start_is_another_execution(app, echo):
    async with app.worker():
        first, second = await echo.start("a"), await echo.start("a")
        assert first.id != second.id
        assert await asyncio.gather(first, second) == ["a", "a"]


async def test_one_number_is_the_same_input_however_it_is_written(app):
    @app.workflow
    async def pay(amount: float) -> float:
        return amount

    async with app.worker():
        assert await (await pay.start(1, id="17")) == 1.0
        assert await (await pay.start(1.0, id="17")) == 1.0


async def test_the_same_id_and_input_is_the_same_execution(app, do, ran):
    @app.workflow
    async def job(word: str, times: int = 1) -> str:
        return await do(word)

    async with app.worker():
        handles = await asyncio.gather(*[job.start("a", id="j") for _ in range(10)])
        assert await asyncio.gather(*handles) == ["a"] * 10
        assert await (await job.start("a", id="j")) == "a"
        assert await (await job.start(word="a", times=1, id="j")) == "a"
    async with app.worker():
        assert await (await job.start("a", 1, id="j")) == "a"
    assert ran == {"a": 1}


async def test_the_same_id_and_another_input_is_refused(app, echo):
    async with app.worker():
        await (await echo.start("a", id="e"))
        with pytest.raises(
            hf.IdempotencyMismatch,
            match=r"echo 'e' was already started with another input\. Use another id, or the same input$",
        ):
            await echo.start("b", id="e")
        with pytest.raises(hf.IdempotencyMismatch):
            await echo.start("a", 2, id="e")


async def test_the_same_id_after_a_failure_is_the_failed_execution(app, do, broken, ran):
    broken.add("a")

    @app.workflow
    async def job() -> str:
        return await do("a")

    async with app.worker():
        for _ in range(2):
            with pytest.raises(hf.ExecutionFailed, match="a is broken"):
                await (await job.start(id="j"))
    assert ran == {"a": 1}


async def test_ids_are_unique_per_workflow_only(app, echo):
    @app.workflow
    async def shout(word: str) -> str:
        return word.upper()

    async with app.worker():
        assert await (await echo.start("a", id="x")) == "a"
        assert await (await shout.start("a", id="x")) == "A"


async def test_a_start_without_a_worker_waits_for_one(app, echo):
    async with app:
        handle = await echo.start("hi", id="e")
        assert (await handle.status()).status == "READY"
    async with app.worker():
        assert await handle == "hi"


async def test_parameters_that_are_called_like_options_of_start(app):
    @app.workflow
    async def job(id: str, timeout: int, tags: list[str]) -> list[str]:
        info = hf.current()
        return [id, str(timeout), *tags, "" if info.id == id else "other id"]

    async with app.worker():
        assert await job("a", 1, ["t"]) == ["a", "1", "t", "other id"]
        assert await job(id="a", timeout=1, tags=["t"]) == ["a", "1", "t", "other id"]
        assert await (await job.start("a", 1, ["t"], id="e-1")) == ["a", "1", "t", "other id"]
        assert (await job.handle("e-1").status()).id == "e-1"


async def test_a_handle_by_name(app, echo):
    async with app.worker():
        await echo.start("hi", id="e")
        assert await app.handle("echo", "e") == "hi"
        with pytest.raises(hf.ConfigurationError, match="no workflow is called 'nope' here; there are: echo"):
            app.handle("nope", "e")


async def test_what_an_execution_knows_of_itself(app):
    @app.workflow(version="v7")
    async def job() -> list[str]:
        info = hf.current()
        assert isinstance(info, hf.WorkflowInfo)
        return [info.workflow, info.id, str(info.run), info.version, info.tags["team"]]

    async with app.worker():
        handle = await job.start(id="j", tags={"team": "blue"})
        assert await handle == ["job", "j", "0", "v7", "blue"]


async def test_what_code_is_told_of_where_it_runs_is_public_and_no_more_is(app):
    def public(info):
        return sorted(name for name in dir(info) if not name.startswith("_"))

    @app.step
    async def look() -> tuple[list[str], str]:
        return public(hf.current()), repr(hf.current())

    @app.workflow
    async def job() -> list[tuple[list[str], str]]:
        return [(public(hf.current()), repr(hf.current())), await look()]

    async with app.worker():
        in_body, in_step = await (await job.start(id="j", tags={"team": "blue"}))
    of_bodies = {"id", "parent", "root", "run", "tags", "version", "workflow"}
    of_steps = {"attempt", "fence", "id", "idempotency_key", "last_heartbeat", "operation", "workflow"}
    assert in_body[0] == sorted({*of_bodies, "heartbeat", "replaying"})
    assert in_step[0] == sorted({*of_steps, "heartbeat", "replaying"})
    for names, shown in ((of_bodies, in_body[1]), (of_steps, in_step[1])):
        assert set(re.findall(r"(\w+)=", shown)) == names  # those of the root are among them
    for name in of_bodies:
        assert f"``{name}``" in hf.WorkflowInfo.__doc__
    for name in of_steps:
        assert f"``{name}``" in hf.StepInfo.__doc__


async def test_any_number_of_arguments(app):
    @app.workflow
    async def job(*numbers: int, **words: str) -> list[str]:
        return [*map(str, numbers), *[f"{name}={word}" for name, word in sorted(words.items())]]

    async with app.worker():
        assert await job(1, 2, a="x") == ["1", "2", "a=x"]
        assert await (await job.start(1, b="y", id="z")) == ["1", "b=y"]


# ── Results ─────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_waiting_for_a_result_can_be_limited_and_the_execution_goes_on(app, waits):
    async with app.worker():
        handle = await waits.start(id="w")
        with pytest.raises(
            hf.WaitTimeout, match="execution 'w' of workflow 'waits' has not ended within 5ms"
        ) as caught:
            await handle.result(timeout="5ms")
        assert isinstance(caught.value, TimeoutError)
        with pytest.raises(hf.WaitTimeout, match="has not ended within 0.005 s; it goes on"):
            await handle.result(timeout=0.005)
        await handle.signal("go", "gone")
        assert await handle.result(timeout="60s") == "gone"


async def test_asyncios_own_time_out_works_too(app, waits):
    async with app.worker():
        handle = await waits.start(id="w")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(handle, 0.005)
        await handle.signal("go", "gone")
        assert await asyncio.wait_for(handle, 5) == "gone"


async def test_many_may_wait_for_one_result(app, waits):
    async with app.worker():
        handle = await waits.start(id="w")
        waiting = [asyncio.create_task(handle.result()) for _ in range(20)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        await handle.signal("go", "gone")
        assert await asyncio.gather(*waiting[1:]) == ["gone"] * 19


async def test_nobody_is_waited_for_in_vain(app, echo):
    async with app.worker():
        handle = echo.handle("nobody")
        for call in (handle.result, handle.status, handle.history, handle.pause, handle.resume, handle.cancel,
                     handle.terminate, handle.retry):  # fmt: skip
            with pytest.raises(hf.NotFound, match="there is no execution 'nobody' of workflow 'echo'"):
                await call()
        with pytest.raises(hf.NotFound):
            await handle.fork("other")
        with pytest.raises(hf.NotFound):
            await handle.query("x")


async def test_a_client_without_a_worker_sees_the_end_too(world, app, waits):
    other = world.app("web")
    there = other.workflow(name="waits")(waits.function)
    async with app.worker(), other:
        handle = await there.start("x", id="w")
        await handle.signal("go", "gone")
        assert await handle.result(timeout="60s") == "xgone"


# ── Status, history, list ───────────────────────────────────────────────────────────────────────────────────────────


async def test_status_tells_where_it_stands(app, waits, reaches):
    began = datetime.now(UTC)
    async with app.worker():
        handle = await waits.start(id="w", tags={"team": "blue"})
        suspended = await reaches(handle, "SUSPENDED")
        assert (suspended.workflow, suspended.id, suspended.run, suspended.error) == ("waits", "w", 0, None)
        assert suspended.tags == {"team": "blue"}
        assert suspended.ended_at is None
        assert timedelta(seconds=-1) < suspended.created_at - began < timedelta(seconds=5)
        await handle.signal("go", "x")
        await handle
        completed = await handle.status()
        assert completed.status == "COMPLETED"
        assert completed.ended_at is not None
        assert completed.due_at is None
        assert completed.created_at == suspended.created_at


async def test_history_is_a_timeline_in_order(app, do, broken):
    broken.add("b")

    @app.workflow
    async def job() -> None:
        await do("a")
        await hf.sleep("1ms")
        await hf.signal("go")
        await do("b")

    async with app.worker():
        handle = await job.start(id="j")
        await handle.signal("go")
        with pytest.raises(hf.ExecutionFailed):
            await handle
        history, status = await handle.history(), await handle.status()
    found = [(event.kind, event.name, event.outcome) for event in history if event.kind != "signal"]
    assert found == [("step", "do#0", "done"), ("timer", "sleep#0", "done"), ("step", "do#1", "failed")]
    assert history[-1].error == "LookupError: b is broken"
    assert [event.at for event in history] == sorted(event.at for event in history)
    assert all(status.created_at <= event.at <= status.ended_at for event in history)
    assert all(status.created_at <= event.began <= event.at for event in history if event.kind == "step")
    assert {event.kind: event.began is None for event in history if event.kind != "step"} == {
        "timer": False,
        "signal": True,
    }


async def test_a_long_history_is_whole(app):
    @app.step
    async def step(n: int) -> int:
        return n

    @app.workflow
    async def job() -> int:
        for n in range(300):
            await step(n)
        return len(await asyncio.gather(*[step(n) for n in range(2_500)]))

    async with app.worker():
        handle = await job.start(id="j")
        assert await handle == 2_500
        assert len(await handle.history()) == 2_800


async def test_listing_by_workflow_status_time_and_tag(world, app, echo, waits, do, broken, reaches):
    broken.add("x")

    @app.workflow
    async def fails() -> None:
        await do("x")

    async with app.worker():
        await (await echo.start("a", id="e-1", tags={"team": "blue", "env": "test"}))
        await (await echo.start("a", id="e-2", tags={"team": "red"}))
        await reaches(await waits.start(id="w-1"), "SUSPENDED")
        with pytest.raises(hf.ExecutionFailed):
            await (await fails.start(id="f-1"))

        async def ids(*args, **options):
            page = await app.executions(*args, **options)
            assert page.cursor is None
            return world.listed([each.id for each in page.executions])

        assert await ids() == world.listed(["f-1", "w-1", "e-2", "e-1"])
        assert await ids("echo") == world.listed(["e-2", "e-1"])
        assert await ids(status="COMPLETED") == world.listed(["e-2", "e-1"])
        assert await ids(status="FAILED") == ["f-1"]
        assert await ids("echo", status="FAILED") == []
        assert await ids("unknown") == []
        assert await ids(tags={"team": "blue"}) == ["e-1"]
        assert await ids(tags={"team": "blue", "env": "prod"}) == []
        now = datetime.now(UTC)
        assert await ids(since=now - timedelta(minutes=1)) == world.listed(["f-1", "w-1", "e-2", "e-1"])
        assert await ids(since=now + timedelta(minutes=1)) == []
        assert await ids(until=now - timedelta(minutes=1)) == []


async def test_a_workflow_whose_name_begins_like_anothers_is_not_listed_with_it(app, echo):
    @app.workflow
    async def echoes() -> None: ...

    async with app.worker():
        await (await echo.start("a", id="e"))
        await (await echoes.start(id="s"))
        assert [each.id for each in (await app.executions("echo")).executions] == ["e"]


async def test_listing_a_page_at_a_time(world, app, echo):
    async with app.worker():
        await asyncio.gather(*[await echo.start("a", id=f"e-{n:02}", tags={"odd": str(n % 2)}) for n in range(25)])
        found, cursor, pages = [], None, 0
        while True:
            page = await app.executions(limit=10, after=cursor)
            assert len(page.executions) <= 10
            found += [each.id for each in page.executions]
            pages += 1
            if (cursor := page.cursor) is None:
                break
        assert world.listed(found) == world.listed([f"e-{n:02}" for n in reversed(range(25))])
        assert pages == 3
        first = await app.executions(tags={"odd": "1"}, limit=5)
        rest = await app.executions(tags={"odd": "1"}, limit=50, after=first.cursor)
        found = [each.id for each in (*first.executions, *rest.executions)]
        assert world.listed(found) == world.listed([f"e-{n:02}" for n in reversed(range(25)) if n % 2])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"status": "DONE"}, "no status is called 'DONE'; there are: QUEUED, READY"),
        ({"limit": 0}, "limit must be 1 to 1000, got 0"),
        ({"limit": 1_001}, "limit must be 1 to 1000"),
        ({"after": "nonsense"}, "cursor"),
        ({"since": datetime(2026, 1, 1)}, "time zone"),  # noqa: DTZ001 - that it has none is the point
    ],
)
async def test_a_listing_that_makes_no_sense_is_refused(app, echo, options, message):
    async with app.worker():
        await echo("a")
        with pytest.raises(hf.InvalidInput, match=message):
            await app.executions(**options)


async def test_after_its_retention_an_execution_is_gone_and_its_id_free(app, do, ran):
    @app.workflow(retention="500ms")
    async def job(n: int) -> int:
        await do(f"{n}")
        return n

    async with app.worker():
        first = await job.start(1, id="j")
        assert await first == 1
        await asyncio.sleep(0.55)
        for look in (first.status, first.history, first.result):
            with pytest.raises(hf.NotFound, match="there is no execution 'j' of workflow 'job'"):
                await look()
        assert (await app.executions()).executions == ()
        assert await (await job.start(2, id="j")) == 2
    assert ran == {"1": 1, "2": 1}


# ── Pause and resume ────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_paused_execution_starts_nothing_new_until_it_is_resumed(app, waits, ran, reaches):
    async with app.worker():
        handle = await waits.start(id="w")
        await reaches(handle, "SUSPENDED")
        await handle.pause()
        await handle.pause()
        await handle.signal("go", "gone")
        await asyncio.sleep(0.03)
        assert (await handle.status()).status == "PAUSED"
        assert ran == {"before": 1}
        await handle.resume()
        assert await handle == "gone"
        assert ran == {"before": 1, "after": 1}


async def test_pausing_lets_a_running_step_finish(app, ran, eventually, reaches):
    gate = asyncio.Event()

    @app.step
    async def slow() -> None:
        ran["started"] += 1
        await gate.wait()
        ran["finished"] += 1

    @app.step
    async def next_step() -> None:
        ran["next"] += 1

    @app.workflow
    async def job() -> str:
        await slow()
        await next_step()
        return "done"

    async with app.worker():
        handle = await job.start(id="j")
        await eventually(lambda: ran["started"])
        await handle.pause()
        gate.set()
        await eventually(lambda: ran["finished"])
        await asyncio.sleep(0.02)
        assert ran["next"] == 0
        assert (await handle.status()).status == "PAUSED"
        await handle.resume()
        await handle.resume()
        assert await handle == "done"
    assert ran == {"started": 1, "finished": 1, "next": 1}


async def test_a_paused_execution_stays_paused_in_another_process(app, world, waits, do, ran, reaches):
    async with app.worker():
        handle = await waits.start(id="w")
        await reaches(handle, "SUSPENDED")
        await handle.pause()
    async with app.worker():
        await handle.signal("go", "gone")
        await asyncio.sleep(0.02)
        assert (await handle.status()).status == "PAUSED"
        await handle.resume()
        assert await handle == "gone"


async def test_pausing_before_the_first_turn(app, waits, ran):
    async with app:
        handle = await waits.start(id="w")
        await handle.pause()
    async with app.worker():
        await asyncio.sleep(0.02)
        assert not ran
        await handle.resume()
        await handle.signal("go", "gone")
        assert await handle == "gone"


async def test_what_has_ended_cannot_be_paused_or_resumed(app, echo):
    async with app.worker():
        handle = await echo.start("a", id="e")
        await handle
        with pytest.raises(hf.InvalidState, match="execution 'e' of workflow 'echo' is COMPLETED"):
            await handle.pause()
        with pytest.raises(hf.InvalidState, match="is COMPLETED"):
            await handle.resume()


async def test_a_paused_execution_can_be_cancelled_or_terminated(app, waits, reaches):
    async with app.worker():
        first, second = await waits.start(id="w-1"), await waits.start(id="w-2")
        for handle in (first, second):
            await reaches(handle, "SUSPENDED")
            await handle.pause()
        await first.terminate()
        with pytest.raises(hf.ExecutionTerminated):
            await first
        await second.cancel()
        await second.resume()
        with pytest.raises(hf.ExecutionCancelled):
            await second


# ── Terminate ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_terminating_ends_it_at_once_without_clean_up(app, do, ran, reaches):
    @app.workflow
    async def job() -> None:
        try:
            await hf.signal("never")
        finally:
            await do("clean up")

    async with app.worker():
        handle = await job.start(id="j")
        await reaches(handle, "SUSPENDED")
        await handle.terminate("gone mad")
        with pytest.raises(hf.ExecutionTerminated, match="gone mad"):
            await handle.result(timeout="60s")
        assert (await handle.status()).status == "TERMINATED"
        with pytest.raises(hf.InvalidState, match="has ended as TERMINATED"):
            await handle.terminate()
    assert not ran


async def test_whoever_waits_hears_at_once_of_a_termination(app, waits, reaches):
    async with app.worker():
        handle = await waits.start(id="w")
        waiting = asyncio.create_task(handle.result())
        await reaches(handle, "SUSPENDED")
        await handle.terminate()
        async with asyncio.timeout(1):
            with pytest.raises(hf.ExecutionTerminated):
                await waiting


async def test_terminating_has_worked_although_who_lets_go_of_the_children_is_faster(app, waits, reaches, monkeypatch):
    closed, load = [], Journal.load

    async def load_late(journal):
        if not closed:
            store = app.runtime().home.store
            closed.append(Journal(store, partition_of("waits", "a"), 0, "terminated", journal.epoch + 1))
            await closed[0].load()
            await closed[0].fence()
        await load(journal)

    async with app.worker():
        handle = await waits.start(id="a")
        await reaches(handle, "SUSPENDED")
        monkeypatch.setattr(Journal, "load", load_late)
        await handle.terminate("enough")
        with pytest.raises(hf.ExecutionTerminated, match="enough"):
            await handle
    assert closed


async def test_terminating_stops_a_running_step_and_fences_its_turn(app, eventually):
    started, stopped = asyncio.Event(), []

    @app.step
    async def endless() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append(1)

    @app.workflow
    async def job() -> None:
        await endless()

    async with app.worker():
        handle = await job.start(id="j")
        await started.wait()
        await handle.terminate()
        await eventually(lambda: stopped)
        with pytest.raises(hf.ExecutionTerminated):
            await handle


# ── Retry ───────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_retry_goes_on_from_the_failed_step_after_the_repair(app, do, ran, broken):
    broken.add("b")

    @app.workflow
    async def job() -> list[str]:
        return [await do("a"), await do("b"), await do("c")]

    async with app.worker():
        handle = await job.start(id="j")
        with pytest.raises(hf.ExecutionFailed, match="b is broken"):
            await handle
        with pytest.raises(hf.ExecutionFailed, match="b is broken"):
            await handle.retry()
            await handle
        broken.clear()
        await handle.retry()
        assert await handle == ["a", "b", "c"]
        assert (await handle.status()).error is None
        with pytest.raises(hf.InvalidState, match="is COMPLETED; only FAILED"):
            await handle.retry()
    assert ran == {"a": 1, "b": 3, "c": 1}


async def test_a_retried_step_has_all_its_attempts_again(app, fast):
    attempts, broken = [], [True]

    @app.step(retry=fast)
    async def flaky() -> str:
        info = hf.current()
        assert isinstance(info, hf.StepInfo)
        attempts.append(info.attempt)
        if broken[0] or info.attempt < 3:
            raise ConnectionError("again")
        return "worked"

    @app.workflow
    async def job() -> str:
        return await flaky()

    async with app.worker():
        handle = await job.start(id="j")
        with pytest.raises(hf.ExecutionFailed):
            await handle
        broken[0] = False
        await handle.retry()
        assert await handle == "worked"
    assert attempts == [1, 2, 3, 1, 2, 3]


async def test_retry_does_not_repeat_a_step_that_finished_beside_the_failed_one(app, do, ran, broken):
    broken.add("b")

    @app.step
    async def late(what: str) -> str:
        await asyncio.sleep(0.005)
        return await do.function(what)

    @app.workflow
    async def job() -> list[str]:
        found = await asyncio.gather(do("b"), late("a"), late("c"), return_exceptions=True)
        for each in found:
            if isinstance(each, Exception):
                raise each
        return [str(each) for each in found]

    async with app.worker():
        handle = await job.start(id="j")
        with pytest.raises(hf.ExecutionFailed, match="b is broken"):
            await handle
        broken.clear()
        await handle.retry()
        assert await handle == ["b", "a", "c"]
    assert ran == {"a": 1, "b": 2, "c": 1}


async def test_retry_loses_no_signal_that_came_after_the_failure(app, do, ran, broken, eventually):
    broken.add("b")

    @app.workflow
    async def job() -> str:
        task = asyncio.create_task(do("b"))
        word = await hf.signal("go", str)
        return word + await task

    async with app.worker():
        handle = await job.start(id="j")
        await eventually(lambda: ran["b"])
        await asyncio.sleep(0.01)
        await handle.signal("go", "gone ")
        with pytest.raises(hf.ExecutionFailed, match="b is broken"):
            await handle
        broken.clear()
        await handle.retry()
        assert await handle.result(timeout="60s") == "gone b"


async def test_retry_after_a_failure_in_a_task_group(app, do, ran, broken):
    broken.add("b")

    @app.workflow
    async def job() -> str:
        await do("a")
        async with asyncio.TaskGroup() as group:
            task = group.create_task(do("b"))
        return task.result()

    async with app.worker():
        handle = await job.start(id="j")
        with pytest.raises(hf.ExecutionFailed):
            await handle
        broken.clear()
        await handle.retry()
        assert await handle == "b"
    assert ran == {"a": 1, "b": 2}


async def test_retry_after_a_failure_that_the_body_wrapped(app, do, ran, broken):
    broken.add("b")

    @app.workflow
    async def job() -> str:
        await do("a")
        try:
            return await do("b")
        except LookupError as error:
            raise RuntimeError("the order failed") from error

    async with app.worker():
        handle = await job.start(id="j")
        with pytest.raises(hf.ExecutionFailed, match="the order failed"):
            await handle
        broken.clear()
        await handle.retry()
        assert await handle == "b"
    assert ran == {"a": 1, "b": 2}


async def test_retry_with_mended_code_after_an_error_of_the_body(world):
    ran = []

    def code(app, divisor):
        @app.step
        async def total() -> int:
            ran.append(1)
            return 10

        async def broken() -> int:
            return await total() // 0

        async def mended() -> int:
            return await total() // 2

        return app.workflow(name="job")(mended if divisor else broken)

    first, second = world.app(), world.app()
    before, after = code(first, 0), code(second, 2)
    async with first.worker():
        handle = await before.start(id="j")
        with pytest.raises(hf.ExecutionFailed, match="ZeroDivisionError"):
            await handle
    async with second.worker():
        await after.handle("j").retry()
        assert await after.handle("j") == 5
    assert ran == [1]


async def test_retry_of_a_cancelled_and_of_a_timed_out_execution(app, do, ran, reaches):
    @app.workflow
    async def job() -> str:
        await do("a")
        return await hf.signal("go", str)

    async with app.worker():
        cancelled = await job.start(id="c")
        await reaches(cancelled, "SUSPENDED")
        await cancelled.cancel("by mistake")
        with pytest.raises(hf.ExecutionCancelled):
            await cancelled
        late = await job.start(id="t", timeout="1s")
        with pytest.raises(hf.ExecutionTimedOut):
            await late
        for handle in (cancelled, late):
            await handle.retry()
            await handle.signal("go", "gone")
            assert await handle == "gone"
    assert ran == {"a": 2}


async def test_what_a_saga_has_undone_cannot_be_retried(app, do, ran, broken):
    broken.add("b")

    @app.step
    async def book() -> str:
        return "booked"

    @book.undo
    async def unbook() -> None:
        ran["unbook"] += 1

    @app.workflow
    async def job() -> None:
        async with hf.saga():
            await book()
            await do("b")

    async with app.worker():
        handle = await job.start(id="j")
        with pytest.raises(hf.ExecutionFailed):
            await handle
        with pytest.raises(hf.InvalidState, match=r"was compensated \(.*book.undo#0\).*fork"):
            await handle.retry()
    assert ran["unbook"] == 1


async def test_retry_and_fork_of_a_long_journal(app, ran):
    broken = [True]

    @app.step(retry=ONCE)
    async def step(n: int) -> int:
        ran[n] += 1
        if n == 2_600 and broken[0]:
            raise LookupError("broken")
        return n

    @app.workflow
    async def job() -> int:
        total = sum(await asyncio.gather(*[step(n) for n in range(2_500)]))
        for n in range(2_500, 2_700):
            total += await step(n)
        return total

    async with app.worker():
        handle = await job.start(id="j")
        with pytest.raises(hf.ExecutionFailed):
            await handle
        broken[0] = False
        await handle.retry()
        assert await handle == sum(range(2_700))
        assert await (await handle.fork("whole")) == sum(range(2_700))
        assert await (await handle.fork("part", before="step#2650")) == sum(range(2_700))
        with pytest.raises(hf.InvalidInput, match=r"it has: 2680 others, step#2680, .*, step#2699$"):
            await handle.fork("none", before="step#1")
    assert ran[2_600] == 2
    assert {n for n, count in ran.items() if count > 1} == {2_600, *range(2_650, 2_700)}


async def test_retry_and_fork_in_a_later_run(app, ran):
    broken = [True]

    @app.step(retry=ONCE)
    async def step(what: str) -> str:
        ran[what] += 1
        if what == "2 b" and broken[0]:
            raise LookupError("broken")
        return what

    @app.workflow
    async def job(run: int, seen: list[str]) -> list[str]:
        seen = [*seen, await step(f"{run} a"), await step(f"{run} b"), await hf.signal("n", str)]
        if run < 3:
            hf.continue_as_new(run + 1, seen)
        return seen

    async with app.worker():
        handle = await job.start(0, [], id="j")
        for n in range(4):
            await handle.signal("n", f"{n} signal")
        with pytest.raises(hf.ExecutionFailed):
            await handle
        broken[0] = False
        forked = await handle.fork("f", before="step#1")
        await handle.retry()
        expected = [f"{run} {what}" for run in range(4) for what in ("a", "b", "signal")]
        assert await handle.result("60s") == expected
        assert await forked.result("60s") == expected
    assert ran == {"0 a": 1, "0 b": 1, "1 a": 1, "1 b": 1, "2 a": 1, "2 b": 3, "3 a": 2, "3 b": 2}


async def test_a_retry_while_it_runs_is_refused(app, waits, reaches):
    async with app.worker():
        handle = await waits.start(id="w")
        await reaches(handle, "SUSPENDED")
        with pytest.raises(hf.InvalidState, match="is SUSPENDED"):
            await handle.retry()


# ── Fork ────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_fork_shares_the_journal_up_to_a_step(app, do, ran):
    @app.workflow
    async def job(word: str) -> list[str]:
        return [word, await do("a"), await do("b"), await do("c")]

    async with app.worker():
        handle = await job.start("w", id="j")
        await handle
        forked = await handle.fork("j-2", before="do#1")
        assert await forked == ["w", "a", "b", "c"]
        assert ran == {"a": 1, "b": 2, "c": 2}
        assert await handle == ["w", "a", "b", "c"]
        whole = await handle.fork("j-3")
        assert await whole == ["w", "a", "b", "c"]
        assert ran == {"a": 1, "b": 2, "c": 2}


async def test_a_fork_of_what_waits_waits_for_itself(app, waits, ran, reaches):
    async with app.worker():
        handle = await waits.start("x ", id="w")
        await reaches(handle, "SUSPENDED")
        forked = await handle.fork("w-2")
        await forked.signal("go", "forked")
        assert await forked == "x forked"
        await handle.signal("go", "gone")
        assert await handle == "x gone"
    assert ran == {"before": 1, "after": 2}


async def test_a_fork_repeats_the_chances_of_the_original(app, do):
    seen = []

    @app.step
    async def keep(value: str, token: str) -> None:
        seen.append(value)

    @app.workflow
    async def job() -> str:
        mine = str(hf.uuid())
        await keep(mine, hf.callback().token)
        await do("a")
        return mine

    async with app.worker():
        handle = await job.start(id="j")
        mine = await handle
        assert await (await handle.fork("j-2", before="do#0")) == mine
    assert seen == [mine]


async def test_a_fork_draws_its_own_chances_behind_what_it_shares(app, do):
    made = []

    @app.step
    async def create(uuid: str) -> None:
        made.append(uuid)

    @app.workflow
    async def job() -> str:
        shared = str(hf.uuid())
        await do(shared)
        await create(str(hf.uuid()))
        return shared

    async with app.worker():
        handle = await job.start(id="j")
        shared = await handle
        forked = await handle.fork("j-2", before="create#0")
        assert await forked == shared
        assert await (await forked.fork("j-3", before="create#0")) == shared
        assert await (await handle.fork("j-4", before="do#0")) != shared
    assert len(set(made)) == 4


async def test_a_fork_replays_its_own_chances(world, eventually, reaches):
    made = []

    def code(app):
        @app.step
        async def create(uuid: str) -> str:
            made.append(uuid)
            return uuid

        @app.workflow
        async def job() -> list[str]:
            first = await create(str(hf.uuid()))
            second = await create(str(hf.uuid()))
            await hf.signal("go")
            return [first, second, str(hf.uuid())]

        return job

    first, second = world.app(), world.app()
    before, after = code(first), code(second)
    async with first.worker():
        handle = await before.start(id="j")
        await eventually(lambda: len(made) == 2)
        await handle.signal("go")
        original = await handle
        await reaches(await handle.fork("j-2", before="create#1"), "SUSPENDED")
    async with second.worker():
        forked = after.handle("j-2")
        await forked.signal("go")
        assert (await forked.result("60s"))[:2] == [original[0], made[-1]]
    assert len(made) == len(set(made)) == 3


async def test_a_fork_before_an_at_most_once_step_runs_it(app, ran):
    @app.step(at_most_once=True)
    async def launch() -> str:
        ran["launch"] += 1
        return "launched"

    @app.workflow
    async def job() -> str:
        return await launch()

    async with app.worker():
        handle = await job.start(id="j")
        await handle
        assert await (await handle.fork("j-2", before="launch#0")) == "launched"
    assert ran == {"launch": 2}


async def test_forks_that_cannot_be(app, do):
    @app.workflow
    async def job() -> str:
        return await do("a")

    async with app.worker():
        handle = await job.start(id="j")
        await handle
        with pytest.raises(hf.InvalidInput, match=r"has no finished operation 'b#0'; it has: do#0"):
            await handle.fork("j-2", before="b#0")
        with pytest.raises(hf.InvalidState, match="execution 'j' of workflow 'job' is there already"):
            await handle.fork("j")
        with pytest.raises(hf.InvalidInput, match="an execution's id must have 1 to 500"):
            await handle.fork("")


async def test_a_subscriber_that_raises_disturbs_nothing_and_is_logged_once(app, waits, errors_expected):
    heard = []
    app.telemetry.subscribe(lambda event, fields: 1 // 0)
    app.telemetry.subscribe(lambda event, fields: heard.append(event))
    async with app.worker():
        handle = await waits.start(id="w")
        await asyncio.sleep(0.01)
        await handle.signal("go", "gone")
        assert await handle.result("60s") == "gone"
        await (await waits.start(id="w-2")).cancel()
    assert len(heard) > 1
    assert Counter(heard) == app.telemetry.counts
    (report,) = (each for each in errors_expected.records if each.name == "holdfast")
    assert "the telemetry subscriber <function" in report.getMessage()
    assert isinstance(report.exc_info[1], ZeroDivisionError)


# ── Several apps on one home ────────────────────────────────────────────────────────────────────────────────────────


async def test_two_apps_in_one_process_share_the_work(world):
    ran = Counter()

    def code(app):
        @app.step
        async def step(n: int) -> int:
            ran[n] += 1
            await asyncio.sleep(0)
            return n

        @app.workflow
        async def job(n: int) -> int:
            return await step(n) + await step(n)

        return job

    first, second = world.app("one"), world.app("two")
    here, there = code(first), code(second)
    async with first.worker(), second.worker():
        handles = [await (here if n % 2 else there).start(n, id=f"j-{n}") for n in range(20)]
        assert await asyncio.gather(*handles) == [2 * n for n in range(20)]
    assert ran == dict.fromkeys(range(20), 2)


async def test_two_apps_start_the_same_id_at_once(world):
    ran = []

    def code(app):
        @app.step
        async def step() -> int:
            ran.append(1)
            return 1

        @app.workflow
        async def job() -> int:
            return await step()

        return job

    first, second = world.app("one"), world.app("two")
    here, there = code(first), code(second)
    async with first.worker(), second.worker():
        one, two = await asyncio.gather(here.start(id="j"), there.start(id="j"))
        assert await asyncio.gather(one, two) == [1, 1]
    assert ran == [1]


async def test_one_app_opened_twice_one_after_the_other(app, echo):
    for n in range(3):
        async with app.worker():
            assert await echo(f"{n}") == f"{n}"


async def test_one_app_opened_by_many_tasks_at_once(app, echo):
    async def use(n: int) -> str:
        async with app:
            return (await echo.start(f"{n}", id=f"e-{n}")).id

    ids = await asyncio.gather(*[use(n) for n in range(10)])
    async with app.worker():
        assert await asyncio.gather(*[echo.handle(id) for id in ids]) == [f"{n}" for n in range(10)]


async def test_one_app_opened_twice_at_once_is_open_until_both_are_done(app, echo):
    async with app.worker():
        async with app:
            assert await echo("inner") == "inner"
        assert await echo("outer") == "outer"


async def test_a_worker_restarted_on_the_same_home_continues_everything(world, ran):
    def code(app):
        @app.step
        async def count(what: str) -> None:
            ran[what] += 1

        @app.workflow
        async def job(n: int) -> int:
            await count(f"{n} before")
            await hf.signal("go")
            await hf.sleep("2ms")
            await count(f"{n} after")
            return n

        return job

    handles = []
    first = world.app()
    job = code(first)
    async with first.worker():
        for n in range(10):
            handles.append(await job.start(n, id=f"j-{n}"))
    async with first.worker():
        for handle in handles:
            await handle.signal("go")
    fresh = world.app()
    again = code(fresh)
    async with fresh.worker():
        assert await asyncio.gather(*[again.handle(f"j-{n}") for n in range(10)]) == list(range(10))
    assert set(ran.values()) == {1}
    assert len(ran) == 20


EVERY_VERB = {
    "result": lambda handle: handle.result(),
    "status": lambda handle: handle.status(),
    "history": lambda handle: handle.history(),
    "query": lambda handle: handle.query("any"),
    "signal": lambda handle: handle.signal("any"),
    "cancel": lambda handle: handle.cancel(),
    "terminate": lambda handle: handle.terminate(),
    "pause": lambda handle: handle.pause(),
    "resume": lambda handle: handle.resume(),
    "move": lambda handle: handle.move(),
    "retry": lambda handle: handle.retry(),
    "retry_now": lambda handle: handle.retry_now(),
    "fork": lambda handle: handle.fork("another"),
}


@pytest.mark.parametrize("verb", EVERY_VERB)
async def test_what_does_not_exist_is_not_found(app, do, broken, verb):
    """Neither does what has expired, although nobody has purged it yet."""
    broken.add("work")

    @app.workflow(versions="pinned", retention="1ms")
    async def job() -> str:
        return await do("work")

    async with app.worker():
        with pytest.raises(hf.NotFound, match="there is no execution 'nobody' of workflow 'job'"):
            await EVERY_VERB[verb](job.handle("nobody"))
        handle = await job.start(id="expired")
        with pytest.raises(hf.HoldfastError):  # it fails, or has expired by the time one looks
            await handle
        await asyncio.sleep(0.01)
        with pytest.raises(hf.NotFound, match="there is no execution 'expired' of workflow 'job'"):
            await EVERY_VERB[verb](handle)
