"""Time, injected. The rest of the package never reads a clock itself (lint enforces it)."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Final, Protocol


class Clock(Protocol):
    """The source of "now"."""

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch."""
        ...


class SystemClock:
    """The machine's wall clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


EARLIEST_MS: Final = -62_135_596_800_000
LATEST_MS: Final = 253_402_300_799_000
"""The first and the last second of Python's ``datetime``, in milliseconds."""


def moment(ms: int) -> datetime:
    """A time that is stored in milliseconds since the Unix epoch, as users see it: in UTC.

    A time outside the range of ``datetime`` is shown as the nearest one inside: a listing must not fail because of it.
    """
    return datetime.fromtimestamp(max(EARLIEST_MS, min(ms, LATEST_MS)) / 1000, UTC)


def elapsed_seconds() -> float:
    """A monotonic reading, for measuring how long something took."""
    return time.perf_counter()
