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


MS_PER_SECOND: Final = 1_000
MS_PER_MINUTE: Final = 60_000
MS_PER_HOUR: Final = 3_600_000
MS_PER_DAY: Final = 86_400_000

EARLIEST_MS: Final = -62_135_596_800_000
LATEST_MS: Final = 253_402_300_799_000
"""The first and the last second of Python's ``datetime``, in milliseconds."""


def moment(ms: int) -> datetime:
    """A time that is stored in milliseconds since the Unix epoch, as users see it: in UTC.

    A time outside the range of ``datetime`` is shown as the nearest one inside: a listing must not fail because of it.
    """
    return datetime.fromtimestamp(max(EARLIEST_MS, min(ms, LATEST_MS)) / 1000, UTC)


def iso(when: datetime) -> str:
    """A moment for machines, in UTC."""
    return when.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def between(earlier: datetime, later: datetime) -> float:
    """Milliseconds from one moment to another."""
    return (later - earlier).total_seconds() * MS_PER_SECOND


elapsed_seconds: Final = time.perf_counter
"""A monotonic reading, for measuring how long something took."""


def busy_seconds() -> float:
    """A reading of the processor's time that this thread has had: none of it goes by while the process is stopped.

    Source: https://docs.python.org/3/library/time.html#time.thread_time
    """
    return time.thread_time()


def duration(ms: float) -> str:
    """A length of time for people, to about three digits.

    >>> duration(7), duration(1310), duration(125_000), duration(11_520_000), duration(270_000_000)
    ('7 ms', '1.31 s', '2 m 05 s', '3 h 12 m', '3 d 3 h')
    """
    whole = round(ms)
    if whole < MS_PER_SECOND:
        return f"{whole} ms"
    if whole < MS_PER_MINUTE:
        return f"{whole / MS_PER_SECOND:.{2 if whole < 10 * MS_PER_SECOND else 1}f} s"
    if whole < MS_PER_HOUR:
        return f"{whole // MS_PER_MINUTE} m {whole % MS_PER_MINUTE // MS_PER_SECOND:02} s"
    if whole < MS_PER_DAY:
        return f"{whole // MS_PER_HOUR} h {whole % MS_PER_HOUR // MS_PER_MINUTE:02} m"
    return f"{whole // MS_PER_DAY} d {whole % MS_PER_DAY // MS_PER_HOUR} h"
