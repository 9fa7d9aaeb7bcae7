"""The circuit breaker: when it opens, who probes, and what it makes of reports that come late or never."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from circuit_breaker import Breaker, CircuitOpen, app, guarded

from holdfast.testing import run_virtual

bank = Breaker.at("bank")
REST_SECONDS = 1.1
"""The cool-down, and a moment for the timer to fire."""


async def works() -> str:
    return "done"


async def fails() -> str:
    raise ConnectionError("down")


async def hangs() -> str:
    await asyncio.sleep(10**6)
    return "at last"


async def fail(times: int) -> None:
    for _ in range(times):
        with pytest.raises(ConnectionError):
            await guarded("bank", fails)


async def opened() -> None:
    await fail(3)
    assert await bank.current_phase() == "open"


async def half_opened() -> None:
    await opened()
    await asyncio.sleep(REST_SECONDS)
    assert await bank.current_phase() == "half-open"


async def refused(call: Callable[[], Awaitable[str]] = works) -> bool:
    try:
        await guarded("bank", call)
    except CircuitOpen:
        return True
    return False


def test_a_closed_one_lets_everything_through(virtually):
    async def main() -> None:
        assert await guarded("bank", works) == "done"
        assert await bank.current_phase() == "closed"

    virtually(app, main)


def test_it_opens_at_the_third_failure_in_a_row(virtually):
    async def main() -> None:
        await fail(2)
        assert await bank.current_phase() == "closed"
        await fail(1)
        assert await bank.current_phase() == "open"
        assert await refused()
        assert await Breaker.at("another").current_phase() == "closed"

    virtually(app, main)


def test_a_success_begins_the_count_anew(virtually):
    async def main() -> None:
        for _ in range(3):
            await fail(2)
            await guarded("bank", works)
        assert await bank.current_phase() == "closed"

    virtually(app, main)


def test_a_refusal_says_when_to_ask_again(virtually):
    async def main() -> None:
        await opened()
        first = await bank.admit()
        await asyncio.sleep(0.4)
        second = await bank.admit()
        assert not first.allowed
        assert first.retry_at == second.retry_at
        assert first.retry_at is not None

    virtually(app, main)


def test_the_timer_makes_it_half_open_though_nobody_calls(virtually):
    async def main() -> None:
        await opened()
        await asyncio.sleep(0.9)
        assert await bank.current_phase() == "open"
        await asyncio.sleep(0.2)
        assert await bank.current_phase() == "half-open"

    virtually(app, main)


def test_the_timer_fires_in_a_later_process_too(shared_app):
    async def main() -> None:
        one, two = shared_app("one"), shared_app("two")

        class First(Breaker, app=one, name="Breaker"):
            pass

        class Second(Breaker, app=two, name="Breaker"):
            pass

        async with one.worker():
            for _ in range(3):
                await First.at("bank").report(0, worked=False)
            assert await First.at("bank").current_phase() == "open"
        await asyncio.sleep(3_600)
        async with two.worker():
            await asyncio.sleep(REST_SECONDS)
            assert await Second.at("bank").current_phase() == "half-open"
            assert (await Second.at("bank").admit()).allowed

    run_virtual(main)


def test_one_call_at_a_time_probes(virtually):
    async def main() -> None:
        await half_opened()
        assert sorted(await asyncio.gather(*(refused() for _ in range(10)))) == [False] + [True] * 9
        assert await bank.current_phase() == "closed"
        assert not await refused()

    virtually(app, main)


def test_a_probe_that_fails_opens_it_for_another_rest(virtually):
    async def main() -> None:
        await half_opened()
        await fail(1)
        assert await bank.current_phase() == "open"
        await asyncio.sleep(REST_SECONDS)
        assert await bank.current_phase() == "half-open"
        assert not await refused()

    virtually(app, main)


def test_a_probe_that_is_never_heard_of_counts_as_failed(virtually):
    async def main() -> None:
        await half_opened()
        probe = asyncio.create_task(guarded("bank", hangs))
        await asyncio.sleep(9.9)
        assert await refused()
        await asyncio.sleep(0.2)
        assert await bank.current_phase() == "open"
        await asyncio.sleep(REST_SECONDS)
        assert not await refused()
        probe.cancel()
        assert await bank.current_phase() == "closed"

    virtually(app, main)


def test_a_probe_that_worked_is_not_lost_later(virtually):
    async def main() -> None:
        await half_opened()
        assert not await refused()
        await asyncio.sleep(60)
        assert await bank.current_phase() == "closed"

    virtually(app, main)


@pytest.mark.parametrize("worked", [True, False])
def test_a_report_from_an_earlier_era_says_nothing(virtually, worked):
    async def main() -> None:
        before = await bank.admit()
        await half_opened()
        assert (await bank.admit()).allowed
        await bank.report(before.era, worked=worked)
        assert await bank.current_phase() == "half-open"
        assert not (await bank.admit()).allowed

    virtually(app, main)


def test_a_late_report_of_a_lost_probe_does_not_close_it(virtually):
    async def main() -> None:
        await half_opened()
        lost = await bank.admit()
        await asyncio.sleep(10 + 2 * REST_SECONDS)
        assert await bank.current_phase() == "half-open"
        await bank.report(lost.era, worked=True)
        assert await bank.current_phase() == "half-open"
        assert (await bank.admit()).allowed

    virtually(app, main)


def test_calls_that_fail_together_open_it_once(virtually):
    async def main() -> None:
        await asyncio.gather(*(guarded("bank", fails) for _ in range(20)), return_exceptions=True)
        admission = await bank.admit()
        assert not admission.allowed
        await asyncio.sleep(REST_SECONDS)
        assert await bank.current_phase() == "half-open"

    virtually(app, main)


def test_other_limits_are_a_class_of_their_own(shared_app):
    strict = shared_app("strict")

    class Strict(Breaker, app=strict):
        failures_allowed = 0
        cool_down = "1h"

    async def main() -> None:
        async with strict.worker():
            await Strict.at("bank").report(0, worked=False)
            await asyncio.sleep(3_599)
            assert not (await Strict.at("bank").admit()).allowed
            await asyncio.sleep(REST_SECONDS)
            assert (await Strict.at("bank").admit()).allowed

    run_virtual(main)
