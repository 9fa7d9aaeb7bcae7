"""Cron: one hidden actor per schedule. Its timer starts a workflow or runs a handler at every tick.

A tick and what it starts commit together, so each tick counts once, however many workers run. The id of a workflow's
execution holds its tick. A handler runs as a message, which is retried if it fails.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any, cast

from msgspec import UNSET, Struct

from holdfast import ids
from holdfast.actors.definition import Actor, read
from holdfast.actors.kind import Registrar
from holdfast.actors.limited import Limit
from holdfast.actors.sending import send
from holdfast.actors.timers import timer
from holdfast.coordination.schedule import CronSchedule, Missed
from holdfast.errors import ConfigurationError
from holdfast.functions import is_generator, told
from holdfast.workflows.definition import Workflow


class Job(Struct, frozen=True):
    """What a schedule does at a tick: ``start`` starts a workflow, ``run`` calls a handler."""

    name: str
    schedule: CronSchedule
    missed: Missed
    start: Callable[[datetime], Any] | None
    run: Callable[[datetime], Any] | None
    limit: Limit = UNSET


def check_target(target: Any) -> None:
    """Raise ``ConfigurationError`` if a schedule can neither start it nor run it."""
    is_function = inspect.isfunction(target) or inspect.ismethod(target) or isinstance(target, partial)
    if isinstance(target, Workflow) or (is_function and not is_generator(target)):
        return
    raise ConfigurationError(
        f"a schedule must have a workflow, a def or an async def, got {told(target)}. Wrap it in a "
        "function: async def handler(tick: datetime) -> None: ..."
    )


def job_of(name: str, schedule: CronSchedule, missed: Missed, target: Any, limit: Limit) -> Job:
    """The job of a schedule whose target is a workflow or a handler. Raises ``ConfigurationError`` if the target takes
    more than one argument.
    """
    workflow = cast("Workflow[..., Any] | None", target if isinstance(target, Workflow) else None)
    function = cast("Callable[..., Any]", target if workflow is None else workflow.function)
    parameters = inspect.signature(function).parameters
    if len(parameters) > 1:
        raise ConfigurationError(
            f"schedule {name!r} calls {told(function)}, which has {len(parameters)} parameters: give it one, for the "
            "tick (a datetime), or none"
        )

    def args(tick: datetime) -> tuple[datetime, ...]:
        return (tick,) if parameters else ()

    if workflow is None:
        return Job(name, schedule, missed, None, lambda tick: function(*args(tick)), limit)

    async def start(tick: datetime) -> None:
        await workflow.start(*args(tick), id=f"{name}@{tick.isoformat()}")

    return Job(name, schedule, missed, start, None)


def ticker_of(app: Registrar, name: str, jobs: Mapping[str, Job]) -> type[Ticker]:
    """Register the hidden actor that ticks for an app's schedules."""

    class AppTicker(Ticker, app=app, name=name):
        def job(self) -> Job:
            return jobs[self.key]

    AppTicker.kind.keys = jobs.__contains__
    AppTicker.kind.limit_of = lambda key: jobs[key].limit
    return AppTicker


class Ticker(Actor):
    """A schedule's actor. ``armed`` is the fingerprint of the schedule that set its timer."""

    armed: str = ""

    def job(self) -> Job:
        """The job of this schedule."""
        raise NotImplementedError

    @read
    async def is_armed(self, fingerprint: str) -> bool:
        """Whether the schedule with this fingerprint set the timer."""
        return self.armed == fingerprint

    async def arm(self, fingerprint: str) -> None:
        """Set the timer, unless the schedule with this fingerprint set it."""
        job = self.job()
        if self.armed != fingerprint:
            self.armed = fingerprint
            self.tick.cron(job.schedule.expression, tz=job.schedule.tz, missed=job.missed)

    @timer
    async def tick(self) -> None:
        """Start the workflow of the tick that is due, or send the handler its message."""
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
    """The fingerprint of a schedule. It changes when the schedule does."""
    return ids.fingerprint(f"{job.schedule.expression}\0{job.schedule.tz}\0{job.missed}".encode())
