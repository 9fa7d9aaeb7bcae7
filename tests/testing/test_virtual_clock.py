"""A clock of virtual time is right on each loop that it is used on."""

from __future__ import annotations

import asyncio

from holdfast.testing import VirtualClock, run_virtual
from holdfast.testing.virtual_time import START_MS


def test_a_clock_of_an_earlier_run_shows_the_time_of_this_one():
    clock = VirtualClock()

    async def after_a_day() -> int:
        await asyncio.sleep(86_400)
        return clock.now_ms()

    async def at_once() -> int:
        return clock.now_ms()

    assert run_virtual(after_a_day) == START_MS + 86_400_000
    assert run_virtual(at_once) == START_MS
