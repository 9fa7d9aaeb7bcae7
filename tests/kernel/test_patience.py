"""How long a turn waits to be woken: exactly as long as it says, however many waits came before."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import uvloop

from holdfast.kernel.entity import Entity
from holdfast.testing import run_virtual


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
