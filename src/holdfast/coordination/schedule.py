"""Schedules: when the next tick is due, and which ticks to run after a pause. Arithmetic only: no store, no clock.

Moments are whole milliseconds since the epoch, as the store keeps them. A tick is its own due time, however late it
runs, so it can name the execution it starts (G11).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Final, cast

from msgspec import Struct

from holdfast import crontab
from holdfast.duration import LONGEST_SECONDS
from holdfast.errors import InvalidInput

GRACE_MS: Final = 60_000
"""How late a tick may be and still count as on time, by default: sweeps and cold starts take a while."""

LONGEST_PERIOD_MS: Final = int(LONGEST_SECONDS * 1000)

LONGEST_GAP_MS: Final = 16 * 366 * 86_400_000
"""Longer than the time between two ticks of any schedule: 29 February is missing for eight years around 2100."""

FEW_TICKS: Final = 4
"""The number of ticks that are gone through one by one before the last one is searched for by halving."""

_EPOCH: Final = datetime.fromtimestamp(0, UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


# ── The two kinds of schedule ───────────────────────────────────────────────────────────────────────────────────────


class CronSchedule(Struct, frozen=True, tag="cron"):
    """Five fields, read by the wall clock of the time zone ``tz``: minute, hour, day of the month, month, weekday.

    A field is ``*``, a number, a range ``9-17``, a step ``*/15``, ``9-17/2`` or ``5/20`` (from 5 on), or a list of
    these. Months and weekdays have their English names too (``JAN``, ``MON``); Sunday is 0 and 7. If neither day field
    begins with ``*``, one of the two must fit, else both. ``@daily`` and its like (``crontab.SHORTCUTS``) are five too.

    When the clocks change, ticks are those of Debian's cron, see its manual page cron(8), which says "if time has moved
    forward, those jobs that would have run in the interval that has been skipped will be run immediately. Conversely,
    if time has moved backward, care is taken to avoid running jobs twice", and "jobs that run more frequently are
    scheduled normally". To the minute, and for a change of any size, that means:

    - neither the minute nor the hour begins with ``*`` (``30 2 * * *``): due when the clock first reaches or passes
      that time. A time that the clocks skip is due at the first moment after the gap; a time that occurs twice is due
      the first time only; two times at one moment are one tick.
    - else (``*/15 * * * *``, ``0 * * * *``, ``*/10 2 * * *``): due at every minute at which the clock shows a time
      that fits. Time that is skipped has no ticks, and an hour that occurs twice has them twice.

    Raises ``InvalidInput`` when made, if it cannot be read, can never be due, or the zone is unknown.

    >>> CronSchedule("0 3 * * MON-FRI", tz="Europe/Amsterdam")
    CronSchedule(expression='0 3 * * MON-FRI', tz='Europe/Amsterdam')
    """

    expression: str
    tz: str = "UTC"

    def __post_init__(self) -> None:
        crontab.read(self.expression)
        crontab.zone_of(self.tz)


class Every(Struct, frozen=True, tag="every"):
    """Due at ``first_ms`` and then every ``period_ms``: always a whole number of periods later, so it does not drift.

    >>> next_after(Every(period_ms=1000, first_ms=250), 5000)
    5250
    """

    period_ms: int
    first_ms: int

    def __post_init__(self) -> None:
        period, first = cast("tuple[Any, Any]", (self.period_ms, self.first_ms))  # users without a type checker
        if type(period) is not int or not 1 <= period <= LONGEST_PERIOD_MS:
            raise InvalidInput(f"period_ms must be a whole number from 1 to {LONGEST_PERIOD_MS}, got {period!r}")
        if type(first) is not int:
            raise InvalidInput(f"first_ms must be a moment in whole milliseconds since the epoch, got {first!r}")


Schedule = CronSchedule | Every


def next_after(schedule: Schedule, after_ms: int) -> int:
    """The first tick strictly after ``after_ms``. There always is one.

    >>> next_after(CronSchedule("@hourly"), 0), next_after(CronSchedule("@hourly"), 3_599_999)
    (3600000, 3600000)
    """
    match schedule:
        case Every(period_ms=period, first_ms=first):
            return first if after_ms < first else after_ms + period - (after_ms - first) % period
        case CronSchedule(expression=expression, tz=tz):
            after = _EPOCH + after_ms * _MILLISECOND
            return (crontab.next_tick(crontab.read(expression), crontab.zone_of(tz), after) - _EPOCH) // _MILLISECOND


def last_before(schedule: Schedule, before_ms: int) -> int | None:
    """The last tick before ``before_ms``; ``None`` if there is none in the years before.

    >>> last_before(CronSchedule("@hourly"), 7_200_000)
    3600000
    """
    span_ms = next_after(schedule, before_ms) - before_ms + 1
    while (oldest := next_after(schedule, before_ms - span_ms)) >= before_ms:
        if span_ms > LONGEST_GAP_MS:
            return None
        span_ms *= 2
    return _latest(schedule, oldest, before_ms - 1)


# ── Which ticks to run ──────────────────────────────────────────────────────────────────────────────────────────────


class Missed(StrEnum):
    """What to do about ticks that became due while no worker was there to run them.

    - ``SKIP``: run the latest, if it is on time; drop what is late.
    - ``ONCE``: run the latest, however late; drop those before it.
    - ``ALL``: run each, in order.
    """

    SKIP = "skip"
    ONCE = "once"
    ALL = "all"


def ticks_to_run(
    schedule: Schedule, last_ms: int, now_ms: int, missed: Missed, limit: int, *, grace_ms: int = GRACE_MS
) -> tuple[tuple[int, ...], int]:
    """The ticks to run now, oldest first, and when to ask again.

    Up to and including ``last_ms`` all is dealt with: for a new schedule, the moment it was made. A tick is due if
    ``last_ms < tick <= now_ms``, never earlier (G8), and on time if it is at most ``grace_ms`` late. Of the due ticks

    - ``SKIP`` runs the latest if it is on time, and drops the others: none or one;
    - ``ONCE`` runs the latest, and drops the others: one, if any is due;
    - ``ALL`` runs the oldest ``limit``; the rest stay due, so that the second answer is then not after ``now_ms``.

    The second answer is itself a tick, and every tick before it is done with, run or dropped. It is all that has to be
    kept: commit it together with what the ticks do, and pass it, less one, as ``last_ms`` next time. Until that commit
    nothing has happened: after a turn that died before it, the next turn answers for the same ticks and any that became
    due since.

    >>> hourly = Every(period_ms=3_600_000, first_ms=0)
    >>> ticks_to_run(hourly, last_ms=0, now_ms=14_400_000, missed=Missed.ALL, limit=3)
    ((3600000, 7200000, 10800000), 14400000)
    >>> ticks_to_run(hourly, last_ms=0, now_ms=14_500_000, missed=Missed.ONCE, limit=3)
    ((14400000,), 18000000)
    >>> ticks_to_run(hourly, last_ms=0, now_ms=14_500_000, missed=Missed.SKIP, limit=3)
    ((), 18000000)
    """
    if limit < 1 or grace_ms < 0:
        raise InvalidInput(f"limit must be at least 1 and grace_ms at least 0, got {limit!r} and {grace_ms!r}")
    if missed not in tuple(Missed):
        raise InvalidInput(f"missed must be one of {', '.join(Missed)}, got {missed!r}")
    oldest = next_after(schedule, last_ms)
    if oldest > now_ms:
        return (), oldest
    if missed == Missed.ALL:
        return _oldest(schedule, oldest, now_ms, limit)
    latest = _latest(schedule, oldest, now_ms)
    runs = missed == Missed.ONCE or now_ms - latest <= grace_ms
    return ((latest,) if runs else ()), next_after(schedule, now_ms)


def _oldest(schedule: Schedule, oldest: int, now_ms: int, limit: int) -> tuple[tuple[int, ...], int]:
    ticks = [oldest]
    while (following := next_after(schedule, ticks[-1])) <= now_ms and len(ticks) < limit:
        ticks.append(following)
    return tuple(ticks), following


def _latest(schedule: Schedule, oldest: int, now_ms: int) -> int:
    """The last tick that is due, by halving: for a year of missed minutes it takes some forty steps."""
    latest, beyond = oldest, now_ms + 1  # a tick that is due, and where there is none from there to now
    for _ in range(FEW_TICKS):
        if (following := next_after(schedule, latest)) > now_ms:
            return latest
        latest = following
    while beyond - latest > 1:
        middle = (latest + beyond) // 2
        tick = next_after(schedule, middle - 1)
        if tick <= now_ms:
            latest = tick
        else:
            beyond = middle
    return latest
