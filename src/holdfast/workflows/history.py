"""Reading what happened in an execution, without touching it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from holdfast.clock import moment
from holdfast.errors import NotFound, StoreUnusable
from holdfast.failure import in_one_line, traceback_text
from holdfast.items import Item
from holdfast.paging import items
from holdfast.replay.entries import (
    Aside,
    Cancelled,
    Done,
    Entry,
    Failed,
    Forked,
    Intended,
    Marked,
    Parked,
    Pending,
    Progressed,
    Received,
    Renewed,
    Reopened,
    Resumed,
    TakenOver,
    Tried,
    Truncated,
    decode_entries,
    standing,
)
from holdfast.replay.journal import SEGMENT_PREFIX
from holdfast.workflows.record import (
    AWAITED_MARK,
    DELETED,
    ExecutionRecord,
    decode_record,
    describe_partition,
    recorded_entries,
)
from holdfast.workflows.versioning import CODE_MARK

if TYPE_CHECKING:
    from holdfast.ports import Store


class Event(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of an execution's timeline; payloads are not in it.

    ``at`` is when it was recorded, ``began`` when the last attempt of a step, a sleep, or an awaited execution did.
    ``traceback`` is where the error was raised: the frames of users' code, with their lines.
    """

    at: datetime
    kind: str
    name: str
    outcome: str
    began: datetime | None = None
    attempts: int = 1
    error: str | None = None
    traceback: str | None = None


class Recorded(Struct, frozen=True):
    """An execution as the store holds it: its head, its record, its standing entries and how many segments it has.
    ``shared`` is the body of the item that it shares with others, if it does.
    """

    head: Item
    record: ExecutionRecord
    entries: list[Entry]
    segments: int
    shared: bytes = b""


async def load(store: Store, partition: str) -> Recorded:
    """Everything the store holds about an execution's current run. Raises ``NotFound``."""
    head = await store.get(partition)
    if head is None or head.status == DELETED:
        raise NotFound(f"there is no {describe_partition(partition)}")
    record = decode_record(head.body)
    entries: list[Entry] = []
    segments = 0
    async for item in items(store, partition, prefix=f"{SEGMENT_PREFIX}{record.run:06d}#"):
        entries += decode_entries(item.body)
        segments += 1
    stands = standing([*recorded_entries(record, standing(entries)), *record.tail])
    shared = await shared_by(store, record) if record.needs else b""
    return Recorded(head, record, stands, segments, shared)


async def shared_by(store: Store, record: ExecutionRecord) -> bytes:
    """The body of the item that an execution shares with others. Raises ``StoreUnusable`` if it is missing."""
    item = await store.get(record.needs)
    if item is None:
        raise StoreUnusable(
            f"execution {record.id!r} of workflow {record.workflow!r} needs {record.needs!r}, which is missing. "
            "Restore it from a backup of the home"
        )
    return item.body


def last_traceback(recorded: Recorded) -> str | None:
    """Where the error was raised that ended the execution, or the last one that is recorded if it goes on; ``None`` if
    nothing has failed since something went well.
    """
    if recorded.record.error is not None:
        return traceback_text(recorded.record.error)
    for entry in reversed(told(recorded.entries)):
        match entry:
            case Failed(error=error):
                return traceback_text(error)
            case Tried(error=error, again_at=again_at) if again_at:
                return traceback_text(error)
            case Done():
                return None
            case _:
                pass
    return None


def timeline(entries: Sequence[Entry]) -> list[Event]:
    """The entries as events for people, in order."""
    return [_event(entry) for entry in told(entries)]


def told(entries: Sequence[Entry]) -> list[Entry]:
    """The entries that are told: notes of the engine itself are left out."""
    return [entry for entry in entries if not isinstance(entry, (Forked, Pending, Renewed, Resumed))]


def _event(entry: Entry) -> Event:
    match entry:
        case Done(op=op, at=at, kind=kind, attempts=attempts, began=began):
            return Event(at=moment(at), kind=kind, name=op, outcome="done", attempts=attempts, began=_began(began))
        case Failed(op=op, at=at, kind=kind, error=error, attempts=attempts, began=began):
            return Event(
                at=moment(at),
                kind=kind,
                name=op,
                outcome="failed",
                attempts=attempts,
                began=_began(began),
                error=in_one_line(error),
                traceback=traceback_text(error),
            )
        case Tried(op=op, at=at, attempt=attempt, deaths=deaths, again_at=0):
            return Event(at=moment(at), kind="step", name=op, outcome="retry now", attempts=attempt + deaths)
        case Tried(op=op, at=at, attempt=attempt, deaths=deaths, error=error):
            return Event(
                at=moment(at),
                kind="step",
                name=op,
                outcome="retrying",
                attempts=attempt + deaths,
                error=in_one_line(error),
                traceback=traceback_text(error),
            )
        case Intended(op=op, at=at):
            return Event(at=moment(at), kind="step", name=op, outcome="intended")
        case Progressed(op=op, at=at):
            return Event(at=moment(at), kind="step", name=op, outcome="heartbeat")
        case Received(name=name, at=at):
            return Event(at=moment(at), kind="signal", name=name, outcome="received")
        case Cancelled(at=at, reason=reason, timed_out=timed_out):
            outcome = "timed out" if timed_out else "cancel requested"
            return Event(at=moment(at), kind="cancel", name=reason or "-", outcome=outcome)
        case Marked(id=id, at=at) if id.startswith(CODE_MARK):
            return Event(at=moment(at), kind="code", name=id.removeprefix(CODE_MARK), outcome="went on")
        case Marked(id=id, at=at) if id.startswith(AWAITED_MARK):
            name = describe_partition(id.removeprefix(AWAITED_MARK))
            return Event(at=moment(at), kind="await", name=name, outcome="waits for the end")
        case Marked(id=id, at=at):
            return Event(at=moment(at), kind="patch", name=id, outcome="marked")
        case Aside(outcome=outcome):
            return replace(_event(outcome), outcome="set aside")
        case Forked() | Pending() | Resumed() | Renewed() | Truncated() | Reopened() | TakenOver() | Parked():
            raise AssertionError(entry)  # nothing that happened in it


def _began(ms: int) -> datetime | None:
    return moment(ms) if ms else None
