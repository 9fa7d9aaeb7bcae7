"""The route that shows one execution: as the command line does, and to readers without what errors say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from holdfast.clock import moment
from holdfast.commands.execution import Show
from holdfast.commands.right import Right
from holdfast.commands.shown import shown
from holdfast.http.executions import place_in, told_error
from holdfast.http.messages import Response, json_response
from holdfast.workflows.diagnosis import diagnose
from holdfast.workflows.record import DERIVED_ID_MARK
from holdfast.workflows.view import View, for_readers

if TYPE_CHECKING:
    from holdfast.http.api import Call, Reader

MOST_LINES: Final = 1_000


async def show(call: Call) -> Response:
    """One execution: its timeline, what it waits for, and what is wrong. ``payloads`` and ``tracebacks`` are for those
    who may inspect, as are the messages of errors.
    """
    query = call.query("payloads", "tracebacks")
    payloads, tracebacks = query.flag("payloads"), query.flag("tracebacks")
    if payloads or tracebacks:
        call.check_right(Right.INSPECT)
    view = await call.perform(Show(*place_in(call), payloads=payloads, tracebacks=tracebacks, most_lines=MOST_LINES))
    return json_response(200, shown(readable(call, view)))


def readable(call: Reader, view: View) -> View:
    """The part of a view that this caller may see, with what it says of troubles."""
    view = replace(view, others=tuple(each for each in view.others if _may_see(call, each.id)))
    if not call.may(Right.INSPECT):
        view = for_readers(view, lambda status: told_error(call, status))
    return replace(view, troubles=diagnose(view, moment(call.app.runtime().clock.now_ms())))


def _may_see(call: Reader, id: str) -> bool:
    """Whether an execution is the caller's own, or was started by one that is."""
    return id.startswith((call.tenant, DERIVED_ID_MARK))
