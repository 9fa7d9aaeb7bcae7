"""The lists of a whole home: events on their way, schedules, leases, processes, and who changed what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.commands.system import ListAudit, ListLeases, ListOutbox, ListSchedules, ListWorkers
from holdfast.coordination.census import reads_all
from holdfast.dashboard.pages.executions import since
from holdfast.dashboard.pages.listing import listed
from holdfast.dashboard.visit import PAGE_ROWS, YES
from holdfast.messaging.listing import QUEUES
from holdfast.patterns.lease_list import KINDS, STATUSES

if TYPE_CHECKING:
    from starlette.responses import Response

    from holdfast.commands import Command
    from holdfast.dashboard.visit import Visit


async def outbox(visit: Visit) -> Response:
    """Events that wait for the relay, for the bus, or for an operator."""

    def make(given: dict[str, str], after: str | None) -> Command[Any]:
        return ListOutbox(
            given.get("app"), given.get("queue"), after=after, limit=PAGE_ROWS, scan=given.get("scan") == YES
        )

    return await listed(visit, "outbox", ("app", "queue", "scan"), make, has_index=False, by_key="app", queues=QUEUES)


async def schedules(visit: Visit) -> Response:
    """When each schedule ticks next, and what it has missed."""

    def make(given: dict[str, str], after: str | None) -> Command[Any]:
        return ListSchedules(given.get("app"), after=after, limit=PAGE_ROWS, scan=given.get("scan") == YES)

    return await listed(visit, "schedules", ("app", "scan"), make)


async def leases(visit: Visit) -> Response:
    """Who has each lease, permit of a semaphore and role of a leader."""

    def make(given: dict[str, str], after: str | None) -> Command[Any]:
        return ListLeases(
            given.get("kind"), given.get("status"), after=after, limit=PAGE_ROWS, scan=given.get("scan") == YES
        )

    filters = ("kind", "status", "scan")
    return await listed(visit, "leases", filters, make, has_index=False, kinds=KINDS, statuses=STATUSES)


async def workers(visit: Visit) -> Response:
    """The processes that have the home open or own something in it."""

    def make(_given: dict[str, str], after: str | None) -> Command[Any]:
        return ListWorkers(after=after, limit=PAGE_ROWS)

    return await listed(visit, "workers", (), make, leases_left_out=reads_all(visit.app.runtime().home))


async def audit(visit: Visit) -> Response:
    """Who changed what, newest first."""

    def make(given: dict[str, str], after: str | None) -> Command[Any]:
        return ListAudit(since(given.get("since", ""), visit.now_ms), after=after, limit=PAGE_ROWS)

    return await listed(visit, "audit", ("since",), make)
