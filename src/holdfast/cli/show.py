"""``holdfast show``: one execution as a timeline, what it waits for, and what to do next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Final

import click
from msgspec import UNSET

from holdfast.cli.declaring import on_execution
from holdfast.cli.output import as_json, bold, coloured, plain, shown_moment, table
from holdfast.cli.session import Session, on_home
from holdfast.cli.values import now
from holdfast.clock import between, duration
from holdfast.commands.execution import Show
from holdfast.workflows.record import ExecutionRef
from holdfast.workflows.status import Awaited, Status
from holdfast.workflows.view import Line, Trouble, View

HEADINGS: Final = ("AFTER", "TOOK", "", "WHAT", "HOW IT WENT")
MARKS: Final = {"done": "✓", "failed": "✗", "retrying": "↻", "received": "←", "intended": "·", "heartbeat": "♥"}
HANDOVER_MARK: Final = "⇄"
MARK_COLOURS: Final = {"done": "ok", "failed": "fail", "retrying": "warn"}
TONE_COLOURS: Final = {"bad": "fail", "warn": "warn", "info": "ok"}


@on_execution(
    "show",
    "holdfast show -a shop:app checkout order-17",
    "holdfast show --home sqlite:///shop.db checkout order-17 --payloads",
    "holdfast show -a shop:app checkout order-17 --tracebacks",
)
@click.option("--payloads", is_flag=True, help="Show inputs, results, arguments and messages too.")
@click.option("--tracebacks", is_flag=True, help="Show where every error was raised, not just the last one.")
@on_home
def show(session: Session, *, workflow: str, id: str, payloads: bool, tracebacks: bool) -> None:
    """Show what has happened in an execution, what it waits for, what is wrong with it, and what to do next.

    Of the error that ended it, or of the last one, the traceback is shown: the frames of your own code, through steps,
    children and actors. Inputs and results are left out unless --payloads asks for them; callback tokens are never
    shown.
    """
    shown = session.perform(Show(workflow, id, payloads=payloads, tracebacks=tracebacks))
    session.answer(shown, "\n".join(as_lines(shown)))


def as_lines(shown: View) -> list[str]:
    """The execution for people."""
    status = shown.execution
    lines = [f"{bold(f'{status.workflow} {plain(status.id)}')}  {coloured(status.status, status.status)}"]
    lines += [f"  {name:<9} {value}" for name, value in _header(shown)]
    if shown.timeline:
        lines.append("")
        rows = [_row(line, status) for line in shown.timeline]
        drawn = table(HEADINGS, rows, indent="  ")
        for place, line in enumerate(shown.timeline, start=1):
            mark = MARKS.get(line.outcome)
            if mark is not None and line.outcome in MARK_COLOURS:
                drawn[place] = drawn[place].replace(mark, coloured(mark, MARK_COLOURS[line.outcome]), 1)
        lines += drawn
    lines += _traceback_lines(shown)
    for trouble in shown.troubles:
        lines += _trouble_lines(trouble)
    return lines


def _trouble_lines(trouble: Trouble) -> Iterator[str]:
    yield ""
    yield f"  {coloured(plain(trouble.title), TONE_COLOURS[trouble.tone])}"
    yield f"    {plain(trouble.text)}"
    if trouble.line is not None:
        yield f"    next: {plain(trouble.line)}"


def _traceback_lines(shown: View) -> Iterator[str]:
    """Where every error was raised that is to be shown, the one that matters last."""
    for line in shown.timeline:
        if line.traceback is not UNSET:
            yield from ("", f"  {line.kind} {plain(line.name)}, attempt {line.attempts}")
            yield from (f"    {plain(each)}" for each in line.traceback.splitlines())
    if shown.traceback is not None:
        ended = shown.execution.error is not None
        yield from ("", f"  {'what ended it' if ended else 'its last error'}")
        yield from (f"    {plain(each)}" for each in shown.traceback.splitlines())


def _header(shown: View) -> Sequence[tuple[str, str]]:
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
    lines += [("waits for", plain(told_wait(each))) for each in status.waits]
    if shown.waits_left_out:
        lines.append(("", f"and {shown.waits_left_out} more"))
    for signal in shown.untaken:
        meant = "" if signal.meant is None else f"; did its sender mean {signal.meant}?"
        lines.append(("untaken", f"signal {plain(signal.name)}{plain(meant)}"))
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


def told_wait(wait: Awaited) -> str:
    """One thing that an execution waits for, on one line."""
    told = [f"{wait.kind} {wait.name}"]
    if wait.id is not None:
        told.append(wait.id)
    if wait.attempt is not None:
        told.append(f"attempt {wait.attempt} of {wait.most_attempts}")
    if wait.began is not None:
        told.append(f"begun {duration(max(0, between(wait.began, now())))} ago")
    if wait.last_heartbeat is not None:
        told.append(f"last heartbeat {duration(max(0, between(wait.last_heartbeat, now())))} ago")
    if wait.until is not None:
        told.append(f"until {shown_moment(wait.until)} UTC")
    if wait.place is not None:
        told.append(f"at {wait.place}")
    if wait.arguments is not None:
        told.append(f"with {wait.arguments}")
    return ", ".join(told)
