"""Routes about the whole home: for callers that are not confined to a tenant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.clock import moment
from holdfast.commands.overview import Overview
from holdfast.commands.shown import shown
from holdfast.commands.system import LISTED, ListAudit, ListLeases, ListOutbox, ListSchedules, ListWorkers
from holdfast.http.executions import plain_status
from holdfast.http.messages import Response, json_response
from holdfast.http.pages import cursors_of, listed
from holdfast.http.problems import type_of_error

if TYPE_CHECKING:
    from msgspec import Struct

    from holdfast.commands import Command
    from holdfast.http.api import Call, Query


async def whole_home(call: Call) -> None:
    """Refuse a caller that is confined to a tenant."""
    call.check_whole_home()


async def overview(call: Call) -> Response:
    """How the home stands. Texts of errors are included only if the app declares their types."""
    call.query()
    found = await listed(call, Overview())
    told: dict[str, Any] = msgspec.to_builtins(found)
    return json_response(200, told | {"failures": [plain_status(call, each) for each in found.failures]})


async def list_outbox(call: Call) -> Response:
    """Events on their way, in the order of delivery, a page at a time, without their payloads."""
    query = call.query("app", "queue", "after", "limit", "scan")
    after, limit = await _page(call, query)
    command = ListOutbox(query.one("app"), query.one("queue"), after=after, limit=limit, scan=_scan(call, query))
    return await _listed(call, command, "events")


async def list_schedules(call: Call) -> Response:
    """Schedules, by app and name, a page at a time."""
    query = call.query("app", "after", "limit", "scan")
    after, limit = await _page(call, query)
    found = await listed(call, ListSchedules(query.one("app"), after=after, limit=limit, scan=_scan(call, query)))
    told = [
        msgspec.to_builtins(each) | {"error": None if each.error is None else type_of_error(each.error)}
        for each in found.items
    ]
    return json_response(200, {"schedules": told, "cursor": (await cursors_of(call)).sealed(found.after)})


async def list_leases(call: Call) -> Response:
    """Leases, permits of semaphores and roles of leaders, by kind and name, a page at a time."""
    query = call.query("kind", "status", "after", "limit", "scan")
    after, limit = await _page(call, query)
    command = ListLeases(query.one("kind"), query.one("status"), after=after, limit=limit, scan=_scan(call, query))
    return await _listed(call, command, "leases")


async def list_workers(call: Call) -> Response:
    """The processes of the home, by name, a page at a time."""
    query = call.query("after", "limit", "scan")
    after, limit = await _page(call, query)
    return await _listed(call, ListWorkers(after=after, limit=limit, scan=_scan(call, query)), "workers")


async def list_audit(call: Call) -> Response:
    """Who changed what, newest first, a page at a time."""
    query = call.query("since", "after", "limit")
    after, limit = await _page(call, query)
    found = await listed(call, ListAudit(query.moment("since"), after=after, limit=limit))
    told = [shown(each) | {"at": moment(each.at)} for each in found.items]
    return json_response(200, {"changes": told, "cursor": (await cursors_of(call)).sealed(found.after)})


async def _page(call: Call, query: Query) -> tuple[str | None, int]:
    """Where a page begins, and how long it may be."""
    return (await cursors_of(call)).opened(query.one("after")), query.count("limit", LISTED)


def _scan(call: Call, query: Query) -> bool:
    """Whether the list may read the whole table, where that is billed."""
    return query.flag("scan") or call.scans


async def _listed(call: Call, command: Command[Any], name: str) -> Response:
    """The page that a command finds: its items under ``name``, what else it says, and its cursor."""
    found: Struct = await listed(call, command)
    told = shown(found)
    items, after = told.pop("items"), told.pop("after")
    return json_response(200, {name: items, **told, "cursor": (await cursors_of(call)).sealed(after)})
