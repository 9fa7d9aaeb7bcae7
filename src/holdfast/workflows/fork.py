"""Forking: a new execution that shares another's input and the beginning of its journal."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from operator import eq
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from holdfast import ids
from holdfast.errors import InvalidInput, InvalidState, Refused
from holdfast.flow.record import QUEUED, UNSEEN_MS, place_put
from holdfast.items import ABSENT, Item, Put
from holdfast.kernel.wake import wake
from holdfast.persist import write_for_caller
from holdfast.replay.entries import (
    DELIVERIES,
    Done,
    Entry,
    Failed,
    Forked,
    Intended,
    Marked,
    Pending,
    Progressed,
    Tried,
    encode_entries,
)
from holdfast.replay.journal import FIRST_EPOCH, LONGEST_SEGMENT_ENTRIES, segment_sort
from holdfast.workflows.callback_keys import new_execution_secret
from holdfast.workflows.finding import head_of
from holdfast.workflows.history import Recorded, load
from holdfast.workflows.queueing import queued_again, tell_gate
from holdfast.workflows.record import (
    AWAITED_MARK,
    NO_VALUE,
    READY,
    ExecutionRecord,
    check_new_id,
    describe_partition,
    encode_record,
    partition_of,
    seed_of,
)
from holdfast.workflows.runs import first_revision, first_run
from holdfast.workflows.undone import refuse_undone

if TYPE_CHECKING:
    from holdfast.kernel.runtime import Runtime

MOST_NAMES_TOLD: Final = 20
"""The number of operations that an error names: the latest ones."""


async def fork(runtime: Runtime, partition: str, id: str, before: str | None) -> None:
    """Start a new execution that shares this one's input and its journal up to the operation ``before``.

    Raises ``Undone`` if it would keep a finished step that the original has undone later, or is undoing.
    """
    await head_of(runtime, partition)
    recorded = await load(runtime.home.store, partition)
    place = len(recorded.entries) if before is None else _place_of(recorded, before)
    refuse_undone(recorded, runtime.registry, place)
    shared = _forked(recorded.entries[:place])
    kept = _with_new_chances(shared)
    now = runtime.clock.now_ms()
    record = _new_record(recorded, id, runtime, seeded=len(kept) > len(shared))
    new_partition = partition_of(record.workflow, id)
    body = encode_record(record)
    revision = first_revision(record.run) + 1
    status, due_at = (READY, now) if record.queued is None else (QUEUED, now + UNSEEN_MS)
    places = () if record.queued is None else (place_put(new_partition, record.queued),)
    head = Item(partition=new_partition, status=status, revision=revision, epoch=FIRST_EPOCH, due_at=due_at, body=body)
    chunks = [kept[at : at + LONGEST_SEGMENT_ENTRIES] for at in range(0, len(kept), LONGEST_SEGMENT_ENTRIES)]
    segments = [
        Put(Item(partition=new_partition, sort=segment_sort(record.run, place), body=encode_entries(chunk)), ABSENT)
        for place, chunk in enumerate(chunks)
    ]
    try:
        await write_for_caller(
            runtime.home.store,
            Put(head, ABSENT),
            *segments,
            *places,
            ours=partial(eq, head),
        )
    except Refused:
        raise InvalidState(f"{describe_partition(new_partition)} is there already; fork under another id") from None
    if record.queued is None:
        wake(new_partition, runtime.home, runtime.host)
    else:
        tell_gate(new_partition, record.queued, runtime.home, runtime.host)


def _new_record(recorded: Recorded, id: str, runtime: Runtime, *, seeded: bool) -> ExecutionRecord:
    """The record of the new execution. ``seeded``: what it draws behind the shared entries is its own."""
    now = runtime.clock.now_ms()
    return replace(
        recorded.record,
        id=check_new_id(id),
        created_at=now,
        secret=new_execution_secret(),
        nonce=ids.new_nonce() if recorded.record.nonce else "",  # the journal is of the old format, and stays so
        seed=seed_of(recorded.record) if seeded else "",
        run=first_run(runtime.home),
        parent=None,
        root="",
        awaited_by=(),
        tail=(),
        notes=(),
        blocked="",
        parked=False,
        ended_at=None,
        result=NO_VALUE,
        error=None,
        queries={},
        deadline_at=None,
        timed_from=0,
        waits=None,
        queued=queued_again(
            recorded.record, runtime.registry.workflows.get(recorded.record.workflow), since=now, epoch=FIRST_EPOCH
        ),
        shares=(),
    )


def _forked(entries: Sequence[Entry]) -> list[Entry]:
    """The entries for the new execution, without operations that had not finished. Also left out are the digests of
    arguments, which may hold the old execution's id or callback tokens, and the requests of those that await it.
    """
    finished = {entry.op for entry in entries if isinstance(entry, (Done, Failed))}
    kept: list[Entry] = []
    for entry in entries:
        match entry:
            case Done() | Failed():
                kept.append(replace(entry, fingerprint=""))
            case Marked(id=id) if id.startswith(AWAITED_MARK):
                pass
            case Tried(op=op) | Intended(op=op) | Progressed(op=op) if op not in finished:
                pass
            case Pending(operations=operations, waits=waits, others=others):
                known = {op: "" for op in operations if op in finished}
                kept.append(Pending(known, waits, tuple([op for op in others if op in known])))
            case _:
                kept.append(entry)
    return kept


def _with_new_chances(shared: Sequence[Entry]) -> list[Entry]:
    """The shared entries, and before the last one that the body waits for: what it draws behind that is its own.

    The seed changes before the body goes on from there, so nothing it has yet to do repeats what the other drew. If it
    waited for none of them, nothing is shared, and there is no entry more.
    """
    for place in range(len(shared) - 1, -1, -1):
        last = shared[place]
        if isinstance(last, DELIVERIES):
            return [*shared[:place], Forked(ids.new_secret(), last.at), *shared[place:]]
    return list(shared)


def _place_of(recorded: Recorded, op: str) -> int:
    for place, entry in enumerate(recorded.entries):
        if isinstance(entry, (Done, Failed)) and entry.op == op:
            return place
    known = [entry.op for entry in recorded.entries if isinstance(entry, (Done, Failed))]
    more = f"{len(known) - MOST_NAMES_TOLD} others, " if len(known) > MOST_NAMES_TOLD else ""
    told = more + ", ".join(known[-MOST_NAMES_TOLD:]) or "none"
    execution = describe_partition(recorded.head.partition)
    raise InvalidInput(f"{execution} has no finished operation {op!r}; it has: {told}")
