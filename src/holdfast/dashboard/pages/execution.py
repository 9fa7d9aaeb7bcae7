"""One execution: what has happened, what it waits for, what is wrong with it, and what can be done about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from markupsafe import Markup
from msgspec import UNSET

from holdfast.clock import moment
from holdfast.commands.execution import ListExecutions, Show
from holdfast.commands.shown import shown
from holdfast.dashboard.acting import offered
from holdfast.dashboard.actions import ACTION_NAMED
from holdfast.dashboard.gantt import chart_of, events_of
from holdfast.dashboard.pages.actors import text_of
from holdfast.dashboard.rendering import render
from holdfast.errors import InvalidInput
from holdfast.http.authentication import check_place
from holdfast.http.showing import readable
from holdfast.workflows.record import OPEN, ExecutionRef, check_id, partition_of
from holdfast.workflows.view import View
from holdfast.workflows.waits import CALLBACK, CHILD, SIGNAL

if TYPE_CHECKING:
    from starlette.responses import Response

    from holdfast.dashboard.visit import Visit
    from holdfast.workflows.status import Status

MOST_LINES: Final = 500
MOST_CHILDREN: Final = 20
CHILDREN_AMONG: Final = 100
"""Children are looked for among this many of the newest executions."""

LABELS: Final = {action.name: action.label for action in ACTION_NAMED.values() if action.of == "execution"}


async def execution(visit: Visit) -> Response:
    """One execution, by its workflow and its id."""
    query = visit.query("workflow", "id")
    workflow, id = query.one("workflow"), query.one("id")
    if not workflow or id is None:
        raise InvalidInput("say which execution: ?workflow=...&id=...")
    check_place(visit.caller, check_id(id))
    may = visit.may_inspect
    command = Show(workflow, id, payloads=may, tracebacks=may, most_lines=MOST_LINES)
    found = readable(visit, await visit.read(command))
    view = msgspec.convert(shown(found), View)  # every text in it without tokens, secrets and passwords of URLs
    children = await _children(visit, view)
    status, now = view.execution, moment(visit.now_ms)
    events = events_of(view, now)
    begun = min([status.created_at, *(event.began or event.at for event in events)])
    return render(
        visit,
        "execution.html",
        view=view,
        status=status,
        machine=await _machine(visit, status),
        chart=chart_of(events, begun, status.ended_at or now),
        payloads=_payloads(view),
        children=children,
        most_children=MOST_CHILDREN,
        values={n: text_of(line.value) for n, line in enumerate(view.timeline) if line.value is not UNSET},
        actions=offered(visit, "execution", status.status),
        labels=LABELS,
        operations=[line.name for line in view.timeline if line.kind == "step"],
        signals=[each.name for each in status.waits if each.kind == SIGNAL],
        callbacks=[each.operation for each in status.waits if each.kind == CALLBACK and each.operation],
        is_open=status.status in OPEN,
    )


async def _children(visit: Visit, view: View) -> list[Status]:
    """The newest of the executions that it has called, if it is seen to have called any."""
    status = view.execution
    kinds = {line.kind for line in view.timeline} | {wait.kind for wait in status.waits}
    if CHILD not in kinds or await visit.must_ask(None):
        return []
    command = ListExecutions(
        parent=ExecutionRef(status.workflow, status.id),
        beginning=visit.tenant,
        limit=CHILDREN_AMONG,
        most_read=CHILDREN_AMONG,
    )
    return list((await visit.read(command)).executions[:MOST_CHILDREN])


async def _machine(visit: Visit, status: Status) -> Markup | None:
    """The picture of a state machine, for callers who may see its definition; it is a part of the input."""
    if not visit.may_inspect or status.workflow not in visit.app.registry.machines:
        return None
    from holdfast.asl.drawing import picture_of  # noqa: PLC0415 - only where there are machines

    # Every text in it is escaped where it is drawn.
    return Markup(await picture_of(visit.app.runtime(), partition_of(status.workflow, status.id)))  # noqa: S704


def _payloads(view: View) -> dict[str, str]:
    """Input and result as text, without secrets and tokens."""
    found = {"Input": view.input, "Result": view.result}
    return {name: text_of(value) for name, value in found.items() if value is not UNSET}
