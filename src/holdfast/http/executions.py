"""Routes of workflows: start, look, wait, signal, query, control."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from holdfast import ids
from holdfast.commands import NAMED
from holdfast.commands.arguments import given
from holdfast.commands.execution import (
    LISTED,
    Cancel,
    Fork,
    ListExecutions,
    OnExecution,
    Query,
    ReadHistory,
    Signal,
    Start,
    Status,
    Terminate,
)
from holdfast.commands.right import Right
from holdfast.errors import HoldfastError, InvalidInput
from holdfast.http.api import IDEMPOTENCY_KEY, Call, Handler, Reader
from holdfast.http.messages import Response, json_response
from holdfast.http.pages import cursors_of, listed
from holdfast.http.problems import OWN_WORDS, fault, type_of_error
from holdfast.secret import redacted_json
from holdfast.texts import masked
from holdfast.workflows import status as standing
from holdfast.workflows.finding import head_of
from holdfast.workflows.history import Event
from holdfast.workflows.record import ENDED, NO_VALUE, check_id, decode_result
from holdfast.workflows.status import status_of
from holdfast.workflows.view import by_type
from holdfast.workflows.wait_for_end import ended

if TYPE_CHECKING:
    from holdfast.items import Item

TOLD_TO_WRITERS: Final = frozenset({"workflow", "id", "status", "version", "run", "created_at", "ended_at", "due_at"})
"""What a caller without the right to read is told of an execution that it started: no result, and no error."""


async def start(call: Call) -> Response:
    """Start an execution, or find the one that was started with this id and input (G1, G11)."""
    query = call.query("wait", "timeout", "tag", "delay", "at")
    command = Start(
        call.names["workflow"],
        given(call.request.body),
        id=call.names.get("id") or call.own_place(call.own_id(IDEMPOTENCY_KEY)),
        tags=query.tags("tag"),
        timeout=query.one("timeout"),
        delay=query.one("delay"),
        at=query.moment("at"),
    )
    wait_seconds = call.wait_seconds(query, 0.0)
    made_id = call.tenant + ids.new_ordered_id(call.app.runtime().clock.now_ms())
    head = await call.perform(command, made_id)
    return _told(call, await _stands(call, head, wait_seconds))


async def look(call: Call) -> Response:
    """The status of an execution, and its result; with ``wait``, once it has ended or the time is up."""
    wait_seconds = call.wait_seconds(call.query("wait"), 0.0)
    head = await call.perform(Status(*place_in(call)))
    return json_response(200, _execution(call, await _stands(call, head, wait_seconds)))


async def _stands(call: Call, head: Item, wait_seconds: float) -> Item:
    """The head once the execution has ended, or the time is up."""
    if not wait_seconds or head.status in ENDED:
        return head
    runtime = call.app.runtime()
    try:
        await call.within(wait_seconds, ended(runtime, head.partition))
    except TimeoutError as error:
        if isinstance(error, HoldfastError):
            raise
    return await head_of(runtime, head.partition)


def _told(call: Call, head: Item) -> Response:
    status = status_of(head)
    told = _execution(call, head)
    if not call.may_read:
        told = {name: value for name, value in told.items() if name in TOLD_TO_WRITERS}
    place = f"/v1/workflows/{quote(status.workflow, safe='')}/{quote(status.id, safe='')}"
    return json_response(200 if head.status in ENDED else 202, told, ("location", place))


def _execution(call: Call, head: Item) -> dict[str, Any]:
    """An execution as callers see it: its status, and its recorded result if there is one."""
    told = plain_status(call, status_of(head))
    result = decode_result(head.body).result
    return told if result == NO_VALUE else told | {"result": Raw(redacted_json(bytes(result)))}


def plain_status(call: Call, status: standing.Status) -> dict[str, Any]:
    """A status as JSON. The text of an error is included only if the app declares its type; else its type is."""
    seen = replace(status, error=told_error(call, status), waits=by_type(status.waits))
    told: dict[str, Any] = msgspec.to_builtins(seen)
    return told


def told_error(call: Reader, status: standing.Status) -> str | None:
    """What a caller without the right to inspect is told of the error of an execution."""
    if status.error is None:
        return None
    type = status.error_type or ""
    declared = type in OWN_WORDS or call.app.registry.errors.declares(type)
    return masked(status.error) if declared else type_of_error(status.error)


async def history(call: Call) -> Response:
    """The events of an execution's current run, without payloads; with ``tracebacks``, where their errors were raised,
    for those who may inspect.
    """
    tracebacks = call.query("tracebacks").flag("tracebacks")
    if tracebacks:
        call.check_right(Right.INSPECT)
    found = await call.perform(ReadHistory(*place_in(call)))
    return json_response(200, {"events": [_event(each, tracebacks=tracebacks) for each in found.events]})


def _event(event: Event, *, tracebacks: bool) -> Event:
    """An event as callers see it: the types of errors, and their tracebacks, which have their messages too."""
    if event.error is None or event.traceback is None:
        return event
    return replace(event, error=type_of_error(event.error), traceback=masked(event.traceback) if tracebacks else None)


FILTERS: Final = ("status", "since", "until", "tag", "parent", "root", "waits_for", "error")


async def list_all(call: Call) -> Response:
    """Executions, newest first, a page at a time."""
    query = call.query(*FILTERS, "after", "limit", "scan")
    cursors = await cursors_of(call)
    command = ListExecutions(
        call.names.get("workflow"),
        status=query.one("status"),
        since=query.moment("since"),
        until=query.moment("until"),
        tags=query.tags("tag"),
        parent=query.execution("parent"),
        root=query.execution("root"),
        beginning=call.tenant,
        after=cursors.opened(query.one("after")),
        limit=query.count("limit", LISTED),
        waits_for=query.one("waits_for"),
        error=query.one("error") or "",
        scan=query.flag("scan") or call.scans,
    )
    if command.error:
        call.check_right(Right.INSPECT)  # who may not see the texts of errors finds nothing by them
    page = await listed(call, command)
    told = [plain_status(call, each) for each in page.executions]
    return json_response(200, {"executions": told, "cursor": cursors.sealed(page.cursor)})


async def ask(call: Call) -> Response:
    """Query an execution by a function that its body exposes."""
    call.query()
    name = call.names["name"]
    try:
        answer = await call.perform(Query(*place_in(call), name))
    except HoldfastError:
        raise
    except Exception as error:
        raise fault(error, f"query {name!r}", "query_failed") from error
    return json_response(200, {"value": Raw(redacted_json(bytes(answer)))})


async def signal(call: Call) -> Response:
    """Send a named value to an execution."""
    call.query()
    id = call.own_id("Message-Id")
    await call.perform(Signal(*place_in(call), call.names["name"], call.value(), id))
    return _done(call, "signal", 202)


class Reason(Struct, frozen=True, forbid_unknown_fields=True):
    """The reason for a request."""

    reason: str | None = None


async def cancel(call: Call) -> Response:
    """Ask an execution to stop: its clean-up and its sagas run first."""
    call.query()
    reason = call.fields(Reason).reason or ""
    await call.perform(Cancel(*place_in(call), reason))
    return _done(call, "cancel", 202)


async def terminate(call: Call) -> Response:
    """End an execution at once."""
    call.query()
    reason = call.fields(Reason).reason or "terminated"
    await call.perform(Terminate(*place_in(call), reason))
    return _done(call, "terminate")


def change(command: type[OnExecution[None]], status: int = 200) -> Handler:
    """The route of a command that needs only the execution."""
    action = NAMED[command].name

    async def performed(call: Call) -> Response:
        call.query()
        await call.perform(command(*place_in(call)))
        return _done(call, action, status)

    return performed


class ForkFields(Struct, frozen=True, forbid_unknown_fields=True):
    """The id of the new execution, and the end of the history that it shares."""

    id: str
    before: str | None = None


def may_fork(call: Call) -> None:
    """Raise ``Problem`` if the new execution would not be the caller's. ``fork`` reports a body that is wrong."""
    with suppress(InvalidInput):
        call.own_place(call.fields(ForkFields).id)


async def fork(call: Call) -> Response:
    """Start a new execution from the history of another one."""
    call.query()
    wanted = call.fields(ForkFields)
    made = await call.perform(Fork(*place_in(call), wanted.id, wanted.before))
    return _told(call, await call.perform(Status(made.workflow, made.id)))


def _done(call: Call, action: str, status: int = 200) -> Response:
    return json_response(status, {"workflow": call.names["workflow"], "id": call.names["id"], "action": action})


def place_in(call: Call) -> tuple[str, str]:
    """The workflow and the id in the path."""
    return call.names["workflow"], check_id(call.names["id"])
