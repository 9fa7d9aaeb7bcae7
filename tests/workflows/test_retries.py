"""Retry: what had finished is not done again, wherever the failure was kept, wrapped or raised (G2)."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

import holdfast as hf
from holdfast.failure import describe
from holdfast.replay.entries import (
    Aside,
    Cancelled,
    Done,
    Failed,
    Intended,
    Received,
    Renewed,
    Reopened,
    Resumed,
    Tried,
    Truncated,
    standing,
)
from holdfast.workflows.finding import head_of
from holdfast.workflows.record import decode_record, partition_of, workflow_of
from holdfast.workflows.retry_execution import Retrier

ONCE = hf.Retry(max_attempts=1)
BOOM = describe(LookupError("boom"))


@pytest.fixture
def keys():
    """The idempotency keys of each step's attempts, by what it did."""
    return {}


@pytest.fixture
def do(app, ran, broken, keys):
    @app.step(name="do", retry=ONCE)
    async def do(what: str, delay_ms: int = 0) -> str:
        await asyncio.sleep(delay_ms / 1000)
        ran[what] += 1
        keys.setdefault(what, []).append(hf.current().idempotency_key)
        if what in broken:
            raise LookupError("down")
        return what

    return do


async def mended(handle, broken):
    """Fail once, mend the cause, retry, and answer the result."""
    with pytest.raises(hf.ExecutionError):
        await handle
    broken.clear()
    await handle.retry()
    return await handle.result("60s")


async def test_what_came_after_an_error_that_was_kept_is_not_done_again(app, do, ran, broken):
    broken.add("a")

    @app.workflow
    async def job() -> str:
        try:
            kept = await do("a")
        except LookupError as error:
            kept = error
        await do("b")
        await do("c")
        if isinstance(kept, Exception):
            raise kept
        return kept

    async with app.worker():
        assert await mended(await job.start(id="j"), broken) == "a"
    assert ran == {"a": 2, "b": 1, "c": 1}


async def test_an_error_is_known_by_itself_and_not_by_its_text(app, do, ran, broken):
    broken.update({"a", "handled"})

    @app.workflow
    async def job() -> list[str]:
        try:
            kept = await do("a")
        except LookupError as error:
            kept = error
        try:
            other = await do("handled")
        except LookupError:
            other = await do("instead")
        if isinstance(kept, Exception):
            raise kept
        return [kept, other]

    async with app.worker():
        assert await mended(await job.start(id="j"), broken) == ["a", "instead"]
    assert ran == {"a": 2, "handled": 1, "instead": 1}


async def test_those_that_failed_beside_it_of_the_same_cause_are_tried_again_with_it(app, do, ran, broken):
    broken.update({"a", "b"})

    @app.workflow
    async def job() -> list[str]:
        found = await asyncio.gather(do("a"), do("b", 5), do("c", 10), return_exceptions=True)
        await do("d")
        for each in found:
            if isinstance(each, Exception):
                raise each
        return [str(each) for each in found]

    async with app.worker():
        assert await mended(await job.start(id="j"), broken) == ["a", "b", "c"]
    assert ran == {"a": 2, "b": 2, "c": 1, "d": 1}


async def test_all_errors_of_a_group_are_tried_again(app, do, ran, broken):
    broken.update({"0", "2"})

    @app.workflow
    async def job() -> int:
        errors = []
        for n in range(4):
            try:
                await do(str(n))
            except LookupError as error:
                errors.append(error)
        if errors:
            raise ExceptionGroup("some failed", errors)
        return 4

    async with app.worker():
        assert await mended(await job.start(id="j"), broken) == 4
    assert ran == {"0": 2, "1": 1, "2": 2, "3": 1}


async def test_an_error_of_the_body_takes_nothing_back(app, do, ran):
    wrong = [True]

    @app.workflow
    async def job() -> str:
        await do("a")
        if wrong[0]:
            raise ValueError("a mistake in the body")
        return await do("b")

    async with app.worker():
        handle = await job.start(id="j")
        with pytest.raises(hf.ExecutionFailed):
            await handle
        wrong.clear()
        wrong.append(False)
        await handle.retry()
        assert await handle.result("60s") == "b"
    assert ran == {"a": 1, "b": 1}


async def test_a_clean_up_that_has_run_is_not_run_again(app, do, ran, broken):
    broken.add("a")

    @app.workflow
    async def job() -> str:
        try:
            return await do("a")
        finally:
            await do("cleaned")

    async with app.worker():
        assert await mended(await job.start(id="j"), broken) == "a"
    assert ran == {"a": 2, "cleaned": 1}


async def test_a_retry_of_a_retry_keeps_what_both_have_finished(app, do, ran, broken):
    broken.update({"a", "b"})

    @app.workflow
    async def job() -> list[str]:
        kept = []
        for what in ("a", "b"):
            try:
                kept.append(await do(what))
            except LookupError as error:
                kept.append(error)
            await do(f"after {what}")
        for each in kept:
            if isinstance(each, Exception):
                raise each
        return kept

    async with app.worker():
        handle = await job.start(id="j")
        for mend in ("a", "b"):
            with pytest.raises(hf.ExecutionFailed):
                await handle
            broken.remove(mend)
            await handle.retry()
        assert await handle.result("60s") == ["a", "b"]
    assert ran == {"a": 2, "b": 2, "after a": 1, "after b": 1}


async def test_a_retried_execution_replays_in_another_process(world):
    ran, broken = Counter(), {"a"}

    def code(app):
        @app.step(retry=ONCE)
        async def do(what: str) -> str:
            ran[what] += 1
            if what in broken:
                raise LookupError("down")
            return what

        @app.workflow
        async def job() -> list[str]:
            found = await asyncio.gather(do("a"), do("b"), return_exceptions=True)
            after = await do("c")
            await hf.signal("go")
            if isinstance(found[0], Exception):
                raise found[0]
            return [*found, after, await do("d")]

        return job

    first, second = world.app(), world.app()
    before, after = code(first), code(second)
    async with first.worker():
        handle = await before.start(id="j")
        await handle.signal("go")
        with pytest.raises(hf.ExecutionFailed):
            await handle
        broken.clear()
        await handle.retry()
        assert await handle.result("60s") == ["a", "b", "c", "d"]
    async with second.worker():
        forked = await after.handle("j").fork("k")
        assert await forked.result("60s") == ["a", "b", "c", "d"]
    assert ran == {"a": 2, "b": 1, "c": 1, "d": 1}


async def test_a_step_with_other_arguments_is_another_step_under_another_key(app, do, ran, broken, keys):
    broken.add("price")

    @app.workflow
    async def job() -> str:
        try:
            kept = await do("price")
        except LookupError as error:
            kept = error
        paid = await do("charged 5" if isinstance(kept, Exception) else "charged 7")
        if isinstance(kept, Exception):
            raise kept
        return paid

    async with app.worker():
        assert await mended(await job.start(id="j"), broken) == "charged 7"
    assert ran == {"price": 2, "charged 5": 1, "charged 7": 1}
    assert len(set(keys["price"])) == 1
    assert set(keys["charged 5"]).isdisjoint(keys["charged 7"])


@pytest.mark.parametrize("again", [None, "failed", "fine"])
async def test_an_at_most_once_step_of_the_clean_up_is_in_the_way_of_nothing(app, do, ran, broken, again):
    @app.step(at_most_once=True)
    async def note(what: str) -> str:
        ran[what] += 1
        return what

    @app.workflow
    async def job() -> str | None:
        try:
            await do("price")
        except LookupError:
            await note("failed")
            raise
        return None if again is None else await note(again)

    broken.add("price")
    async with app.worker():
        assert await mended(await job.start(id="j"), broken) == again
    assert ran == {"price": 2, "failed": 1} | ({"fine": 1} if again == "fine" else {})


async def test_all_requests_to_cancel_that_ended_it_are_taken_back(app, do, ran, reaches):
    @app.workflow
    async def job() -> str:
        try:
            return await hf.signal("go", str)
        finally:
            await do("clean up", 50)

    async with app.worker():
        handle = await job.start(id="j")
        await reaches(handle, "SUSPENDED")
        await handle.cancel("once")
        await handle.cancel("twice")
        with pytest.raises(hf.ExecutionCancelled, match="once"):
            await handle.result("60s")
        assert [each.kind for each in await handle.history()].count("cancel") == 2
        await handle.retry()
        await handle.signal("go", "went on")
        assert await handle.result("60s") == "went on"


async def test_an_execution_that_was_cancelled_twice_is_retried_without_its_code_too(world, reaches):
    app, other = world.app(), world.app()

    @app.workflow
    async def job() -> str:
        try:
            return await hf.signal("go", str)
        finally:
            await hf.sleep("20ms")

    async with app.worker():
        handle = await job.start(id="j")
        await reaches(handle, "SUSPENDED")
        await handle.cancel("once")
        await handle.cancel("twice")
        with pytest.raises(hf.ExecutionCancelled, match="once"):
            await handle.result("60s")
    async with other:
        runtime = other.runtime()
        await Retrier(runtime.home, None, runtime.registry, runtime.clock).retry(partition_of("job", "j"))
    assert "job" not in runtime.registry.workflows


async def test_an_at_most_once_step_whose_outcome_nobody_knows_is_not_run_again(app, do, ran, broken, eventually):
    broken.add("a")
    started = asyncio.Event()

    @app.step(at_most_once=True)
    async def launch() -> str:
        ran["launch"] += 1
        started.set()
        await asyncio.sleep(60)
        return "launched"

    @app.step(name="trigger", retry=ONCE)
    async def trigger() -> None:
        await started.wait()
        if broken:
            raise LookupError("down")

    @app.workflow
    async def job() -> str:
        task = asyncio.create_task(launch())
        await trigger()
        return await task

    async with app.worker():
        handle = await job.start(id="j")
        with pytest.raises(hf.ExecutionFailed, match="down"):
            await handle
        broken.clear()
        await handle.retry()
        with pytest.raises(hf.ExecutionFailed, match="StepInterrupted"):
            await handle.result("60s")
    assert ran["launch"] == 1


async def test_the_time_of_a_retried_execution_is_its_own_again_however_often(app, world):
    @app.workflow(timeout="200ms")
    async def job() -> str:
        return await hf.signal("go", str)

    async with app.worker():
        handle = await job.start(id="j")
        for _ in range(3):
            with pytest.raises(hf.ExecutionTimedOut):
                await handle
            await handle.retry()
            record = await _record(app, handle)
            assert record.deadline_at - record.timed_from == 200


async def _record(app, handle):
    return decode_record((await head_of(app.runtime(), partition_of(handle.workflow, handle.id))).body)


async def test_the_timer_that_ended_it_is_taken_back(app, do, ran):
    @app.workflow
    async def job() -> str:
        await do("a")
        async with asyncio.timeout(0.05):
            return await hf.signal("go", str)

    async with app.worker():
        handle = await job.start(id="j")
        with pytest.raises(hf.ExecutionFailed, match="TimeoutError"):
            await handle
        assert [event.kind for event in await handle.history()] == ["step", "timer"]
    async with app:
        await handle.retry()
        assert [event.kind for event in await handle.history()] == ["step"]
    assert ran == {"a": 1}


# ── Children ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def child(app, do):
    @app.workflow
    async def child(word: str = "c") -> str:
        await do(f"{word} begins")
        await hf.signal("go")
        return await do(f"{word} ends")

    return child


async def only(app, workflow):
    """A handle on the only execution of a workflow."""
    (status,) = (await app.executions(workflow=workflow.name)).executions
    return workflow.handle(status.id)


async def test_a_child_that_the_failure_cancelled_goes_on(app, do, child, ran, broken, reaches):
    broken.add("a")

    @app.workflow
    async def job() -> list[str]:
        return list(await asyncio.gather(child(), do("a", 50)))

    async with app.worker():
        handle = await job.start(id="j")
        with pytest.raises(hf.ExecutionFailed):
            await handle
        await reaches(await only(app, child), "CANCELLED")
        broken.clear()
        await handle.retry()
        await reaches(await only(app, child), "SUSPENDED")
        await (await only(app, child)).signal("go")
        assert await handle.result("60s") == ["c ends", "a"]
    assert ran == {"a": 2, "c begins": 1, "c ends": 1}


async def test_a_child_that_is_still_being_cancelled_goes_on_when_that_is_done(app, do, ran, broken, reaches):
    broken.add("a")
    cleaning, clean = asyncio.Event(), asyncio.Event()

    @app.step
    async def clean_up() -> None:
        ran["cleaned"] += 1
        cleaning.set()
        await clean.wait()

    @app.workflow
    async def child() -> str:
        try:
            return await hf.signal("go", str)
        finally:
            await clean_up()

    @app.workflow
    async def job() -> list[str]:
        return list(await asyncio.gather(child(), do("a", 50)))

    async with app.worker():
        handle = await job.start(id="j")
        with pytest.raises(hf.ExecutionFailed):
            await handle
        await cleaning.wait()
        broken.clear()
        await handle.retry()
        await reaches(handle, "SUSPENDED")
        clean.set()
        under = await only(app, child)
        await reaches(under, "SUSPENDED")
        await under.signal("go", "gone")
        assert await handle.result("60s") == ["gone", "a"]
    assert ran == {"a": 2, "cleaned": 1}


async def test_a_child_that_failed_is_retried_with_its_parent(app, do, ran, broken):
    broken.add("b")

    @app.workflow
    async def child() -> str:
        return await do("a") + await do("b")

    @app.workflow
    async def middle() -> str:
        return await do("m") + await child()

    @app.workflow
    async def job() -> str:
        return await do("j") + await middle()

    async with app.worker():
        assert await mended(await job.start(id="j"), broken) == "jmab"
    assert ran == {"j": 1, "m": 1, "a": 1, "b": 2}


async def test_a_child_that_somebody_else_retries_at_the_same_time_is_retried_once(app, do, ran, broken, monkeypatch):
    broken.add("b")

    @app.workflow
    async def child() -> str:
        return await do("a") + await do("b")

    @app.workflow
    async def job() -> str:
        return await do("j") + await child()

    retry = Retrier.retry

    async def retry_just_behind_another(retrier, partition, request=""):
        if workflow_of(partition) == "child":
            await retry(retrier, partition, request)
        await retry(retrier, partition, request)

    monkeypatch.setattr(Retrier, "retry", retry_just_behind_another)
    async with app.worker():
        assert await mended(await job.start(id="j"), broken) == "jab"
    assert ran == {"j": 1, "a": 1, "b": 2}


async def test_a_child_that_has_undone_its_work_is_started_anew(app, do, ran, broken, keys):
    broken.add("pay")

    @app.step
    async def book() -> str:
        ran["book"] += 1
        keys.setdefault("book", []).append(hf.current().idempotency_key)
        return "booked"

    @book.undo
    async def unbook() -> None:
        ran["unbook"] += 1

    @app.workflow
    async def child() -> str:
        async with hf.saga():
            return await book() + await do("pay")

    @app.workflow
    async def job() -> str:
        return await do("a") + await child()

    async with app.worker():
        assert await mended(await job.start(id="j"), broken) == "abookedpay"
        assert len((await app.executions(workflow="child")).executions) == 2
    assert ran == {"a": 1, "book": 2, "unbook": 1, "pay": 2}
    assert len(set(keys["book"])) == 2


async def test_a_child_that_somebody_cancelled_stays_so_until_its_parent_is_retried(app, do, child, ran, reaches):
    @app.workflow
    async def job() -> str:
        return await do("a") + await child()

    async with app.worker():
        handle = await job.start(id="j")
        await reaches(handle, "SUSPENDED")
        under = await only(app, child)
        await under.cancel("by hand")
        with pytest.raises(hf.ExecutionFailed, match="ended as CANCELLED: by hand"):
            await handle.result("60s")
        await handle.retry()
        await under.signal("go")
        assert await handle.result("60s") == "ac ends"
    assert ran == {"a": 1, "c begins": 1, "c ends": 1}


async def test_what_is_awaited_by_handle_is_not_retried_by_who_waits(app, do, ran, broken):
    broken.add("a")

    @app.workflow
    async def other() -> str:
        return await do("a")

    @app.workflow
    async def job() -> str:
        return await other.handle("o")

    async with app.worker():
        theirs = await other.start(id="o")
        handle = await job.start(id="j")
        with pytest.raises(hf.ExecutionFailed):
            await handle
        broken.clear()
        await handle.retry()
        with pytest.raises(hf.ExecutionFailed, match="other 'o' ended as FAILED"):
            await handle.result("60s")
        await theirs.retry()
        assert await theirs == "a"
        await handle.retry()
        assert await handle.result("60s") == "a"


# ── What stands in the journal ──────────────────────────────────────────────────────────────────────────────────────


def test_what_stands_after_a_retry():
    before, beside, later = Done("a#0", 1, "step"), Tried("f#0", 2, 1, BOOM, 3), Done("b#0", 5, "step")
    word, timer = Received("1", "go", 6), Done("timer#0", 7, "timer")
    intent, stop = Intended("c#0", 8), Cancelled(9)
    stands = standing(
        [before, beside, Failed("f#0", 4, "step", BOOM), later, word, timer, intent, stop, Reopened(2, 10, ("f#0",))]
    )
    assert stands == [before, Aside(later), word, intent, Resumed(0)]
    again = Done("b#0", 12, "step")
    assert standing([*stands, again]) == [before, word, intent, Resumed(0), again]
    assert standing([*stands, Renewed("b#0", 11)]) == [before, word, intent, Resumed(0), Renewed("b#0", 11)]


def test_what_stands_goes_through_unchanged():
    entries = [Failed("f#0", 4, "step", BOOM), Done("b#0", 5, "step"), Reopened(0, 10, ("f#0",), ("f#0",))]
    stands = standing(entries)
    assert stands == [Aside(entries[1]), Renewed("f#0", 10), Resumed(0)]
    assert standing(stands) == stands


def test_a_retry_of_the_old_format_is_read_as_it_was_meant():
    kept = [Done("a#0", 1, "step"), Tried("f#0", 2, 1, BOOM, 3)]
    entries = [*kept, Failed("f#0", 4, "step", BOOM), Done("b#0", 5, "step"), Truncated(2, 6, "f#0")]
    assert standing(entries) == kept[:1]
