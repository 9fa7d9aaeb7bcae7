"""The list of executions: the address is the query, so every list is a link that can be kept."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from holdfast.client import StatusPage
from holdfast.clock import moment
from holdfast.commands.execution import ListExecutions
from holdfast.commands.right import Right
from holdfast.dashboard.acting import offered_on_many
from holdfast.dashboard.rendering import render
from holdfast.dashboard.visit import MOST_READ, PAGE_ROWS, YES
from holdfast.duration import seconds
from holdfast.errors import InvalidInput
from holdfast.http.api import Query
from holdfast.workflows.record import STATUSES, parse_ref
from holdfast.workflows.waits import KINDS

if TYPE_CHECKING:
    from starlette.responses import Response

    from holdfast.dashboard.visit import Visit

FILTERS: Final = ("workflow", "status", "tag", "since", "id", "waits_for", "error", "parent", "scan", "after")


class Filters(Struct, frozen=True, kw_only=True):
    """What the form above the list says."""

    workflow: str = ""
    status: str = ""
    tag: list[str] = []
    since: str = ""
    id: str = ""
    waits_for: str = ""
    error: str = ""
    parent: str = ""
    scan: str = ""

    @classmethod
    def of(cls, query: Query) -> Filters:
        """What an address asks for."""
        texts = {name: (query.one(name) or "").strip() for name in cls.__struct_fields__ if name != "tag"}
        return cls(tag=[each.strip() for each in query.all("tag") if each.strip()], **texts)

    @property
    def given(self) -> dict[str, Any]:
        """What is not left open."""
        return {name: value for name in self.__struct_fields__ if (value := getattr(self, name))}


async def executions(visit: Visit) -> Response:
    """Fifty executions, newest first."""
    query = visit.query(*FILTERS)
    filters, cursors = Filters.of(query), await visit.cursors()
    command = ListExecutions(
        workflow=filters.workflow or None,
        status=filters.status or None,
        since=since(filters.since, visit.now_ms),
        tags=tags_of(filters.tag),
        parent=parse_ref("parent", filters.parent) if filters.parent else None,
        waits_for=filters.waits_for or None,
        error=filters.error,
        beginning=own_beginning(visit, filters.id),
        after=cursors.opened(query.one("after")),
        limit=PAGE_ROWS,
        most_read=MOST_READ,
        scan=filters.scan == YES,
    )
    if filters.error:
        visit.check_right(Right.INSPECT)  # who may not see the texts of errors finds nothing by them
    must_ask = await visit.must_ask(filters.scan)
    page = StatusPage((), None) if must_ask else await visit.read(command)
    return render(
        visit,
        "executions.html",
        rows=page.executions,
        next_cursor=cursors.sealed(page.cursor),
        is_first=query.one("after") is None,
        most_read=MOST_READ,
        must_ask=must_ask,
        **choices(visit, filters),
    )


def choices(visit: Visit, filters: Filters) -> dict[str, Any]:
    """What the forms of the list offer."""
    return {
        "filters": filters,
        "statuses": STATUSES,
        "waits": KINDS,
        "workflows": sorted(visit.app.registry.workflows),
        "actions": offered_on_many(visit, "execution"),
    }


def since(text: str, now_ms: int) -> datetime | None:
    """A moment, written as a length of time before now, or as a moment. Raises ``InvalidInput``."""
    if not text:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        try:
            return moment(now_ms) - timedelta(seconds=seconds(text))
        except OverflowError:
            raise InvalidInput(f"{text[:60]!r} is longer ago than time goes back") from None
    if found.tzinfo is None:
        raise InvalidInput(f"{text!r} has no time zone: write {text}Z for UTC")
    return found


def tags_of(texts: list[str]) -> dict[str, str]:
    """Tags, each written ``key=value``. Raises ``InvalidInput``."""
    found: dict[str, str] = {}
    for each in texts:
        key, equals, value = each.partition("=")
        if not (key and equals):
            raise InvalidInput("write a tag as key=value")
        found[key] = value
    return found


def own_beginning(visit: Visit, beginning: str) -> str:
    """What ids begin with, within what the caller is confined to."""
    return beginning if beginning.startswith(visit.tenant) else visit.tenant + beginning
