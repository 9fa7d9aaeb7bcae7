"""Routes of workflows: start, look, wait, signal, query, control."""

from __future__ import annotations

from collections.abc import Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from holdfast import ids
from holdfast.client import list_executions, select
from holdfast.codec import jsontext
from holdfast.coordination.salt import salt_of
from holdfast.errors import HoldfastError, InvalidInput, WaitTimeout
from holdfast.http.api import IDEMPOTENCY_KEY, Call, arguments
from holdfast.http.cursors import Cursors
from holdfast.http.messages import Response, json_response
from holdfast.http.problems import OWN_WORDS, fault
from holdfast.secret import redacted_json
from holdfast.workflows.awaiting import ended, head_of
from holdfast.workflows.launch import launch
from holdfast.workflows.operations.callback import masked
from holdfast.workflows.record import ENDED, NO_VALUE, check_id, decode_result, partition_of
from holdfast.workflows.starting import start_options
from holdfast.workflows.status import Status, status_of

if TYPE_CHECKING:
    from holdfast.items import Item
    from holdfast.workflows.handle import Handle

LISTED: Final = 100
TOLD_TO_WRITERS: Final = frozenset({"workflow", "id", "status", "version", "run", "created_at", "ended_at", "due_at"})
"""What a caller hears of what it started that may not read: neither a result, nor why there is none."""


async def start(call: Call) -> Response:
    """Start an execution, or find the one that was started with this id and input (G1, G11)."""
    app, query = call.app, call.query("wait", "timeout", "tag", "delay", "at")
    workflow, runtime = app.registry.workflow(call.names["workflow"]), app.runtime()
    given = call.names.get("id") or call.own_place(call.own_id(IDEMPOTENCY_KEY))
    options = start_options(
        id=given,
        tags=query.tags("tag"),
        timeout=query.one("timeout"),
        delay=query.one("delay"),
        at=query.moment("at"),
    )
    input = arguments(workflow.signature, call.request.body, runtime.limit_bytes)
    now = runtime.clock.now_ms()
    order = options.order(input, now, new_id=call.tenant + ids.new_ordered_id(now), tags={})
    wait_seconds = call.wait_seconds(query, 0.0)
    head = await launch(runtime.home, runtime.host, workflow, order, runtime.clock)
    if wait_seconds and head.status not in ENDED:
        head = await _ended_or_now(call, head.partition, wait_seconds)
    return _told(call, head)


async def look(call: Call) -> Response:
    """How an execution stands, and its result; with ``wait``, once it has ended or the time is up."""
    query = call.query("wait")
    wait_seconds = call.wait_seconds(query, 0.0)
    handle = _handle(call)
    partition = partition_of(handle.workflow, handle.id)
    head = await head_of(call.app.runtime(), partition)
    if wait_seconds and head.status not in ENDED:
        head = await _ended_or_now(call, partition, wait_seconds)
    return json_response(200, _execution(call, head))


async def _ended_or_now(call: Call, partition: str, wait_seconds: float) -> Item:
    runtime = call.app.runtime()
    try:
        await call.within(wait_seconds, ended(runtime, partition))
    except TimeoutError as error:
        if isinstance(error, HoldfastError):
            raise
    return await head_of(runtime, partition)


def _told(call: Call, head: Item) -> Response:
    status = status_of(head)
    told = _execution(call, head)
    if not call.may_read:
        told = {name: value for name, value in told.items() if name in TOLD_TO_WRITERS}
    place = f"/v1/workflows/{quote(status.workflow, safe='')}/{quote(status.id, safe='')}"
    return json_response(200 if head.status in ENDED else 202, told, ("location", place))


def _execution(call: Call, head: Item) -> dict[str, Any]:
    """An execution as callers see it: its status, and its result as it was recorded if there is one."""
    told = _plain(call, status_of(head))
    result = decode_result(head.body).result
    return told if result == NO_VALUE else told | {"result": Raw(redacted_json(bytes(result)))}


def _plain(call: Call, status: Status) -> dict[str, Any]:
    """What an execution failed with is told by its type, and in full if the app has declared that."""
    error = status.error
    if error is not None:
        type = status.error_type or ""
        declared = type in OWN_WORDS or call.app.registry.errors.declares(type)
        error = masked(error) if declared else _type_of(error)
    told: dict[str, Any] = msgspec.to_builtins(replace(status, error=error))
    return told


def _type_of(error: str) -> str:
    return error.partition(":")[0]


async def history(call: Call) -> Response:
    """What has happened in an execution's current run, without payloads."""
    call.query()
    events = await _handle(call).history()
    told = [event if event.error is None else replace(event, error=_type_of(event.error)) for event in events]
    return json_response(200, {"events": told})


async def list_all(call: Call) -> Response:
    """Executions, newest first, a page at a time."""
    query = call.query("status", "since", "until", "tag", "parent", "root", "after", "limit")
    workflow = call.names.get("workflow")
    if workflow is not None:
        call.app.registry.workflow(workflow)
    selection = select(
        workflow,
        status=query.one("status"),
        since=query.moment("since"),
        until=query.moment("until"),
        tags=query.tags("tag"),
        parent=query.execution("parent"),
        root=query.execution("root"),
        beginning=call.tenant,
    )
    runtime, told = call.app.runtime(), query.one("after")
    cursors = Cursors(await salt_of(runtime.home), call.tenant)
    after = None if told is None else cursors.open(told)
    listing = list_executions(runtime, selection, after=after, limit=query.count("limit", LISTED))
    try:
        page = await call.within(call.longest_wait_seconds, listing)
    except TimeoutError:
        raise WaitTimeout(
            "too much had to be read to find these: ask for fewer, or for one workflow or status"
        ) from None
    cursor = None if page.cursor is None else cursors.seal(page.cursor)
    return json_response(200, {"executions": [_plain(call, each) for each in page.executions], "cursor": cursor})


async def ask(call: Call) -> Response:
    """Ask an execution's body, by a function that it exposes."""
    call.query()
    handle, name = _handle(call), call.names["name"]
    try:
        answer = await handle.query(name)
        return json_response(200, {"value": Raw(redacted_json(jsontext.encode(answer)))})
    except HoldfastError:
        raise
    except Exception as error:
        raise fault(error, f"query {name!r}", "query_failed") from error


async def signal(call: Call) -> Response:
    """Send a named value to an execution."""
    call.query()
    id = call.own_id("Message-Id")
    await _handle(call).signal(call.names["name"], call.value(), id=id)
    return _done(call, "signal", 202)


class Reason(Struct, frozen=True, forbid_unknown_fields=True):
    """Why something is asked for."""

    reason: str | None = None


async def cancel(call: Call) -> Response:
    """Ask an execution to stop: its clean-up and its sagas run first."""
    call.query()
    reason = call.fields(Reason).reason
    return await _change(call, "cancel", _handle(call).cancel(reason or ""), 202)


async def terminate(call: Call) -> Response:
    """End an execution at once."""
    call.query()
    reason = call.fields(Reason).reason
    return await _change(call, "terminate", _handle(call).terminate(reason or "terminated"))


async def pause(call: Call) -> Response:
    """Let an execution start nothing new."""
    call.query()
    return await _change(call, "pause", _handle(call).pause())


async def resume(call: Call) -> Response:
    """Let a paused execution go on."""
    call.query()
    return await _change(call, "resume", _handle(call).resume())


async def delete(call: Call) -> Response:
    """Delete an execution that has ended, with all it has stored."""
    call.query()
    return await _change(call, "delete", _handle(call).delete())


async def move(call: Call) -> Response:
    """Pin an execution to the code that serves this."""
    call.query()
    return await _change(call, "move", _handle(call).move())


async def retry(call: Call) -> Response:
    """Go on with an execution that ended badly."""
    call.query()
    return await _change(call, "retry", _handle(call).retry())


async def retry_now(call: Call) -> Response:
    """Let steps that wait for their next attempts make them now."""
    call.query()
    return await _change(call, "retry-now", _handle(call).retry_now(), 202)


class Fork(Struct, frozen=True, forbid_unknown_fields=True):
    """Which execution to make, and how much of the history it shares."""

    id: str
    before: str | None = None


def may_fork(call: Call) -> None:
    """Raise ``Problem`` if the new execution would not be the caller's. A body that is wrong is told by ``fork``."""
    with suppress(InvalidInput):
        call.own_place(call.fields(Fork).id)


async def fork(call: Call) -> Response:
    """Start a new execution from the history of another one."""
    call.query()
    wanted = call.fields(Fork)
    made = await _handle(call).fork(wanted.id, before=wanted.before)
    return _told(call, await head_of(call.app.runtime(), partition_of(made.workflow, made.id)))


async def _change(call: Call, action: str, change: Coroutine[Any, Any, None], status: int = 200) -> Response:
    await change
    return _done(call, action, status)


def _done(call: Call, action: str, status: int) -> Response:
    return json_response(status, {"workflow": call.names["workflow"], "id": call.names["id"], "action": action})


def _handle(call: Call) -> Handle[Any]:
    return call.app.handle(call.names["workflow"], check_id(call.names["id"]))
