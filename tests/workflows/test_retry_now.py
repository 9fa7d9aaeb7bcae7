"""Retry now: the steps that wait for their next attempts make them at once (G1, G2)."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

import holdfast as hf

IN_AN_HOUR = hf.Retry(max_attempts=3, initial="1h", backoff=1, jitter=hf.Jitter.NONE)


@pytest.fixture
def down():
    """The names of the services that fail now."""
    return set()


@pytest.fixture
def call(app, ran, down):
    @app.step(name="call", retry=IN_AN_HOUR)
    async def call(service: str) -> str:
        ran[service] += 1
        if service in down:
            raise ConnectionError(f"{service} is down")
        return f"{service} {hf.current().attempt}"

    return call


@pytest.fixture
def job(app, call):
    @app.workflow
    async def job(services: list[str]) -> list[str]:
        return await asyncio.gather(*(call(service) for service in services))

    return job


def tried(ran, eventually, counts):
    return eventually(lambda: ran == counts)


async def in_back_off(handle, count):
    return sum(event.outcome == "retrying" for event in await handle.history()) == count


async def test_steps_in_back_off_make_their_next_attempts_at_once(app, job, ran, down, eventually):
    down |= {"bank", "shop"}
    async with app.worker():
        handle = await job.start(["bank", "shop", "post"], id="j")
        await eventually(lambda: in_back_off(handle, 2))
        down.clear()
        await handle.retry_now()
        assert await handle == ["bank 2", "shop 2", "post 1"]
    assert ran == {"bank": 2, "shop": 2, "post": 1}
    outcomes = Counter(event.outcome for event in await history_of(app, handle))
    assert outcomes == {"retrying": 2, "retry now": 2, "done": 3}


async def history_of(app, handle):
    async with app:
        return await handle.history()


async def test_asked_twice_it_skips_one_pause_only(app, job, ran, down, eventually):
    down.add("bank")
    async with app.worker():
        handle = await job.start(["bank"], id="j")
        await eventually(lambda: in_back_off(handle, 1))
    async with app:  # nobody works: both requests wait together
        await handle.retry_now()
        await handle.retry_now()
    async with app.worker():
        await eventually(lambda: in_back_off(handle, 2))
        await handle.signal("any")
        await eventually(lambda: received(handle))
        assert ran == {"bank": 2}
        assert not await in_back_off(handle, 3)


async def received(handle):
    return any(event.outcome == "received" for event in await handle.history())


async def test_it_outlives_the_process_that_heard_it(app, world, job, ran, down, eventually):
    down.add("bank")
    gate = asyncio.Event()
    other = world.app()

    @other.step(name="call", retry=IN_AN_HOUR)
    async def call(service: str) -> str:
        gate.set()
        await asyncio.Event().wait()
        return ""

    @other.workflow(name="job", version=job.version)
    async def same(services: list[str]) -> list[str]:
        return await asyncio.gather(*(call(service) for service in services))

    async with app.worker():
        handle = await job.start(["bank"], id="j")
        await eventually(lambda: in_back_off(handle, 1))
    async with other.worker(grace=0):
        await other.handle("job", "j").retry_now()
        await gate.wait()
    down.clear()
    async with app.worker():  # the message is used up, and the pause is over all the same
        assert await handle == ["bank 3"]


async def test_a_step_that_changed_code_has_not_come_to_yet_makes_its_next_attempt_too(world, ran, down, eventually):
    def code(app, *, inserted):
        @app.step(name="call", retry=IN_AN_HOUR)
        async def call() -> str:
            ran["call"] += 1
            if down:
                raise ConnectionError("down")
            return "called"

        @app.step(name="inserted")
        async def new() -> None:
            ran["inserted"] += 1

        @app.workflow(name="job", version=str(inserted))
        async def job() -> str:
            if inserted:
                await new()
            return await call()

        return job

    down.add("call")
    first, second = world.app(), world.app()
    before, after = code(first, inserted=False), code(second, inserted=True)
    async with first.worker():
        handle = await before.start(id="j")
        await eventually(lambda: in_back_off(handle, 1))
    down.clear()
    async with second:
        await after.handle("j").retry_now()
    async with second.worker():
        assert await after.handle("j").result("60s") == "called"
    assert ran == {"call": 2, "inserted": 1}


async def test_a_pause_that_was_skipped_does_not_end_again(app, ran, eventually):
    """The timer of the first pause fires while the attempt after the second one runs."""
    gate, running = asyncio.Event(), asyncio.Event()

    @app.step(retry=hf.Retry(max_attempts=4, initial="300ms", backoff=1, jitter=hf.Jitter.NONE))
    async def call() -> int:
        attempt = hf.current().attempt
        ran[attempt] += 1
        if attempt == 1:
            raise ConnectionError("down")
        running.set()
        await gate.wait()
        return attempt

    @app.step
    async def later() -> None:
        await asyncio.sleep(0.5)

    @app.workflow
    async def job() -> int:
        answer, _ = await asyncio.gather(call(), later())
        return answer

    async with app.worker():
        handle = await job.start(id="j")
        await eventually(lambda: in_back_off(handle, 1))
        await handle.retry_now()
        await running.wait()
        await eventually(lambda: done(handle, "later#0/later#0"))  # well after the first pause would have ended
        gate.set()
        assert await handle == 2
    assert ran == {1: 1, 2: 1}


async def done(handle, name):
    return any(event.name == name and event.outcome == "done" for event in await handle.history())


async def test_where_nothing_waits_for_an_attempt_it_does_nothing(app, eventually, reaches):
    @app.workflow
    async def sleeper() -> str:
        await hf.sleep("1h")
        return "slept"

    async with app.worker():
        handle = await sleeper.start(id="s")
        await reaches(handle, "SUSPENDED")
        await handle.retry_now()
        await handle.signal("any")
        await eventually(lambda: received(handle))
        assert (await reaches(handle, "SUSPENDED")).ended_at is None


async def test_of_what_is_not_there_or_has_ended(app, job):
    async with app.worker():
        with pytest.raises(hf.NotFound, match="there is no execution 'nobody'"):
            await job.handle("nobody").retry_now()
        handle = await job.start(["post"], id="j")
        await handle
        with pytest.raises(hf.InvalidState, match="has ended as COMPLETED"):
            await handle.retry_now()
