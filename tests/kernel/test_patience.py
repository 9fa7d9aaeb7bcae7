"""How long a turn waits to be woken: exactly as long as it says, however many waits came before."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import uvloop
from tests.workflows.waiting_shop import Shop

import holdfast as hf
from holdfast.kernel.entity import Entity
from holdfast.kernel.patience import Patience
from holdfast.testing import run_virtual

AN_HOUR_SECONDS = 3_600.0


class Waiting(Entity):
    """An entity that notes when each of its waits has ended, and how."""

    def __init__(self) -> None:
        model: Any = None
        super().__init__("place", model)
        self.ended: list[tuple[float, bool]] = []

    async def wait(self, *timeouts_seconds: float | None) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        for timeout_seconds in timeouts_seconds:
            was_woken = await self.woken(timeout_seconds)
            self.ended.append((round(loop.time() - began, 6), was_woken))


@pytest.mark.parametrize(
    ("timeouts_seconds", "wakes_at", "ended"),
    [
        pytest.param((2.0,), (), [(2.0, False)], id="never woken"),
        pytest.param((2.0, 2.0), (), [(2.0, False), (4.0, False)], id="twice"),
        pytest.param((2.0, 2.0), (1.5,), [(1.5, True), (3.5, False)], id="the alarm of the first wait is early"),
        pytest.param((5.0, 1.0), (0.5,), [(0.5, True), (1.5, False)], id="the alarm of the first wait is late"),
        pytest.param((5.0, 1.0, 10.0), (0.5,), [(0.5, True), (1.5, False), (11.5, False)], id="and is set no more"),
        pytest.param((2.0, None), (0.5, 9.0), [(0.5, True), (9.0, True)], id="no end of patience"),
        pytest.param((None, 2.0), (9.0,), [(9.0, True), (11.0, False)], id="an end of patience"),
        pytest.param((0.0,), (), [(0.0, False)], id="no patience"),
    ],
)
def test_a_wait_ends_when_it_is_woken_or_when_its_time_is_over(timeouts_seconds, wakes_at, ended) -> None:
    async def main() -> Waiting:
        entity, loop = Waiting(), asyncio.get_running_loop()
        for seconds in wakes_at:
            loop.call_later(seconds, entity.wake)
        await entity.wait(*timeouts_seconds)
        return entity

    assert run_virtual(main).ended == ended


def test_an_event_loop_that_counts_in_milliseconds_is_no_different() -> None:
    async def main() -> Waiting:
        entity = Waiting()
        asyncio.get_running_loop().call_later(0.01, entity.wake)
        await entity.wait(0.0, 0.0002, 0.05, 0.05, 0.0)
        return entity

    ended = uvloop.run(main()).ended
    assert [woken for _, woken in ended] == [False, False, True, False, False]
    assert ended[3][0] - ended[2][0] > 0.049


def test_waits_that_are_woken_before_their_time_share_an_alarm(monkeypatch) -> None:
    async def main() -> tuple[Waiting, list[float]]:
        entity, loop = Waiting(), asyncio.get_running_loop()
        alarms: list[float] = []
        call_at = loop.call_at

        def noted(when: float, *rest: Any) -> asyncio.TimerHandle:
            alarms.append(when)
            return call_at(when, *rest)

        monkeypatch.setattr(loop, "call_at", noted)
        turn = loop.create_task(entity.wait(*(10.0,) * 100))
        for _ in range(99):
            await asyncio.sleep(0)
            entity.wake()
        await turn
        return entity, alarms

    entity, alarms = run_virtual(main)
    assert [woken for _, woken in entity.ended] == [True] * 99 + [False]
    assert len(alarms) == 1


def test_what_has_ended_leaves_no_alarm_behind(monkeypatch) -> None:
    shop, alarms = Shop(), list[asyncio.TimerHandle]()

    @shop.app.step
    async def lasts() -> None:
        await asyncio.sleep(1)

    @shop.app.workflow
    async def checkout() -> None:
        async with asyncio.timeout(30 * 24 * AN_HOUR_SECONDS):
            await lasts()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        call_at = loop.call_at

        def noted(when: float, callback: Any, *rest: Any, **options: Any) -> asyncio.TimerHandle:
            handle = call_at(when, callback, *rest, **options)
            if isinstance(getattr(callback, "__self__", None), Patience):
                alarms.append(handle)
            return handle

        monkeypatch.setattr(loop, "call_at", noted)
        async with shop.app.worker():
            await checkout()
            assert max(each.when() for each in alarms) > loop.time() + 29 * 24 * AN_HOUR_SECONDS
            assert all(each.cancelled() for each in alarms)

    run_virtual(main)


def test_an_entity_that_has_something_under_way_is_not_released_when_a_timer_has_passed() -> None:
    shop, claims = Shop(), list[str]()

    @shop.app.step
    async def lasts() -> None:
        await asyncio.sleep(3)

    @shop.app.workflow
    async def checkout() -> None:
        working = asyncio.create_task(lasts())
        while not working.done():
            await asyncio.wait((working,), timeout=0.4)

    async def main() -> None:
        async with shop.app.worker(limits=hf.Limits(linger_seconds=0.0, near_seconds=0.0)):
            shop.app.telemetry.subscribe(lambda event, _fields: claims.append(event))
            await checkout()

    run_virtual(main)
    assert "ended" in claims
    assert "claimed" not in claims, "the one that has created it"
