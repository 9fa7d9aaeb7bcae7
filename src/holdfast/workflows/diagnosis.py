"""What is wrong with an execution, or what it waits for, and what to do next: one answer for every surface."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from holdfast.clock import between, duration
from holdfast.flow.record import QUEUED
from holdfast.texts import shell_line
from holdfast.workflows.record import (
    BLOCKED,
    CANCELLED,
    COMPENSATION_FAILED,
    COMPLETED,
    ENDED,
    FAILED,
    PAUSED,
    PINNED,
    READY,
    RUNNING,
    TERMINATED,
    TIMED_OUT,
)
from holdfast.workflows.view import Trouble, process_of
from holdfast.workflows.waits import ACTOR, CALLBACK, CHILD, EXECUTION, SEND, SIGNAL, STEP, TIMER
from holdfast.workflows.why_queued import ahead_of, queued

if TYPE_CHECKING:
    from holdfast.workflows.status import Awaited
    from holdfast.workflows.view import Other, View

BAD: Final = "bad"
WARN: Final = "warn"
INFO: Final = "info"
TONES: Final = (BAD, WARN, INFO)

SILENT_AFTER: Final = timedelta(minutes=1)
"""A step that has run for longer, and has not reported since, may hang."""

OVERDUE_AFTER: Final = timedelta(seconds=30)
"""A worker looks at what is due every five seconds; after this time none does."""


def diagnose(view: View, now: datetime) -> tuple[Trouble, ...]:
    """What the view shows, said in words, the worst first. There is always something to say of an execution that has
    not ended; of one that has completed there is nothing.
    """
    found = [*_standing(view), *_ownership(view, now)]
    if view.execution.status not in (*ENDED, BLOCKED):
        found += [trouble for wait in view.execution.waits for trouble in _wait(view, wait, now)]
        found += _untaken(view)
    if not found and view.execution.status not in ENDED:
        found.append(_at_work(view, now))
    return tuple(sorted(found, key=lambda each: TONES.index(each.tone)))


def _line(view: View, command: str, *more: str, options: tuple[str, ...] = ()) -> str:
    """A line for the shell about the execution."""
    return shell_line(command, view.execution.workflow, view.execution.id, *more, options=options)


# ── How it stands ───────────────────────────────────────────────────────────────────────────────────────────────────


def _standing(view: View) -> Iterator[Trouble]:
    status = view.execution
    match status.status:
        case _ if status.error is not None and status.error.startswith("damaged"):
            yield Trouble(
                tone=BAD,
                title="its record is damaged",
                text=f"{status.error}. Restore the home from a backup, or run the newer code that has written it.",
                line="holdfast doctor",
            )
        case name if name in (FAILED, TIMED_OUT, COMPENSATION_FAILED):
            yield _failed(view)
        case name if name in (CANCELLED, TERMINATED):
            yield Trouble(
                tone=INFO,
                title=f"it was {name.lower()}",
                text=f"{status.error or 'No reason is recorded'}. A fork starts a new one from its history.",
                commands=("fork",),
            )
        case name if name == BLOCKED:
            yield _parked(view) if view.parked else _blocked(view)
        case name if name == PAUSED:
            yield Trouble(
                tone=WARN,
                title="it is paused",
                text="It starts nothing new until it is resumed, or until it is cancelled or runs past its timeout.",
                commands=("resume", "cancel"),
                line=_line(view, "resume"),
            )
        case _:
            pass


def _failed(view: View) -> Trouble:
    status = view.execution
    last = next((each for each in reversed(view.timeline) if each.outcome == "failed"), None)
    what = "" if last is None else f"The last that failed is {last.kind} {last.name}{_tries(last.attempts)}. "
    what = "It ran past its timeout. " if status.status == TIMED_OUT else what
    undo = "An undo of its saga gave up, so that its work is undone in part. "
    return Trouble(
        tone=BAD,
        title=f"{status.status}: {status.error or status.error_type or 'no error is recorded'}",
        text=f"{undo if status.status == COMPENSATION_FAILED else what}Repair the cause, then retry: it goes on from "
        "what failed, and finished steps are not repeated.",
        commands=("retry", "fork"),
        line=_line(view, "retry"),
    )


def _tries(attempts: int) -> str:
    return f", after {attempts} attempts" if attempts > 1 else ""


def _parked(view: View) -> Trouble:
    return Trouble(
        tone=BAD,
        title="it is parked: its processes died",
        text=f"{view.execution.blocked}. No worker takes it up before it is resumed.",
        commands=("resume", "cancel", "terminate"),
        line=_line(view, "resume"),
    )


def _blocked(view: View) -> Trouble:
    why = f"{view.execution.blocked}. Deploy the code that it needs, and a worker continues within a minute"
    if PINNED in (view.execution.blocked or ""):
        return Trouble(
            tone=BAD,
            title="BLOCKED: it needs other code",
            text=f"{why}; or, if that code is gone, move it to the code of your app.",
            commands=("move", "terminate"),
            line=_line(view, "move"),
        )
    return Trouble(
        tone=BAD,
        title="BLOCKED: it needs other code",
        text=f"{why}. A replay under pdb shows where the code and what is recorded part.",
        commands=("terminate",),
        line=_line(view, "debug"),
    )


# ── Who works on it ─────────────────────────────────────────────────────────────────────────────────────────────────


def _ownership(view: View, now: datetime) -> Iterator[Trouble]:
    status = view.execution
    if status.status in ENDED:
        return
    if view.owner is not None:
        yield from _owned(view, view.owner, now)
    elif status.status == QUEUED:
        yield queued(view.queue, now)
    elif status.status in (BLOCKED, PAUSED) or status.due_at is None:
        return
    elif now - status.due_at > OVERDUE_AFTER:
        yield Trouble(
            tone=BAD,
            title="no worker works on it",
            text=f"It has been due for {duration(between(status.due_at, now))}. A worker with the code of workflow "
            f"{status.workflow} would take it up within five seconds: start one, or look at what stops yours.",
            line="holdfast run",
        )
    elif status.status == READY and status.due_at > now:
        yield Trouble(
            tone=INFO,
            title=f"it begins {ahead_of(status.due_at, now)}",
            text="Its start is delayed. A signal does not make it begin earlier.",
            commands=("cancel", "terminate"),
        )


def _owned(view: View, owner: str, now: datetime) -> Iterator[Trouble]:
    process, until = process_of(owner), view.owner_until
    lapsed_ms = -1.0 if until is None else between(datetime.fromisoformat(until), now)
    if not view.owner_alive:
        yield Trouble(
            tone=WARN,
            title="its worker is gone",
            text=f"{process.capitalize()} worked on it, and has died. Another worker takes over within seconds: if "
            "none does, start one.",
            line="holdfast run",
        )
    elif lapsed_ms > 0:
        yield Trouble(
            tone=BAD,
            title="its worker does not react",
            text=f"{process.capitalize()} is there, and has not renewed its lease, which ended "
            f"{duration(lapsed_ms)} ago. It is stopped, or a body or a blocking call keeps its event loop. Another "
            "worker takes over; look at the process (py-spy dump, kill -CONT), and end it if it hangs.",
            line="holdfast run",
        )


def _at_work(view: View, now: datetime) -> Trouble:
    status = view.execution
    if status.status == RUNNING and view.owner is not None:
        return Trouble(
            tone=INFO,
            title="a worker works on it now",
            text=f"{process_of(view.owner).capitalize()} has it. What takes longer than ten seconds is told here.",
        )
    if status.due_at is not None:
        return Trouble(
            tone=INFO,
            title="it waits for a worker",
            text=f"It is due {ahead_of(status.due_at, now)}, and any worker with its code takes it up. If none does, "
            "start one.",
            line="holdfast run",
        )
    return Trouble(
        tone=INFO,
        title="it waits",
        text="Its last worker has not told what for. It continues once a message comes for it.",
        commands=("signal", "cancel"),
    )


# ── What it waits for ───────────────────────────────────────────────────────────────────────────────────────────────


def _wait(view: View, wait: Awaited, now: datetime) -> Iterator[Trouble]:
    stands = "" if wait.place is None else f" It stands at {wait.place}."
    gives_up = "" if wait.until is None else f" It gives up {ahead_of(wait.until, now)}."
    match wait.kind:
        case name if name == STEP:
            yield _step(view, wait, now, stands)
        case name if name == SIGNAL:
            yield _signal(view, wait, f"{gives_up}{stands}")
        case name if name == CALLBACK:
            yield Trouble(
                tone=INFO,
                title=f"it waits for callback {wait.name}",
                text="The holder of its token has not answered yet. If the answer was lost, give it yourself."
                f"{gives_up}{stands}",
                commands=("callback answer",),
                line=_line(view, "callback answer", wait.operation or "", options=("--value", "JSON")),
            )
        case name if name in (CHILD, EXECUTION):
            other = next((each for each in view.others if (each.workflow, each.id) == (wait.name, wait.id)), None)
            yield _other(wait, other, f"{gives_up}{stands}")
        case name if name == TIMER:
            yield _timer(wait, now, stands)
        case name if name == ACTOR:
            actor = wait.name.rpartition(".")[0]
            yield Trouble(
                tone=INFO,
                title=f"it waits for {wait.name} of actor {wait.id}",
                text="The actor has not replied yet: look at its mailbox, and whether it has halted."
                f"{gives_up}{stands}",
                line=shell_line("actor show", actor, wait.id or ""),
            )
        case name if name == SEND:
            yield Trouble(tone=INFO, title=f"it sends {wait.name}", text=f"The store has not answered yet.{stands}")
        case name:
            yield Trouble(tone=INFO, title=f"it waits for {name} {wait.name}", text=f"Nothing came yet.{stands}")


def _step(view: View, wait: Awaited, now: datetime, stands: str) -> Trouble:
    attempt = f"attempt {wait.attempt} of {wait.most_attempts}"
    before = "" if wait.error is None else f" The attempt before failed: {wait.error}."
    if wait.began is None and wait.error is not None and wait.until is not None:
        return Trouble(
            tone=WARN,
            title=f"step {wait.name} is tried again {ahead_of(wait.until, now)}",
            text=f"It failed: {wait.error}. Next is {attempt}.{stands}",
            commands=("retry-now", "cancel"),
            line=_line(view, "retry", options=("--now",)),
        )
    if wait.began is None and wait.limit is not None:
        return Trouble(
            tone=INFO,
            title=f"step {wait.name} waits for a permit of {wait.limit}",
            text=f"Calls of its limit run elsewhere, or its rate lets none begin yet; {attempt} begins when it has its "
            f"permit.{before}{stands}",
            line=shell_line("limit show", wait.limit.partition(", ")[0]),
        )
    if wait.began is None:
        return Trouble(
            tone=INFO,
            title=f"step {wait.name} waits for a thread",
            text=f"All threads for steps are taken; {attempt} begins when one is free.{before}{stands}",
        )
    if view.owner is None or not view.owner_alive:
        return Trouble(
            tone=INFO,
            title=f"step {wait.name} was interrupted",
            text=f"Its process stopped or died during {attempt}, which began {duration(between(wait.began, now))} ago. "
            f"The worker that takes over begins the next.{before}{stands}",
        )
    last = max(filter(None, (wait.began, wait.last_heartbeat)))
    ran = duration(between(wait.began, now))
    if now - last > SILENT_AFTER:
        heard = "it has sent no heartbeat"
        if wait.last_heartbeat is not None:
            heard = f"its last heartbeat came {duration(between(wait.last_heartbeat, now))} ago"
        return Trouble(
            tone=WARN,
            title=f"step {wait.name} has run for {ran}",
            text=f"It is {attempt}, and {heard}. A call that hangs looks like this: give the step a timeout= or a "
            f"heartbeat=, and cancel or terminate the execution if it is to end now.{before}{stands}",
            commands=("cancel", "terminate"),
            line=_line(view, "cancel"),
        )
    return Trouble(tone=INFO, title=f"step {wait.name} runs", text=f"Since {ran}, {attempt}.{before}{stands}")


def _signal(view: View, wait: Awaited, more: str) -> Trouble:
    shell = _line(view, "signal", wait.name, "JSON")
    mistyped = [each.name for each in view.untaken if each.meant == wait.name]
    if mistyped:
        return Trouble(
            tone=WARN,
            title=f"it waits for signal {wait.name}, and {mistyped[0]} came",
            text=f"The name that was sent looks mistyped: {', '.join(mistyped)}. Send the value again as {wait.name}."
            f"{more}",
            commands=("signal",),
            line=shell,
        )
    return Trouble(
        tone=INFO,
        title=f"it waits for signal {wait.name}",
        text=f"None has come yet; send one to let it continue.{more}",
        commands=("signal",),
        line=shell,
    )


def _other(wait: Awaited, other: Other | None, more: str) -> Trouble:
    what = "child" if wait.kind == CHILD else "execution"
    title, shell = f"it waits for {what} {wait.name}", shell_line("show", wait.name, wait.id or "")
    if other is None or other.status is None:
        return Trouble(tone=INFO, title=title, text=f"{wait.id} is not there yet.{more}", line=shell)
    told = other.error or other.blocked
    waits = ", ".join(f"{each.kind} {each.name}" for each in other.waits)
    how = f": {told}" if told else f", and waits for {waits}" if waits else ""
    tone = INFO if other.status in (READY, RUNNING, COMPLETED) or (other.status not in ENDED and not told) else WARN
    text = f"{wait.id} is {other.status}{how}.{more}"
    return Trouble(tone=tone, title=f"{title}, which is {other.status}", text=text, line=shell)


def _timer(wait: Awaited, now: datetime, stands: str) -> Trouble:
    ahead = "" if wait.until is None else f" {ahead_of(wait.until, now)}"
    if wait.name == "begin":
        return Trouble(tone=INFO, title=f"it begins{ahead}", text="Its start is delayed.", commands=("cancel",))
    return Trouble(tone=INFO, title=f"it sleeps, and continues{ahead}", text=f"Timer {wait.operation}.{stands}")


def _untaken(view: View) -> Iterator[Trouble]:
    awaited = {each.name for each in view.execution.waits if each.kind == SIGNAL}
    left = [each.name for each in view.untaken if each.meant is None and each.name not in awaited]
    if left and view.execution.waits:
        yield Trouble(
            tone=INFO,
            title="signals came that it does not wait for now",
            text=f"They are kept until the body takes them: {', '.join(left)}.",
        )
