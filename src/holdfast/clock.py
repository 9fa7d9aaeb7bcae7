"""Time, injected. The rest of the package never reads a clock of its own (lint enforces it)."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Where "now" comes from."""

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch."""
        ...


class SystemClock:
    """The machine's wall clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


def moment(ms: int) -> datetime:
    """A time that is stored in milliseconds since the Unix epoch, as users see it: in UTC."""
    return datetime.fromtimestamp(ms / 1000, UTC)


def elapsed_seconds() -> float:
    """A monotonic reading, for measuring how long something took."""
    return time.perf_counter()
