"""Waiting: ``sleep``, ``poll`` and ``wait_for`` (G8)."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

import holdfast as hf


async def test_a_sleep_lasts_no_shorter_than_asked_by_the_workflows_own_clock(app):
    @app.workflow
    async def job() -> list[float]:
        times = [hf.now()]
        for duration in ("5ms", 0.005, timedelta(milliseconds=5), "0s"):
            await hf.sleep(duration)
            times.append(hf.now())
        return [(b - a).total_seconds() for a, b in zip(times, times[1:], strict=False)]

    async with app.worker():
        *slept, nothing = await job()
    assert all(each >= 0.005 for each in slept)
    assert nothing == 0


async def test_asyncio_sleep_is_as_durable(app):
    @app.workflow
    async def job() -> str:
        return await asyncio.sleep(0.001, "slept")

    async with app.worker():
        handle = await job.start(id="j")
        assert await handle == "slept"
        assert [(event.kind, event.outcome) for event in await handle.history()] == [("timer", "done")]


async def test_time_stands_still_between_waits(app):
    @app.step
    async def step() -> None: ...

    @app.workflow
    async def job() -> bool:
        first = hf.now()
        same = first == hf.now() and first.tzinfo is not None
        await step()
        later = hf.now()
        return same and later >= first and later == hf.now()

    async with app.worker():
        assert await job()


async def test_a_long_sleep_holds_nothing_and_says_when_it_ends(app, reaches):
    @app.workflow
    async def job() -> None:
        await hf.sleep("365d")

    async with app.worker():
        handle = await job.start(id="j")
        status = await reaches(handle, "SUSPENDED")
        assert status.due_at is not None
        assert timedelta(days=364) < status.due_at - status.created_at <= timedelta(days=365, seconds=5)
        await handle.cancel()
        with pytest.raises(hf.ExecutionCancelled):
            await handle


async def test_a_sleep_goes_on_in_another_process(world):
    def code(app):
        @app.workflow
        async def job() -> str:
            started = hf.now()
            await hf.sleep("20ms")
            return "slept" if hf.now() - started >= timedelta(milliseconds=20) else "woke early"

        return job

    first, second = world.app(), world.app()
    before, after = code(first), code(second)
    async with first.worker():
        await before.start(id="j")
    async with second.worker():
        assert await after.handle("j") == "slept"


async def test_a_thousand_sleepers_wake_in_order(app):
    @app.workflow
    async def job() -> list[int]:
        woken: list[int] = []

        async def sleeper(n: int) -> None:
            await hf.sleep(n % 10 / 1000)
            woken.append(n % 10)

        await asyncio.gather(*[sleeper(n) for n in range(1000)])
        return woken

    async with app.worker():
        woken = await job()
    assert woken == sorted(woken)
    assert len(woken) == 1000


@pytest.mark.parametrize("duration", [-1, "soon", float("nan"), "11000d", True, "5 parsecs", ""])
async def test_a_duration_that_is_none_is_refused(app, duration):
    @app.workflow
    async def job() -> None:
        with pytest.raises(hf.InvalidInput, match="duration"):
            await hf.sleep(duration)

    async with app.worker():
        await job()


# ── Polling ─────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_polling_calls_a_step_until_its_answer_is_true(app):
    answers = iter([None, "", "ready"])
    asked = []

    @app.step
    async def check(order: str, *, strict: bool = False) -> str | None:
        asked.append((order, strict))
        return next(answers)

    @app.workflow
    async def job() -> str | None:
        return await hf.poll(every="1ms")(check, "o-1", strict=True)

    async with app.worker():
        handle = await job.start(id="j")
        assert await handle == "ready"
        kinds = [event.kind for event in await handle.history()]
    assert asked == [("o-1", True)] * 3
    assert kinds == ["step", "timer", "step", "timer", "step"]


async def test_polling_backs_off_up_to_a_limit(app):
    left = [5]

    @app.step
    async def check() -> bool:
        left[0] -= 1
        return not left[0]

    @app.workflow
    async def job() -> list[int]:
        started = hf.now()
        times: list[int] = []

        async def noted() -> bool:
            times.append(round((hf.now() - started).total_seconds() * 1000))
            return await check()

        await hf.poll(every="2ms", backoff=3, max_interval="8ms")(noted)
        return [b - a for a, b in zip(times, times[1:], strict=False)]

    async with app.worker():
        gaps = await job()
    assert [gap >= least for gap, least in zip(gaps, [2, 6, 8, 8], strict=True)] == [True] * 4


async def test_wait_for_answers_at_once_if_it_can(app):
    @app.step
    async def check(n: int) -> int:
        return n

    @app.workflow
    async def job() -> int:
        return await hf.wait_for(check, 7)

    async with app.worker():
        assert await job() == 7


async def test_waiting_for_a_condition_can_be_limited(app):
    @app.step
    async def never() -> bool:
        return False

    @app.workflow
    async def job() -> str:
        try:
            async with asyncio.timeout(0.01):
                await hf.wait_for(never)
        except TimeoutError:
            return "too late"
        return "?"

    async with app.worker():
        assert await job() == "too late"


async def test_an_error_of_the_condition_is_an_error_of_the_wait(app):
    @app.step(retry=hf.Retry(max_attempts=1))
    async def check() -> bool:
        raise LookupError("no such order")

    @app.workflow
    async def job() -> None:
        await hf.poll(every="1ms")(check)

    async with app.worker():
        with pytest.raises(hf.ExecutionFailed, match="LookupError: no such order"):
            await job()


async def test_polling_refuses_intervals_that_shrink():
    with pytest.raises(hf.InvalidInput, match="at least 1"):
        hf.poll(every="1s", backoff=0.5)


# ── What is the same on every replay ────────────────────────────────────────────────────────────────────────────────


async def test_chance_and_time_repeat_themselves_on_every_replay(app):
    @app.step
    async def keep(seen: str) -> str:
        return seen

    @app.workflow
    async def job() -> list[list[str]]:
        rounds = []
        for _ in range(3):
            mine = [str(hf.uuid()), str(hf.random().random()), str(hf.now())]
            rounds.append([*mine, await keep("|".join(mine))])
            await hf.sleep("1ms")
        return rounds

    async with app.worker():
        rounds = await job()
    for *mine, kept in rounds:
        assert "|".join(mine) == kept
    assert len({each[0] for each in rounds}) == 3


async def test_every_execution_and_every_run_has_chances_of_its_own(app):
    seen: list[str] = []

    @app.step
    async def keep(value: str) -> None:
        seen.append(value)

    @app.workflow
    async def job(left: int) -> None:
        await keep(str(hf.uuid()))
        if left:
            hf.continue_as_new(left - 1)

    async with app.worker():
        await job(2)
        await job(2)
    assert len(seen) == 6
    assert len(set(seen)) == 6


async def test_waiting_for_its_own_end_is_refused(app):
    @app.workflow
    async def by_handle() -> None:
        await by_handle.handle("same")

    @app.workflow
    async def by_call() -> None:
        await by_call.options(id="same")()

    async with app.worker():
        for job in (by_handle, by_call):
            with pytest.raises(hf.ExecutionFailed, match="waits for its own end"):
                await (await job.start(id="same")).result("60s")
