"""Cron: a hidden actor per schedule, whose timer starts a workflow or runs a handler at every tick.

The tick and what it starts commit together, so each tick counts once however many workers there are. A workflow's
execution is named after its tick; a handler runs as a message, which is tried again if it fails.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from msgspec import UNSET, Struct

from holdfast import ids
from holdfast.actors.definition import Actor, Registrar, read
from holdfast.actors.limited import Limit
from holdfast.actors.sending import send
from holdfast.actors.timers import timer
from holdfast.coordination.schedule import CronSchedule, Missed


class Job(Struct, frozen=True):
    """What a schedule does: ``start`` begins a workflow for a tick, ``run`` handles one."""

    name: str
    schedule: CronSchedule
    missed: Missed
    start: Callable[[datetime], Any] | None
    run: Callable[[datetime], Any] | None
    limit: Limit = UNSET


def ticker_of(app: Registrar, name: str, jobs: Mapping[str, Job]) -> type[Ticker]:
    """Register the hidden actor that ticks for an app's schedules."""

    class AppTicker(Ticker, app=app, name=name):
        def job(self) -> Job:
            return jobs[self.key]

    AppTicker.kind.keys = jobs.__contains__
    AppTicker.kind.limit_of = lambda key: jobs[key].limit
    return AppTicker


class Ticker(Actor):
    """A schedule's actor. ``armed`` is the fingerprint of the schedule that its timer is set by."""

    armed: str = ""

    def job(self) -> Job:
        """What this schedule does."""
        raise NotImplementedError

    @read
    async def is_armed(self, fingerprint: str) -> bool:
        """Whether the timer is set by this very schedule."""
        return self.armed == fingerprint

    async def arm(self, fingerprint: str) -> None:
        """Set the timer, unless it is set by this very schedule."""
        job = self.job()
        if self.armed != fingerprint:
            self.armed = fingerprint
            self.tick.cron(job.schedule.expression, tz=job.schedule.tz, missed=job.missed)

    @timer
    async def tick(self) -> None:
        """A tick has come."""
        job, due_ms = self.job(), self._turn.due_at
        if job.start is not None:
            await job.start(moment(due_ms))
        else:
            await send(type(self).at(self.key).run, due_ms)

    async def run(self, due_ms: int) -> None:
        """Handle a tick."""
        handle = self.job().run
        assert handle is not None
        result = handle(moment(due_ms))
        if inspect.isawaitable(result):
            await result


def moment(at_ms: int) -> datetime:
    """A tick as a time."""
    return datetime.fromtimestamp(at_ms / 1000, UTC)


def fingerprint_of(job: Job) -> str:
    """What tells one schedule from another under the same name."""
    return ids.fingerprint(f"{job.schedule.expression}\0{job.schedule.tz}\0{job.missed}".encode())
