"""The commands about a whole home: its queues of events, schedules, leases, processes, and the audit."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from holdfast.commands.context import Command, Context
from holdfast.commands.named import Named
from holdfast.commands.right import Right
from holdfast.coordination.audit import AuditPage, list_rows
from holdfast.errors import InvalidInput
from holdfast.keys import check_limit
from holdfast.messaging.listing import WaitingPage, list_waiting
from holdfast.messaging.schedules import SchedulePage, list_schedules
from holdfast.patterns.lease_list import LeasePage, list_leases
from holdfast.patterns.workers import WorkerPage, list_workers

LISTED: Final = 100


class ListOutbox(Command[WaitingPage], frozen=True, tag="outbox-list"):
    """List the events on their way, without their payloads: of one app or all, in one ``queue`` or all."""

    app: str | None = None
    queue: str | None = None
    after: str | None = None
    limit: int = LISTED
    scan: bool = False

    async def perform(self, context: Context) -> WaitingPage:
        home = context.app.runtime().home
        return await list_waiting(home, self.app, queue=self.queue, after=self.after, limit=self.limit, scan=self.scan)


class ListSchedules(Command[SchedulePage], frozen=True, tag="schedule-list"):
    """List the schedules of one app or all: when each ticks next, and what it has missed."""

    app: str | None = None
    after: str | None = None
    limit: int = LISTED
    scan: bool = False

    async def perform(self, context: Context) -> SchedulePage:
        return await list_schedules(context.app.runtime(), self.app, after=self.after, limit=self.limit, scan=self.scan)


class ListLeases(Command[LeasePage], frozen=True, tag="lease-list"):
    """List leases, permits of semaphores and roles of leaders: who has each, and until when."""

    kind: str | None = None
    status: str | None = None
    after: str | None = None
    limit: int = LISTED
    scan: bool = False

    async def perform(self, context: Context) -> LeasePage:
        runtime = context.app.runtime()
        return await list_leases(
            runtime, self.kind, status=self.status, after=self.after, limit=self.limit, scan=self.scan
        )


class ListWorkers(Command[WorkerPage], frozen=True, tag="worker-list"):
    """List the processes that have the home open or own something in it."""

    after: str | None = None
    limit: int = LISTED
    scan: bool = False

    async def perform(self, context: Context) -> WorkerPage:
        return await list_workers(context.app.runtime(), after=self.after, limit=self.limit, scan=self.scan)


class ListAudit(Command[AuditPage], frozen=True, tag="audit-list"):
    """List who changed what by a command, newest first."""

    since: datetime | None = None
    after: str | None = None
    limit: int = LISTED

    async def perform(self, context: Context) -> AuditPage:
        check_limit(self.limit)
        if self.since is not None and self.since.tzinfo is None:
            raise InvalidInput(f"{self.since} has no time zone; write datetime.now(UTC), for example")
        since_ms = 0 if self.since is None else round(self.since.timestamp() * 1_000)
        runtime = context.app.runtime()
        return await list_rows(runtime.home.store, runtime.clock, since_ms=since_ms, after=self.after, limit=self.limit)


COMMANDS: Final[tuple[Named, ...]] = (
    Named("outbox list", ListOutbox, Right.READ),
    Named("schedule list", ListSchedules, Right.READ),
    Named("lease list", ListLeases, Right.READ),
    Named("worker list", ListWorkers, Right.READ),
    Named("audit list", ListAudit, Right.CONTROL),
)
