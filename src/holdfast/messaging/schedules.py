"""The schedules of a home: when each ticks next, and what it has missed."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from holdfast.actors.record import (
    HIDDEN_MARK,
    PARTITION_PREFIX,
    TimerRecord,
    actor_of,
    decode_record,
    key_of,
    partition_of,
)
from holdfast.clock import moment
from holdfast.coordination.census import MOST_READS, heads_named
from holdfast.coordination.schedule import CronSchedule, last_before, next_after
from holdfast.errors import StoreUnusable
from holdfast.failure import in_one_line
from holdfast.keys import check_limit
from holdfast.messaging.outbox import schedules_name
from holdfast.paging import refuse_scan

if TYPE_CHECKING:
    from holdfast.items import Item
    from holdfast.kernel.runtime import Runtime

LATE_MS: Final = 60_000
"""A tick that is due for longer was missed: no worker of the app has run since."""

MOST_MISSED: Final = 100
"""Missed ticks are counted up to here."""


class ScheduleStatus(Struct, frozen=True, kw_only=True):
    """A schedule as its home holds it. ``next_at`` is the tick that is due next, ``last_at`` the one before it, which
    was dealt with unless the schedule is newer. ``missed`` is how many ticks no worker was there for, at most
    ``MOST_MISSED``; ``policy`` says what becomes of them. ``error`` is that of a tick that is tried again.

    ``status`` is that of the actor that ticks: ``HALTED`` is one that has stopped at a tick.
    """

    app: str
    name: str
    status: str
    expression: str
    tz: str
    policy: str
    next_at: datetime | None
    last_at: datetime | None
    missed: int = 0
    error: str | None = None


class SchedulePage(Struct, frozen=True):
    """Some schedules, by app and name. A page may be short, or empty, although there are more: pass ``after``."""

    items: tuple[ScheduleStatus, ...]
    after: str | None


async def list_schedules(
    runtime: Runtime, app: str | None, *, after: str | None, limit: int, scan: bool = False
) -> SchedulePage:
    """One page of the schedules of one app, or of all that workers of the home have begun. A page asks the store
    ``MOST_READS`` times at most; on a home without a census that reads the table in parts, if the caller wants to
    ``scan`` it: otherwise ``InvalidInput`` is raised.
    """
    check_limit(limit)
    await refuse_scan(runtime.home, scan=scan)
    prefix = PARTITION_PREFIX + HIDDEN_MARK if app is None else partition_of(schedules_name(app), "")
    now, found = runtime.clock.now_ms(), list[ScheduleStatus]()
    for _ in range(MOST_READS):
        page = await heads_named(runtime.home, prefix, after=after, limit=limit - len(found))
        for head in page.items:
            if (status := _status(head, now)) is not None:
                found.append(status)
                await asyncio.sleep(0)  # the ticks of a schedule take a millisecond to find, and others wait
        after = page.cursor
        if after is None or len(found) >= limit:
            break
    return SchedulePage(tuple(found), after)


def _status(head: Item, now: int) -> ScheduleStatus | None:
    """The schedule of a hidden actor; ``None`` if it is a consumer, or has set no timer yet."""
    app, mark, consumer = actor_of(head.partition)[len(HIDDEN_MARK) :].partition(HIDDEN_MARK)
    if not mark or consumer or not head.body:
        return None
    try:
        record = decode_record(head.body)
    except StoreUnusable:
        return None
    timer = record.timers.get("tick")
    if timer is None or not isinstance(timer.schedule, CronSchedule):
        return None
    errors = (failure.error for failure in record.failures.values() if failure.error is not None)
    error = next(errors, None)
    last = last_before(timer.schedule, timer.due_at)
    return ScheduleStatus(
        app=app,
        name=key_of(head.partition),
        status=head.status,
        expression=timer.schedule.expression,
        tz=timer.schedule.tz,
        policy=timer.missed.value,
        next_at=moment(timer.due_at),
        last_at=None if last is None else moment(last),
        missed=_missed(timer, now),
        error=None if error is None else in_one_line(error),
    )


def _missed(timer: TimerRecord, now: int) -> int:
    """The ticks that are due for so long that no worker can have been there."""
    assert timer.schedule is not None
    count, tick = 0, timer.due_at
    while tick <= now - LATE_MS and count < MOST_MISSED:
        count, tick = count + 1, next_after(timer.schedule, tick)
    return count
