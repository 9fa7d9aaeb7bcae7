"""Changing an execution from outside: pause, resume, terminate, retry, fork. Each is one conditional write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from holdfast import ids
from holdfast.errors import ExecutionTerminated, InvalidInput, InvalidState, NotFound, Refused
from holdfast.failure import describe
from holdfast.items import ABSENT, AllOf, Item, Put, RevisionIs, StatusIn, Update
from holdfast.kernel.entries import (
    Cancelled,
    Done,
    Entry,
    Failed,
    Intended,
    Progressed,
    Tried,
    Truncated,
    encode_entries,
)
from holdfast.kernel.journal import LONGEST_SEGMENT_ENTRIES, Journal, segment_sort
from holdfast.kernel.persist import write_until_known
from holdfast.workflows.history import Recorded, load
from holdfast.workflows.messages import TRIES, nudge
from holdfast.workflows.record import (
    CANCELLED,
    CLAIMABLE,
    COMPENSATION_FAILED,
    ENDED,
    FAILED,
    NO_VALUE,
    OPEN,
    PAUSED,
    READY,
    TERMINATED,
    TIMED_OUT,
    check_id,
    decode_record,
    describe_partition,
    encode_record,
    partition_of,
    seed_of,
)

if TYPE_CHECKING:
    from holdfast.workflows.access import Access

RETRYABLE: Final = (FAILED, TIMED_OUT, CANCELLED, COMPENSATION_FAILED)
UNDO_SUFFIX: Final = ".undo"
TERMINATOR: Final = "terminated"
"""The name under which a terminated execution's journal is closed."""


async def pause(access: Access, partition: str) -> None:
    """Start no new effects until ``resume``; running ones finish and are recorded."""
    update = Update(partition=partition, when=StatusIn(CLAIMABLE), status=PAUSED, add_revision=1)
    await _change(access, partition, update, allowed=(PAUSED,))


async def resume(access: Access, partition: str) -> None:
    """Go on with a paused execution."""
    now = access.clock.now_ms()
    update = Update(partition=partition, when=StatusIn((PAUSED,)), status=READY, due_at=now, add_revision=1)
    await _change(access, partition, update, allowed=CLAIMABLE)


async def _change(access: Access, partition: str, update: Update, allowed: tuple[str, ...]) -> None:
    try:
        await write_until_known(access.home.store, update, ours=lambda _there: False, tries=TRIES)
    except Refused as refused:
        if refused.item is None:
            raise NotFound(f"there is no {describe_partition(partition)}") from None
        if refused.item.status not in allowed:
            raise InvalidState(f"{describe_partition(partition)} is {refused.item.status}") from None
    nudge(partition, access.home, access.host)


async def terminate(access: Access, partition: str, reason: str) -> None:
    """End the execution at once: no clean-up, no compensation. Its owner is fenced out (G3)."""
    while True:
        head = await access.home.store.get(partition)
        if head is None:
            raise NotFound(f"there is no {describe_partition(partition)}")
        if head.status in ENDED:
            raise InvalidState(f"{describe_partition(partition)} has ended as {head.status}")
        record = decode_record(head.body)
        ended = replace(record, ended_at=access.clock.now_ms(), error=describe(ExecutionTerminated(reason)))
        update = Update(
            partition=partition,
            when=AllOf((RevisionIs(head.revision), StatusIn(OPEN))),
            status=TERMINATED,
            owner=None,
            lease_until=None,
            due_at=None,
            body=encode_record(ended),
            add_revision=1,
            add_epoch=1,
            load=True,
        )
        try:
            (closed,) = await access.home.store.write(update)
            break
        except Refused:
            continue  # somebody changed it meanwhile: look again
    assert closed is not None
    journal = Journal(access.home.store, partition, record.run, TERMINATOR, closed.epoch)
    await journal.load()
    await journal.fence()
    nudge(partition, access.home, access.host)


async def retry(access: Access, partition: str) -> None:
    """Go on with an execution that ended badly, from the operation that failed; what was finished stays finished (G2).

    After a ``COMPENSATION_FAILED`` it goes on with the undo that gave up. An execution whose saga has undone its work
    cannot be retried (``InvalidState``): start a new one, or ``fork`` it.
    """
    recorded = await load(access.home.store, partition)
    head, record = recorded.head, recorded.record
    if head.status not in RETRYABLE:
        raise InvalidState(
            f"{describe_partition(partition)} is {head.status}; only {', '.join(RETRYABLE)} can be retried"
        )
    keep, afresh = _resumption(recorded)
    now = access.clock.now_ms()
    on_record = [*record.tail, Truncated(keep, now, afresh)]
    segment = Item(
        partition=partition,
        sort=segment_sort(record.run, recorded.segments),
        epoch=head.epoch,
        body=encode_entries(on_record),
    )
    timeout_ms = None if record.deadline_at is None else record.deadline_at - record.created_at
    reopened = replace(
        record,
        tail=[],
        result=NO_VALUE,
        error=None,
        ended_at=None,
        deadline_at=None if timeout_ms is None else now + timeout_ms,
    )
    update = Update(
        partition=partition,
        when=AllOf((RevisionIs(head.revision), StatusIn(RETRYABLE))),
        status=READY,
        due_at=now,
        expires_at=None,
        body=encode_record(reopened),
        add_revision=1,
    )
    try:
        await access.home.store.write(Put(segment, ABSENT), update)
    except Refused:
        raise InvalidState(
            f"{describe_partition(partition)} was changed by somebody else just now; look again"
        ) from None
    nudge(partition, access.home, access.host)


def _resumption(recorded: Recorded) -> tuple[int, str]:
    """How many entries to keep, all before the failure that ended the execution; and the operation that failed."""
    entries, status = recorded.entries, recorded.head.status
    for place in range(len(entries) - 1, -1, -1):
        if _ended_it(entries[place], status, recorded):
            undone = [e.op for e in entries[place:] if isinstance(e, Done) and _is_undo(e.op)]
            if undone:
                raise InvalidState(
                    f"{describe_partition(recorded.head.partition)} was compensated ({', '.join(undone)}): its "
                    "finished steps no longer hold. Start a new execution, or fork this one before the step that failed"
                )
            ended_by = entries[place]
            return place, ended_by.op if isinstance(ended_by, Failed) else ""
    return len(entries), ""


def _ended_it(entry: Entry, status: str, recorded: Recorded) -> bool:
    error = recorded.record.error
    match entry:
        case Cancelled(timed_out=timed_out):
            return status == (TIMED_OUT if timed_out else CANCELLED)
        case Failed(op=op) if status == COMPENSATION_FAILED:
            return _is_undo(op)
        case Failed(error=failed):
            # The body may have raised another error from it, or a task group may have wrapped it.
            lineage = () if error is None else error.lineage()
            return any((failed.type, failed.message) == (each.type, each.message) for each in lineage)
        case _:
            return False


def _is_undo(op: str) -> bool:
    return op.rpartition("/")[2].rpartition("#")[0].endswith(UNDO_SUFFIX)


async def fork(access: Access, partition: str, id: str, before: str | None) -> None:
    """Start a new execution that shares this one's input and its journal up to the operation ``before``."""
    recorded = await load(access.home.store, partition)
    kept = _forked(recorded.entries if before is None else _entries_before(recorded, before))
    now = access.clock.now_ms()
    record = replace(
        recorded.record,
        id=check_id(id),
        created_at=now,
        secret=ids.new_secret(),
        seed=seed_of(recorded.record),
        run=0,
        parent=None,
        tail=[],
        ended_at=None,
        result=NO_VALUE,
        error=None,
        deadline_at=None,
    )
    new_partition = partition_of(record.workflow, id)
    head = Item(partition=new_partition, status=READY, revision=1, due_at=now, body=encode_record(record))
    chunks = [kept[at : at + LONGEST_SEGMENT_ENTRIES] for at in range(0, len(kept), LONGEST_SEGMENT_ENTRIES)]
    segments = [
        Put(Item(partition=new_partition, sort=segment_sort(0, place), body=encode_entries(chunk)), ABSENT)
        for place, chunk in enumerate(chunks)
    ]
    try:
        await access.home.store.write(Put(head, ABSENT), *segments)
    except Refused:
        raise InvalidState(f"{describe_partition(new_partition)} is there already; fork under another id") from None
    nudge(new_partition, access.home, access.host)


def _forked(entries: Sequence[Entry]) -> list[Entry]:
    """The entries for another execution: nothing of operations that had not finished, and no digests of arguments,
    which may hold what is another's now: its id, or the tokens of its callbacks.
    """
    finished = {entry.op for entry in entries if isinstance(entry, (Done, Failed))}
    kept: list[Entry] = []
    for entry in entries:
        match entry:
            case Done() | Failed():
                kept.append(replace(entry, fingerprint=""))
            case Tried(op=op) | Intended(op=op) | Progressed(op=op) if op not in finished:
                pass
            case _:
                kept.append(entry)
    return kept


def _entries_before(recorded: Recorded, op: str) -> list[Entry]:
    for place, entry in enumerate(recorded.entries):
        if isinstance(entry, (Done, Failed)) and entry.op == op:
            return recorded.entries[:place]
    known = ", ".join(e.op for e in recorded.entries if isinstance(e, (Done, Failed))) or "none"
    raise InvalidInput(
        f"{describe_partition(recorded.head.partition)} has no finished operation {op!r}; it has: {known}"
    )
