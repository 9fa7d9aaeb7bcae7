"""Limits of calls: the list of them, and one with which process has how many permits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.commands.limit import ListLimits, ShowLimit
from holdfast.dashboard.acting import offered, offered_on_many
from holdfast.dashboard.pages.listing import listed
from holdfast.dashboard.pages.queues import shown_rate
from holdfast.dashboard.rendering import render
from holdfast.dashboard.visit import PAGE_ROWS
from holdfast.errors import InvalidInput

if TYPE_CHECKING:
    from starlette.responses import Response

    from holdfast.commands import Command
    from holdfast.dashboard.visit import Visit


async def limits(visit: Visit) -> Response:
    """How each limit of the app stands, by name."""

    def make(_given: dict[str, str], after: str | None) -> Command[Any]:
        return ListLimits(after, PAGE_ROWS)

    return await listed(visit, "limits", (), make, actions=offered_on_many(visit, "limit"), shown_rate=shown_rate)


async def limit(visit: Visit) -> Response:
    """One limit, or a key of it: its numbers, and which process has how many permits."""
    query = visit.query("limit", "key")
    name, key = query.one("limit"), query.one("key") or ""
    if not name:
        raise InvalidInput("say which limit: ?limit=app/name")
    found = await visit.read(ShowLimit(name, key))
    actions = [] if key else offered(visit, "limit", "OPEN")
    return render(visit, "limit.html", limit=found, actions=actions, rate=shown_rate(found.rate))
