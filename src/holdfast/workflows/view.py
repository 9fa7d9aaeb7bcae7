"""One execution as it is looked at: what every surface shows of it. Nothing is replayed, and nothing is changed."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET, Raw, Struct, UnsetType
from msgspec.structs import replace

from holdfast.clock import between, iso, moment
from holdfast.coordination.inbox import INBOX_PREFIX, MARKED, USED
from holdfast.errors import NotFound, StoreUnusable
from holdfast.flow.declarations import queue_at
from holdfast.flow.record import QUEUED
from holdfast.flow.standing import QueueWait, why_it_waits
from holdfast.replay.entries import Done, Entry, Failed, Progressed, Received
from holdfast.texts import masked
from holdfast.workflows.finding import head_of
from holdfast.workflows.handovers import Handover, handovers_of
from holdfast.workflows.history import Event, Recorded, last_traceback, load, timeline, told
from holdfast.workflows.record import (
    MAILBOX_PREFIX,
    NO_VALUE,
    Signal,
    decode_message,
    is_there,
    partition_of,
)
from holdfast.workflows.status import Awaited, Status, awaited_by, status_of, told_waits
from holdfast.workflows.unclaimed import TERMINATOR
from holdfast.workflows.waits import CHILD, EXECUTION, SIGNAL

if TYPE_CHECKING:
    from holdfast.items import Item
    from holdfast.kernel.runtime import Runtime
    from holdfast.workflows.record import ExecutionRecord

MOST_MESSAGES: Final = 100
"""How many messages of an inbox are looked at."""


class Line(Struct, frozen=True, kw_only=True):
    """One line of a timeline. ``at`` is when it ended; ``value`` and ``traceback`` are set if asked for."""

    at: str | None
    kind: str
    name: str
    outcome: str
    attempts: int = 1
    began: str | None = None
    took_ms: int | None = None
    error: str | None = None
    traceback: str | UnsetType = UNSET
    value: Any = UNSET


class Untaken(Struct, frozen=True, omit_defaults=True):
    """A signal that has come and that the body has not taken. ``recorded``: the body could have it. ``meant`` is the
    name of an awaited signal that looks like it.
    """

    name: str
    recorded: bool
    meant: str | None = None


class Other(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An execution that this one waits for. ``status`` is ``None`` if it is not there."""

    workflow: str
    id: str
    status: str | None = None
    error: str | None = None
    blocked: str | None = None
    waits: tuple[Awaited, ...] = ()


class Trouble(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is the case, and what can be done about it. ``tone`` is ``bad``, ``warn`` or ``info``.

    ``title`` says it in a few words, ``text`` in a sentence or two. ``commands`` are the names of those that help,
    ``line`` is one for the shell, which performs one of them or looks further.
    """

    tone: str
    title: str
    text: str
    commands: tuple[str, ...] = ()
    line: str | None = None


class View(Struct, frozen=True, kw_only=True):
    """All that is shown of an execution. ``input`` and ``result`` are set only if asked for. ``traceback`` is that of
    the error that ended it, or of the last one if it goes on.

    ``lines_left_out`` are older than those of the ``timeline``, and ``waits_left_out`` come after those of the status.
    ``owner_until`` is the end of its owner's lease. ``others`` are the executions that it waits for,
    ``queue`` is why it waits for a slot.
    """

    execution: Status
    timeline: list[Line]
    traceback: str | None = None
    lines_left_out: int = 0
    owner: str | None = None
    owner_alive: bool | None = None
    owner_until: str | None = None
    parked: bool = False
    waits_left_out: int = 0
    queue: QueueWait | None = None
    untaken: tuple[Untaken, ...] = ()
    others: tuple[Other, ...] = ()
    troubles: tuple[Trouble, ...] = ()
    input: Any | UnsetType = UNSET
    result: Any | UnsetType = UNSET


async def view_of(
    runtime: Runtime,
    partition: str,
    *,
    payloads: bool = False,
    tracebacks: bool = False,
    most_lines: int | None = None,
) -> View:
    """Read an execution in order to show it; ``troubles`` are left to ``diagnose``. Raises ``NotFound``.

    ``payloads`` are the input, the result, the values of operations and the arguments of steps under way.
    ``most_lines`` limits the timeline to its last ones.
    """
    home = runtime.home
    await head_of(runtime, partition)
    recorded = await load(home.store, partition)
    head, record = recorded.head, recorded.record
    lines = await _lines(recorded, runtime, payloads=payloads, tracebacks=tracebacks)
    shown = lines if most_lines is None else lines[-most_lines:]
    waits = told_waits(head, record)
    over = {entry.op for entry in recorded.entries if isinstance(entry, (Done, Failed))}
    awaited = awaited_by(head, record, arguments=payloads)
    status = replace(status_of(head), waits=tuple(each for each in awaited if each.operation not in over))
    return View(
        execution=status,
        timeline=shown,
        traceback=last_traceback(recorded),
        lines_left_out=len(lines) - len(shown),
        owner=head.owner,
        owner_alive=None if head.owner is None else home.doorbell.alive(head.owner),
        owner_until=None if head.owner is None or head.lease_until is None else iso(moment(head.lease_until)),
        parked=record.parked,
        waits_left_out=0 if waits is None else waits.more,
        queue=await _queue(runtime, head, record),
        untaken=await _untaken(runtime, recorded, status),
        others=await _others(runtime, status),
        input=_value(record.input) if payloads else UNSET,
        result=_value(record.result) if payloads and record.result != NO_VALUE else UNSET,
    )


async def _queue(runtime: Runtime, head: Item, record: ExecutionRecord) -> QueueWait | None:
    if head.status != QUEUED or record.queued is None:
        return None
    declared = queue_at(record.queued.gate, runtime.registry.queues)
    try:
        return await why_it_waits(runtime, head.partition, record.queued, declared)
    except NotFound:  # no worker with its queue has ever run, and its code is not here
        return None


def for_readers(view: View, told_error: Callable[[Status], str | None]) -> View:
    """The view for callers who may not inspect: of errors their types, as what they say may be data of users.
    ``told_error`` is what they are told of the one that ended it.
    """
    status = view.execution
    return replace(
        view,
        execution=replace(status, error=told_error(status), waits=by_type(status.waits)),
        timeline=[replace(each, error=_type_in(each.error)) for each in view.timeline],
        traceback=None,
        others=tuple(replace(each, error=_type_in(each.error), waits=by_type(each.waits)) for each in view.others),
        troubles=(),
    )


def by_type(waits: Sequence[Awaited]) -> tuple[Awaited, ...]:
    """The same, with no more of each error than its type."""
    return tuple(replace(each, error=_type_in(each.error)) for each in waits)


def _type_in(error: str | None) -> str | None:
    return None if error is None else error.partition(":")[0]


# ── The timeline ────────────────────────────────────────────────────────────────────────────────────────────────────


async def _lines(recorded: Recorded, runtime: Runtime, *, payloads: bool, tracebacks: bool) -> list[Line]:
    pairs = zip(told(recorded.entries), timeline(recorded.entries), strict=True)
    lines = [_line(entry, event, payloads=payloads, tracebacks=tracebacks) for entry, event in pairs]
    for handover in reversed(await handovers_of(runtime.home.store, recorded.head.partition, recorded.record.run)):
        lines.insert(handover.place, _handover_line(handover))
    return lines


def _line(entry: Entry, event: Event, *, payloads: bool, tracebacks: bool) -> Line:
    kind, name = event.kind, event.name
    if name.startswith(MAILBOX_PREFIX):
        kind, name = "callback", name.removeprefix(MAILBOX_PREFIX)
    value: Any = UNSET
    match entry:
        case Received(value=raw) if payloads and kind == "callback":
            answer = _value(raw)
            value = answer.get("value", UNSET)
        case Done(value=raw) | Received(value=raw) | Progressed(details=raw) if payloads and kind != "timer":
            value = _value(raw)
        case _:
            pass
    return Line(
        at=iso(event.at),
        kind=kind,
        name=name,
        outcome=event.outcome,
        attempts=event.attempts,
        began=None if event.began is None else iso(event.began),
        took_ms=None if event.began is None else round(between(event.began, event.at)),
        error=event.error,
        traceback=event.traceback if tracebacks and event.traceback is not None else UNSET,
        value=value,
    )


def _handover_line(handover: Handover) -> Line:
    if handover.owner == TERMINATOR:
        return Line(at=None, kind="terminate", name="terminate", outcome="its worker is cut off")
    if handover.takeover:
        before = "" if handover.before is None else f" from {process_of(handover.before)}"
        return Line(at=None, kind="takeover", name=process_of(handover.owner), outcome=f"took over{before}")
    return Line(at=None, kind="handover", name=process_of(handover.owner), outcome="continued it")


def process_of(owner: str) -> str:
    """The process of an owner's name, for people."""
    return f"process {owner.partition('-')[0]}"


def _value(raw: Raw) -> Any:
    return json.loads(bytes(raw))


# ── What it waits for, and what has come ────────────────────────────────────────────────────────────────────────────


async def _untaken(runtime: Runtime, recorded: Recorded, status: Status) -> tuple[Untaken, ...]:
    """The signals that wait for the body: those that it could have taken, and those in the inbox."""
    waits = told_waits(recorded.head, recorded.record)
    found = dict.fromkeys(() if waits is None else waits.untaken, True)
    page = await runtime.home.store.query(recorded.head.partition, prefix=INBOX_PREFIX, limit=MOST_MESSAGES)
    for name in filter(None, map(_signal_in, page.items)):
        found.setdefault(name, False)
    awaited = [each.name for each in status.waits if each.kind == SIGNAL]
    return tuple(Untaken(name, recorded, meant_by(name, awaited)) for name, recorded in found.items())


def _signal_in(message: Item) -> str | None:
    if message.status in (USED, MARKED):
        return None
    try:
        there = decode_message(message.body)
    except StoreUnusable:  # the execution is blocked by it, and says so
        return None
    return there.name if isinstance(there, Signal) else None


def meant_by(name: str, awaited: Sequence[str]) -> str | None:
    """The awaited name that this one looks like; ``None`` if there is none, or it is awaited itself.

    >>> meant_by("aproval", ["approval", "payment"]), meant_by("payment", ["payment"])
    ('approval', None)
    """
    return None if name in awaited else next(iter(get_close_matches(name, awaited, 1)), None)


async def _others(runtime: Runtime, status: Status) -> tuple[Other, ...]:
    names = [(each.name, each.id) for each in status.waits if each.kind in (CHILD, EXECUTION)]
    return tuple([await _other(runtime, workflow, id) for workflow, id in names if id is not None])


async def _other(runtime: Runtime, workflow: str, id: str) -> Other:
    head = await runtime.home.store.get(partition_of(workflow, id))
    if not is_there(head, runtime.clock.now_ms()):
        return Other(workflow=workflow, id=id)
    status = status_of(head)
    error = None if status.error is None else masked(status.error)
    return Other(
        workflow=workflow, id=id, status=status.status, error=error, blocked=status.blocked, waits=status.waits
    )
