"""The end of a turn's patience: how long it waits to be woken.

Most waits end by being woken, and the next one ends later. So the alarm of the event loop that ends a wait stays set
when the wait is over, and if it comes too early for a later one it is set again: a turn that is woken a thousand times
sets one alarm, where a timer for each wait would set and cancel a thousand.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf


class Patience:
    """Ends the waits of one turn in time. ``end`` is called when the time of a wait is over."""

    __slots__ = ("_alarm", "_alarm_at", "_end", "_until")

    def __init__(self, end: Callable[[], None]) -> None:
        self._end = end
        self._until = self._alarm_at = inf
        self._alarm: asyncio.Handle | None = None

    def begin(self, seconds: float) -> None:
        """A wait begins that lasts so long at most."""
        loop = asyncio.get_running_loop()
        self._until = loop.time() + seconds
        if self._alarm_at > self._until:
            self.stop()
            self._set(loop)

    def rest(self) -> None:
        """The wait is over: nothing ends until the next one begins."""
        self._until = inf

    def stop(self) -> None:
        """Nothing waits any more."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm, self._alarm_at = None, inf

    def _set(self, loop: asyncio.AbstractEventLoop) -> None:
        self._alarm_at = self._until
        self._alarm = loop.call_at(self._alarm_at, self._alarmed, loop)

    def _alarmed(self, loop: asyncio.AbstractEventLoop) -> None:
        is_early = self._alarm_at < self._until
        self._alarm, self._alarm_at = None, inf
        if not is_early:
            self._end()
        elif self._until < inf:
            self._set(loop)
