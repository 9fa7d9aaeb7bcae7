"""Delayed starts: durable, controllable before they begin, and never early (G1, G8, G11)."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

import holdfast as hf


@pytest.fixture
def began():
    """When the bodies of these tests began."""
    return []


@pytest.fixture
def job(app, began):
    @app.step(name="note")
    async def note() -> None: ...

    @app.workflow
    async def job(word: str = "") -> str:
        began.append(hf.now())
        await note()
        return word

    return job


def soon(ms=300):
    """A moment from now, in whole milliseconds, as Holdfast counts."""
    now = datetime.now(UTC)
    return now.replace(microsecond=now.microsecond // 1000 * 1000) + timedelta(milliseconds=ms)


async def test_the_body_begins_after_the_delay_and_not_before(app, job, began):
    async with app.worker():
        due = soon()
        handle = await job.start("a", delay="300ms")
        status = await handle.status()
        assert status.due_at is not None
        assert status.due_at >= due
        assert status.status == "READY"
        assert await handle == "a"
    assert began[0] >= due


async def test_at_a_moment(app, job, began):
    async with app.worker():
        due = soon()
        handle = await job.start("a", at=due)
        assert (await handle.status()).due_at - due < timedelta(milliseconds=1)
        assert await handle == "a"
    assert began[0] >= due


async def test_a_moment_that_has_passed_is_now(app, job):
    async with app.worker():
        assert await (await job.start("a", at=soon(-10_000))) == "a"


async def test_it_is_durable_and_begins_on_another_worker(app, world, job, began):
    async with app:
        due = soon()
        handle = await job.start("a", delay="300ms", id="j")
    async with app.worker():
        assert await handle == "a"
    assert began[0] >= due


async def test_a_client_without_a_worker_has_it_begun_in_time(world):
    app, other = (world.app(limits=replace(world.limits, sweep_seconds=1_000.0)) for _ in range(2))

    @app.workflow
    async def job(word: str = "") -> str:
        return word

    @other.workflow(name="job")
    async def same(word: str = "") -> str: ...

    async with app.worker(), other:
        handle = await same.start("a", delay="300ms")
        async with asyncio.timeout(60):  # the next sweep would come too late
            assert await job.handle(handle.id) == "a"


@pytest.mark.parametrize("disturb", ["signal", "resume", "query"])
async def test_whatever_disturbs_it_before_does_not_begin_it(app, job, began, disturb):
    async with app.worker():
        due = soon(400)
        handle = await job.start("a", at=due)
        match disturb:
            case "signal":
                await handle.signal("any")
            case "resume":
                await handle.pause()
                await handle.resume()
            case "query":
                with pytest.raises(hf.UnknownName):
                    await handle.query("any")
        assert await handle == "a"
    assert len(began) == 1
    assert began[0] >= due


async def test_a_signal_that_came_before_is_there(app):
    @app.workflow
    async def job() -> int:
        return await hf.signal("n", int)

    async with app.worker():
        handle = await job.start(delay="200ms")
        await handle.signal("n", 7)
        assert await handle == 7


@pytest.mark.parametrize("worker", [True, False])
async def test_cancelled_before_it_begins_it_runs_no_body(app, job, began, worker):
    async with app.worker() if worker else app:
        handle = await job.start("a", delay="1h")
        await handle.cancel("not needed")
    async with app.worker():
        with pytest.raises(hf.ExecutionCancelled, match="not needed"):
            await handle
    assert began == []


async def test_terminated_before_it_begins_it_runs_no_body(app, job, began):
    async with app.worker():
        handle = await job.start("a", delay="1s")
        await handle.terminate()
        with pytest.raises(hf.ExecutionTerminated):
            await handle
        await asyncio.sleep(1.1)  # it would have been due
    assert began == []


async def test_its_timeout_counts_from_when_it_is_due(app):
    @app.workflow
    async def job() -> str:
        await hf.sleep("1ms")
        return "in time"

    @app.workflow
    async def long_job() -> None:
        await hf.sleep("1h")

    async with app.worker():
        assert await (await job.start(delay="1500ms", timeout="1400ms")) == "in time"
        with pytest.raises(hf.ExecutionTimedOut):
            await (await long_job.start(delay="100ms", timeout="100ms"))


async def test_the_same_id_and_input_is_the_same_execution_whatever_the_delay(app, job, began):
    async with app.worker():
        handle = await job.start("a", id="j", delay="200ms")
        first = await handle.status()
        again = await job.start("a", id="j", delay="1h")
        assert await again.status() == first
        with pytest.raises(hf.IdempotencyMismatch):
            await job.start("b", id="j", delay="200ms")
        assert await (await job.start("a", id="j")) == "a"
    assert len(began) == 1


async def test_a_new_run_of_it_begins_at_once(app):
    @app.workflow
    async def job(left: int) -> int:
        if left:
            hf.continue_as_new(left - 1)
        return left

    async with app.worker():
        handle = await job.start(2, delay="100ms")
        assert await handle == 0
        assert [event.name for event in await handle.history()] == []


async def test_started_by_a_body(app, job, began):
    @app.workflow
    async def starter() -> str:
        return (await job.start("a", delay="200ms")).id

    async with app.worker():
        due = soon(200)
        assert await job.handle(await starter()) == "a"
    assert began[0] >= due


async def test_retried_it_has_its_whole_timeout_again(app, reaches):
    ran = []

    @app.step(retry=hf.Retry(max_attempts=1))
    async def work() -> None:
        ran.append("work")
        if len(ran) == 1:
            raise LookupError("not yet")

    @app.workflow
    async def job() -> str:
        await work()
        await hf.sleep("1h")
        return ""

    async with app.worker():
        handle = await job.start(delay="1s", timeout="1s")
        with pytest.raises(hf.ExecutionFailed):
            await handle
        await handle.retry()
        retried = datetime.now(UTC)
        status = await reaches(handle, "SUSPENDED")
        assert status.due_at <= retried + timedelta(milliseconds=1_000)
        with pytest.raises(hf.ExecutionTimedOut):
            await handle


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"delay": "5m", "at": datetime.now(UTC)}, "not both"),
        ({"delay": "soon"}, "is no duration"),
        ({"delay": -1}, "a duration must be"),
        ({"at": datetime(2030, 1, 1)}, "with its time zone"),  # noqa: DTZ001 - that is the mistake
        ({"at": "2030-01-01"}, "with its time zone"),
        ({"at": datetime(9999, 12, 31, tzinfo=UTC)}, "begins within 3660 days"),
    ],
)
async def test_what_makes_no_sense_is_refused(app, job, options, complaint):
    async with app:
        with pytest.raises(hf.InvalidInput, match=complaint):
            await job.start("a", **options)
        assert (await app.executions()).executions == ()
