"""From when the timers of a body count: from where it reached them, however long its journal had been waiting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from holdfast.replay.entries import Resumed
from holdfast.replay.past import Past
from holdfast.replay.requests import DueTimer, Request, is_limit

LATE_MS: Final = 50
"""Waits that a body asks for later than this after what was recorded last count from now on."""


def late_timers(
    fresh: Sequence[DueTimer], requested: Mapping[str, Request], past: Past, recorded_ms: int, now: int
) -> Resumed | None:
    """What the journal is to note if the body has come to the ``fresh`` timers only ``now``, long after what was
    recorded last, at ``recorded_ms``; they count from now on.
    """
    late = [timer.id for timer in fresh if not timer.cancelled() and not past.has_reached(timer.id)]
    if past.reopened:  # what limits the work that begins again has all its time, whenever it was asked for
        late += [op for op, each in requested.items() if is_limit(each) and op not in late]
    if not late or now - recorded_ms <= LATE_MS:
        return None
    resumed = Resumed(now, tuple(late))
    resume(requested, resumed)
    return resumed


def resume(requested: Mapping[str, Request], resumed: Resumed) -> None:
    """Let the timers count from when the body came to them, as was noted."""
    for wait in resumed.waits:
        if isinstance(timer := requested.get(wait), DueTimer):
            timer.count_from(resumed.at)
