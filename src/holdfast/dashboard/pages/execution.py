"""One execution: what has happened, what it waits for, and what can be done about it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from holdfast import ids
from holdfast.clock import moment
from holdfast.codec import jsontext
from holdfast.dashboard.acting import offered
from holdfast.dashboard.gantt import chart_of
from holdfast.dashboard.pages.actors import text_of
from holdfast.dashboard.rendering import render
from holdfast.errors import InvalidInput
from holdfast.http.authentication import check_place
from holdfast.workflows.history import last_traceback, load, timeline
from holdfast.workflows.record import NO_VALUE, OPEN, check_id, partition_of
from holdfast.workflows.status import status_of

if TYPE_CHECKING:
    from starlette.responses import Response

    from holdfast.dashboard.visit import Visit

MOST_EVENTS: Final = 500


async def execution(visit: Visit) -> Response:
    """One execution, by its workflow and its id."""
    query = visit.query("workflow", "id")
    workflow, id = query.one("workflow"), query.one("id")
    if not workflow or id is None:
        raise InvalidInput("say which execution: ?workflow=...&id=...")
    check_place(visit.caller, check_id(id))
    runtime = visit.app.runtime()
    recorded = await load(runtime.home.store, partition_of(workflow, id))
    status, events = status_of(recorded.head), timeline(recorded.entries)
    until = status.ended_at or moment(visit.now_ms)
    begun = min([status.created_at, *(event.began or event.at for event in events)])
    traceback = last_traceback(recorded)
    return render(
        visit,
        "execution.html",
        status=status,
        chart=chart_of(events, begun, until),
        events=events[-MOST_EVENTS:],
        events_left_out=max(0, len(events) - MOST_EVENTS),
        traceback=traceback if visit.may_inspect else None,
        hides_traceback=traceback is not None and not visit.may_inspect,
        payloads=_payloads(recorded.record.input, recorded.record.result) if visit.may_inspect else {},
        owner=recorded.head.owner,
        owner_alive=recorded.head.owner is not None and runtime.home.doorbell.alive(recorded.head.owner),
        actions=offered(visit, "execution", status.status),
        operations=[event.name for event in events if event.kind == "step"],
        is_open=status.status in OPEN,
        form_id=ids.new_id(),
    )


def _payloads(input: Any, result: Any) -> dict[str, str]:
    """Input and result as text, without secrets and tokens."""
    found = {"Input": payload_text(bytes(input))}
    return found if result == NO_VALUE else found | {"Result": payload_text(bytes(result))}


def payload_text(data: bytes) -> str:
    """JSON for people, cut if it is very long."""
    if jsontext.nests_too_deep(data):
        return "nested too deep to be shown"
    return text_of(json.loads(data))
