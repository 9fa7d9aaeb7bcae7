"""Spans of executions that ran before: the journal is still there, and the ids follow from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from holdfast.items import Item
from holdfast.otel.spans import Span, Subject, of_end, of_ended, of_entries
from holdfast.paging import items
from holdfast.replay.earlier import name_of
from holdfast.replay.entries import (
    Done,
    Entry,
    Failed,
    Forked,
    Renewed,
    Reopened,
    decode_entries,
    renamed,
    standing,
)
from holdfast.replay.journal import SEGMENT_PREFIX
from holdfast.workflows.record import (
    ENDED,
    ExecutionRecord,
    child_id,
    decode_record,
    is_there,
    partition_of,
)

if TYPE_CHECKING:
    from holdfast.kernel.runtime import Runtime
    from holdfast.ports import Store

CHILD: Final = "child"


async def spans_of(runtime: Runtime, partition: str) -> AsyncIterator[Span]:
    """The spans of the current run of an execution, and of the children that it has started, whatever process made
    them once. Each journal is read once.

    Not those of earlier runs, whose journals are deleted, and not those of children under ids of the user's own, which
    the journal does not name: trace them by their ids.
    """
    store, now = runtime.home.store, runtime.clock.now_ms()
    waiting = [partition]
    while waiting:
        head = await store.get(waiting.pop())
        if not is_there(head, now):
            continue
        record = decode_record(head.body)
        entries = await written(store, head, record)
        for span in spans_in(head, record, entries):
            yield span
        waiting += children_in(head.partition, record, entries)


async def written(store: Store, head: Item, record: ExecutionRecord) -> list[Entry]:
    """All that was ever written of a run, what a retry took back too: it happened."""
    entries: list[Entry] = []
    async for item in items(store, head.partition, prefix=f"{SEGMENT_PREFIX}{record.run:06d}#"):
        entries += decode_entries(item.body)
    held = record.notes if record.notes_at == len(standing(entries)) else ()
    return [*entries, *held, *record.tail]


def spans_in(head: Item, record: ExecutionRecord, entries: Sequence[Entry]) -> list[Span]:
    """The spans that these entries and the head tell."""
    spans: list[Span] = []
    part: list[Entry] = []
    for entry in entries[_shared(entries) :]:
        if isinstance(entry, Reopened) and (ended := entry.ended) is not None:
            before = Subject(head.partition, replace(record, timed_from=ended.since))
            spans += [*of_entries(before, part), of_ended(before, ended)]
            part = []
        else:
            part.append(entry)
    subject = Subject(head.partition, record)
    spans += of_entries(subject, part)
    if head.status in ENDED:
        spans.append(of_end(subject, head.status))
    return spans


def _shared(entries: Sequence[Entry]) -> int:
    """How many entries are those of the execution that this one was forked from: up to the delivery behind the last
    change of chances, and the notes on it.
    """
    forks = [place for place, entry in enumerate(entries) if isinstance(entry, Forked)]
    return forks[-1] + 2 if forks else 0


def children_in(partition: str, record: ExecutionRecord, entries: Sequence[Entry]) -> list[str]:
    """Where the children are that these entries tell of."""
    renewals: Counter[str] = Counter()
    found: dict[str, None] = {}
    for entry in entries:
        match entry:
            case Renewed(op=op):
                renewals[op] += 1
            case Reopened(anew=anew):
                renewals.update(anew)
            case Done(op=op, kind=kind) | Failed(op=op, kind=kind) if kind in {CHILD, "start"}:
                id = child_id(partition, record, renamed(op, renewals[op]))
                found[partition_of(name_of(op), id)] = None
            case _:
                pass
    return list(found)
