"""Where those wait that processes have died of: they go on one at a time, so that the one that kills dies alone."""

from __future__ import annotations

import asyncio
from heapq import heappop, heappush
from itertools import count
from typing import Final

LONGEST_PAUSE_SECONDS: Final = 30.0
LONGEST_STAY_SECONDS: Final = 30.0
"""How long the others wait at most for one that makes no progress."""

Place = tuple[int, int, str, asyncio.Future[None]]


class CrashQueue:
    """The entities that more than one process in a row has died of. One per worker.

    What others do in the process makes progress during the pauses. Of those that have paused, the one with the most
    deaths goes first: if it kills the process, the ones behind it had not begun, and are not counted.
    """

    __slots__ = ("_alarm", "_closed", "_numbers", "_paused", "_turns", "first")

    def __init__(self) -> None:
        self.first: str | None = None
        """The one that goes on now."""
        self._alarm: asyncio.TimerHandle | None = None
        self._paused: list[Place] = []
        self._turns: set[asyncio.Future[None]] = set()
        self._numbers = count()
        self._closed = False

    async def enter(self, partition: str, deaths: int, pause_seconds: float) -> None:
        """Pause, and wait until it is the one that goes on. It leaves when it has made progress."""
        if self._closed:
            return
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        alarm = loop.call_later(pause_seconds, self._join, (-deaths, next(self._numbers), partition, turn))
        self._turns.add(turn)
        try:
            await turn
        finally:
            alarm.cancel()
            self._turns.discard(turn)

    def leave(self, partition: str) -> None:
        """It has made progress, waits, or was released: the next one goes on."""
        if self.first != partition:
            return
        self.first = None
        if self._alarm is not None:
            self._alarm.cancel()
        self._admit_next()

    def close(self) -> None:
        """Nothing begins here any more: end all waits."""
        self._closed = True
        for turn in self._turns:
            if not turn.done():
                turn.set_result(None)

    def _join(self, place: Place) -> None:
        heappush(self._paused, place)
        self._admit_next()

    def _admit_next(self) -> None:
        while self.first is None and self._paused:
            *_, partition, turn = heappop(self._paused)
            if turn.done():
                continue
            self.first = partition
            self._alarm = asyncio.get_running_loop().call_later(LONGEST_STAY_SECONDS, self.leave, partition)
            turn.set_result(None)


def pause_seconds(deaths: int) -> float:
    """How long an entity waits after this number of processes in a row have died of it.

    >>> [pause_seconds(deaths) for deaths in range(6)]
    [0.0, 0.0, 1.0, 2.0, 4.0, 8.0]
    """
    return 0.0 if deaths < 2 else min(2.0 ** min(deaths - 2, 16), LONGEST_PAUSE_SECONDS)
