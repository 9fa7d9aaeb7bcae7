"""The projection: what spans a journal says there are. Pure functions, the same for what happens now and for what is
read back later, so that both make the same spans.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Literal

from msgspec import Struct

from holdfast.replay.earlier import name_of
from holdfast.replay.entries import AT_ONCE, STEP, Before, Cancelled, Done, Entry, Failed, Received, Tried
from holdfast.tracing import checked
from holdfast.workflows.record import ExecutionRecord
from holdfast.workflows.runs import count_of
from holdfast.workflows.trace_ids import again_span, attempt_span, entry_span, execution_span, trace_id

Kind = Literal["internal", "server", "consumer", "producer"]
Attributes = dict[str, str | int]

CALLBACK: Final = "!callback/"
"""How the mailboxes of callbacks are called (``workflows.operations.callback``)."""

PUBLISH: Final = "publish"
"""The kind of the operation that publishes an event (``messaging.publishing``)."""

GOOD: Final = "COMPLETED"
LONGEST_NAME_CHARACTERS: Final = 120


class Span(Struct, frozen=True, kw_only=True):
    """A span to be made. Ids are hexadecimal, times are milliseconds. ``parent`` is the span above it; the execution's
    own span has that of its caller, or none. ``flags`` are those of the caller's trace; empty if there is no caller.
    ``error`` is the type of an error, never its message. ``links`` are contexts that it was caused by.
    """

    name: str
    trace: str
    id: str
    parent: str
    flags: str
    begins: int
    ends: int
    kind: Kind = "internal"
    error: str = ""
    attributes: Attributes
    links: tuple[str, ...] = ()


class Subject(Struct, frozen=True):
    """The run of an execution that spans are about."""

    partition: str
    record: ExecutionRecord

    def common(self) -> Attributes:
        """What every span of it says."""
        record = self.record
        return {
            "holdfast.workflow": record.workflow,
            "holdfast.execution.id": record.id,
            "holdfast.run": count_of(record.run),
            "holdfast.version": record.version,
        }

    @property
    def flags(self) -> str:
        """The flags of the caller's trace; empty if it has no caller."""
        carried = checked(self.record.trace)
        return carried.split("-")[3] if carried else ""


def of_entries(subject: Subject, entries: Sequence[Entry]) -> Iterator[Span]:
    """The spans of what a journal says, in its order."""
    for entry in entries:
        match entry:
            case Done(op=op, kind=kind, at=at, began=began, attempts=attempts):
                yield _operation(subject, kind, op, began, at, attempts, "done")
            case Failed(op=op, kind=kind, at=at, began=began, attempts=attempts, error=error):
                yield _operation(subject, kind, op, began, at, attempts, "failed", error.type)
            case Tried(again_at=again_at) if again_at != AT_ONCE:
                number = entry.attempt + entry.deaths
                yield _operation(subject, STEP, entry.op, entry.began, entry.at, number, "retrying", entry.error.type)
            case Received(id=id, name=name, at=at) if name.startswith(CALLBACK):
                op = name.removeprefix(CALLBACK)
                yield _moment(subject, f"callback {name_of(op)}", id, at, {"holdfast.op": op})
            case Received(id=id, name=name, at=at):
                links = (entry.trace,) if checked(entry.trace) else ()
                yield _moment(subject, f"signal {name}", id, at, {"holdfast.signal": name}, "consumer", links)
            case Cancelled(id=id, at=at, timed_out=timed_out):
                yield _moment(subject, "timed out" if timed_out else "cancel requested", id, at, {})
            case _:
                pass


def _operation(
    subject: Subject, kind: str, op: str, began: int, at: int, attempt: int, outcome: str, error: str = ""
) -> Span:
    partition, record = subject.partition, subject.record
    begins = min(began or at, at)
    attributes = subject.common() | {"holdfast.op": op, "holdfast.outcome": outcome}
    if kind == STEP:
        attributes["holdfast.attempt"] = attempt
        id = attempt_span(partition, record, op, attempt, began)
    else:
        id = entry_span(partition, record, kind, op, at)
    role: Kind = "producer" if kind == PUBLISH else "internal"
    return _span(subject, f"{kind} {_bare(kind, op)}", id, begins, at, attributes, error, kind=role)


def _bare(kind: str, op: str) -> str:
    """The name of an operation for people: without its path, and without its kind, which some have in their names."""
    return name_of(op).removeprefix(f"{kind}:")


def _moment(
    subject: Subject,
    name: str,
    id: str,
    at: int,
    more: Attributes,
    kind: Kind = "internal",
    links: tuple[str, ...] = (),
) -> Span:
    span = entry_span(subject.partition, subject.record, name, id, at)
    return _span(subject, name, span, at, at, subject.common() | more, kind=kind, links=links)


def _span(  # noqa: PLR0913 - what a span is made of
    subject: Subject,
    name: str,
    id: str,
    begins: int,
    ends: int,
    attributes: Attributes,
    error: str = "",
    *,
    kind: Kind = "internal",
    links: tuple[str, ...] = (),
) -> Span:
    partition, record = subject.partition, subject.record
    return Span(
        name=name[:LONGEST_NAME_CHARACTERS],
        trace=trace_id(partition, record),
        id=id,
        parent=execution_span(partition, record),
        flags=subject.flags,
        begins=begins,
        ends=ends,
        kind=kind,
        error=error,
        attributes=attributes,
        links=links,
    )


# ── The execution itself ────────────────────────────────────────────────────────────────────────────────────────────


def of_end(subject: Subject, status: str) -> Span:
    """The span of an execution that has ended. Its record says when."""
    record = subject.record
    error = "" if record.error is None else record.error.type
    ended_at = record.ended_at or record.created_at
    return of_ended(subject, Before(record.timed_from, ended_at, status, error))


def of_ended(subject: Subject, end: Before) -> Span:
    """The span of one end of an execution: from its start, or from the retry before, which nests below the first."""
    partition, record = subject.partition, subject.record
    carried = checked(record.trace)
    first = execution_span(partition, record)
    name = f"workflow {record.workflow}"
    again = end.since != 0
    return Span(
        name=f"{name} retried" if again else name,
        trace=trace_id(partition, record),
        id=again_span(partition, record, end.since) if again else first,
        parent=first if again else (carried.split("-")[2] if carried else ""),
        flags=subject.flags,
        begins=min(end.since or record.created_at, end.at),
        ends=end.at,
        error="" if end.status == GOOD else end.error or end.status,
        attributes=subject.common() | {"holdfast.status": end.status},
    )
