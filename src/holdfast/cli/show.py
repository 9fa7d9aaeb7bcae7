"""``holdfast show``: one execution as a timeline."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Final

import click
from msgspec import UNSET, Raw, Struct, UnsetType

from holdfast.app import App
from holdfast.cli.declaring import on_execution
from holdfast.cli.handovers import Handover, handovers_of
from holdfast.cli.output import as_json, between, bold, coloured, duration, iso, plain, shown_moment, table
from holdfast.cli.session import Session, on_home
from holdfast.cli.values import now
from holdfast.replay.entries import Done, Entry, Progressed, Received
from holdfast.workflows.finding import head_of
from holdfast.workflows.history import Event, last_traceback, load, timeline, told
from holdfast.workflows.operations.callback import MAILBOX_PREFIX
from holdfast.workflows.record import NO_VALUE, ExecutionRef, partition_of
from holdfast.workflows.status import Status, status_of
from holdfast.workflows.unclaimed import TERMINATOR

HEADINGS: Final = ("AFTER", "TOOK", "", "WHAT", "HOW IT WENT")
MARKS: Final = {"done": "✓", "failed": "✗", "retrying": "↻", "received": "←", "intended": "·", "heartbeat": "♥"}
HANDOVER_MARK: Final = "⇄"
MARK_COLOURS: Final = {"done": "ok", "failed": "fail", "retrying": "warn"}


class Line(Struct, frozen=True, kw_only=True):
    """One line of a timeline, as ``--json`` prints it. ``at`` is when it ended; ``value`` and ``traceback`` are set if
    asked for.
    """

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


class Shown(Struct, frozen=True, kw_only=True):
    """All that ``show`` prints about an execution. ``input`` and ``result`` are set only if asked for. ``traceback`` is
    that of the error that ended it, or of the last one if it goes on.
    """

    execution: Status
    timeline: list[Line]
    traceback: str | None = None
    owner: str | None = None
    owner_alive: bool | None = None
    input: Any | UnsetType = UNSET
    result: Any | UnsetType = UNSET


@on_execution(
    "show",
    "holdfast show -a shop:app checkout order-17",
    "holdfast show --home sqlite:///shop.db checkout order-17 --payloads",
    "holdfast show -a shop:app checkout order-17 --tracebacks",
)
@click.option("--payloads", is_flag=True, help="Show inputs, results and messages too.")
@click.option("--tracebacks", is_flag=True, help="Show where every error was raised, not just the last one.")
@on_home
def show(session: Session, *, workflow: str, id: str, payloads: bool, tracebacks: bool) -> None:
    """Show what has happened in an execution: operations, attempts, how long they took, errors.

    Of the error that ended it, or of the last one, the traceback is shown: the frames of your own code, through steps,
    children and actors. Inputs and results are left out unless --payloads asks for them; callback tokens are never
    shown.
    """
    shown = session.run(lambda app: inspect_execution(app, workflow, id, payloads=payloads, tracebacks=tracebacks))
    session.answer(shown, "\n".join(as_lines(shown)))


async def inspect_execution(
    app: App, workflow: str, id: str, *, payloads: bool = False, tracebacks: bool = False
) -> Shown:
    """Read an execution in order to show it. Raises ``NotFound``."""
    runtime, home = app.runtime(), app.runtime().home
    await head_of(runtime, partition_of(workflow, id))
    recorded = await load(home.store, partition_of(workflow, id))
    head, record = recorded.head, recorded.record
    pairs = zip(told(recorded.entries), timeline(recorded.entries), strict=True)
    lines = [_line(entry, event, payloads=payloads, tracebacks=tracebacks) for entry, event in pairs]
    for handover in reversed(await handovers_of(home.store, head.partition, record.run)):
        lines.insert(handover.place, _handover_line(handover))
    return Shown(
        execution=status_of(head),
        timeline=lines,
        traceback=last_traceback(recorded),
        owner=head.owner,
        owner_alive=None if head.owner is None else home.doorbell.alive(head.owner),
        input=_value(record.input) if payloads else UNSET,
        result=_value(record.result) if payloads and record.result != NO_VALUE else UNSET,
    )


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
        before = "" if handover.before is None else f" from {_process(handover.before)}"
        return Line(at=None, kind="takeover", name=_process(handover.owner), outcome=f"took over{before}")
    return Line(at=None, kind="handover", name=_process(handover.owner), outcome="continued it")


def _process(owner: str) -> str:
    """The process of an owner's name."""
    return f"process {owner.partition('-')[0]}"


def _value(raw: Raw) -> Any:
    return json.loads(bytes(raw))


# ── For people ──────────────────────────────────────────────────────────────────────────────────────────────────────


def as_lines(shown: Shown) -> list[str]:
    """The execution for people."""
    status = shown.execution
    lines = [f"{bold(f'{status.workflow} {plain(status.id)}')}  {coloured(status.status, status.status)}"]
    lines += [f"  {name:<9} {value}" for name, value in _header(shown)]
    lines.append("")
    if not shown.timeline:
        return [*lines, "  nothing has been recorded yet"]
    rows = [_row(line, status) for line in shown.timeline]
    drawn = table(HEADINGS, rows, indent="  ")
    for place, line in enumerate(shown.timeline, start=1):
        mark = MARKS.get(line.outcome)
        if mark is not None and line.outcome in MARK_COLOURS:
            drawn[place] = drawn[place].replace(mark, coloured(mark, MARK_COLOURS[line.outcome]), 1)
    return [*lines, *drawn, *_traceback_lines(shown)]


def _traceback_lines(shown: Shown) -> Iterator[str]:
    """Where every error was raised that is to be shown, the one that matters last."""
    for line in shown.timeline:
        if line.traceback is not UNSET:
            yield from ("", f"  {line.kind} {plain(line.name)}, attempt {line.attempts}")
            yield from (f"    {plain(each)}" for each in line.traceback.splitlines())
    if shown.traceback is not None:
        ended = shown.execution.error is not None
        yield from ("", f"  {'what ended it' if ended else 'its last error'}")
        yield from (f"    {plain(each)}" for each in shown.traceback.splitlines())


def _header(shown: Shown) -> Sequence[tuple[str, str]]:
    status = shown.execution
    code = status.version if status.published is None else f"{status.version}, published as {status.published}"
    lines = [("version", code), ("created", f"{shown_moment(status.created_at, milliseconds=True)} UTC")]
    if status.ended_at is not None:
        took = duration(between(status.created_at, status.ended_at))
        lines.append(("ended", f"{shown_moment(status.ended_at, milliseconds=True)} UTC, after {took}"))
    if status.due_at is not None:
        ahead = between(now(), status.due_at)
        told = f"in {duration(ahead)}" if ahead > 0 else f"for {duration(-ahead)}"
        lines.append(("due", f"{shown_moment(status.due_at, milliseconds=True)} UTC, {told}"))
    if shown.owner is not None:
        lines.append(("owner", f"{shown.owner}{'' if shown.owner_alive else ', which is gone'}"))
    if status.run:
        lines.append(("run", f"{status.run}; it has continued as new {status.run} times"))
    if status.tags:
        lines.append(("tags", plain(" ".join(f"{key}={value}" for key, value in sorted(status.tags.items())))))
    if status.parent is not None:
        lines.append(("parent", f"{status.parent.workflow} {plain(status.parent.id)}"))
    if status.root not in (None, status.parent, ExecutionRef(status.workflow, status.id)):
        lines.append(("root", f"{status.root.workflow} {plain(status.root.id)}"))
    if status.blocked is not None:
        lines.append(("blocked", plain(status.blocked)))
    if status.error is not None:
        lines.append(("error", plain(status.error)))
    for name, value in (("input", shown.input), ("result", shown.result)):
        if value is not UNSET:
            lines.append((name, _payload(value)))
    return lines


def _row(line: Line, status: Status) -> tuple[str, ...]:
    if line.at is None:
        return "", "", HANDOVER_MARK, line.name, line.outcome
    after = between(status.created_at, datetime.fromisoformat(line.at))
    told: list[str] = []
    if line.outcome == "retrying":
        told.append(f"attempt {line.attempts} failed")
    elif line.attempts > 1:
        told.append(f"attempt {line.attempts}")
    if line.outcome not in {"done", "failed", "retrying"}:
        told.append(line.outcome)
    if line.error is not None:
        told.append(plain(line.error))
    if line.value is not UNSET:
        told.append(_payload(line.value))
    took = "" if line.took_ms is None else duration(line.took_ms)
    what = f"{line.kind} {plain(line.name)}"
    return f"+{duration(max(after, 0))}", took, MARKS.get(line.outcome, " "), what, ": ".join(told)


def _payload(value: Any) -> str:
    return plain(as_json(value))
