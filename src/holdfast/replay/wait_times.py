"""From when the timers of a body count: from where it reached them, however long its journal had been waiting."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from holdfast.replay.entries import Resumed
from holdfast.replay.past import Past
from holdfast.replay.requests import DueTimer, Request, is_limit

LATE_MS: Final = 50
"""Waits that a body asks for later than this after what was recorded last count from now on."""


class WaitTimes:
    """The timers that a body has asked for since the last entry was delivered."""

    __slots__ = ("_requested", "fresh")

    def __init__(self, requested: Mapping[str, Request]) -> None:
        self._requested = requested
        self.fresh: tuple[DueTimer, ...] = ()

    def add(self, timer: DueTimer) -> None:
        """The body has asked for one."""
        self.fresh += (timer,)

    def settle(self) -> None:
        """The next entry is delivered: the others stay as they are."""
        self.fresh = ()

    def late(self, past: Past, recorded_ms: int, now: int) -> Resumed | None:
        """What the journal is to note if the body has come to its timers only ``now``, long after what was recorded
        last, at ``recorded_ms``; they count from now on.
        """
        late = [timer.id for timer in self.fresh if not timer.cancelled() and not past.has_reached(timer.id)]
        if past.reopened:  # what limits the work that begins again has all its time, whenever it was asked for
            late += [op for op, each in self._requested.items() if is_limit(each) and op not in late]
        if not late or now - recorded_ms <= LATE_MS:
            return None
        resumed = Resumed(now, tuple(late))
        self.resume(resumed)
        return resumed

    def resume(self, resumed: Resumed) -> None:
        """Let the timers count from when the body came to them, as was noted."""
        for wait in resumed.waits:
            if isinstance(timer := self._requested.get(wait), DueTimer):
                timer.count_from(resumed.at)
