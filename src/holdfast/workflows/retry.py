"""Retrying an execution that ended badly: the failure is dropped with what followed from it, and nothing else (G2)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from operator import eq
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from holdfast.errors import InvalidState, Refused
from holdfast.items import ABSENT, AllOf, Item, Put, RevisionIs, StatusIn, Update
from holdfast.kernel.entries import (
    Cancelled,
    Done,
    Entry,
    Failed,
    Intended,
    Marked,
    Progressed,
    Received,
    Tried,
    Truncated,
    encode_entries,
    standing,
)
from holdfast.kernel.host import nudge
from holdfast.kernel.journal import segment_sort
from holdfast.persist import write_for_caller
from holdfast.workflows.history import Recorded, load
from holdfast.workflows.record import (
    CANCELLED,
    COMPENSATION_FAILED,
    FAILED,
    NO_VALUE,
    READY,
    TIMED_OUT,
    ExecutionRecord,
    describe_partition,
    encode_record,
)
from holdfast.workflows.replay import activation_of

if TYPE_CHECKING:
    from holdfast.workflows.access import Access

RETRYABLE: Final = (FAILED, TIMED_OUT, CANCELLED, COMPENSATION_FAILED)
UNDO_SUFFIX: Final = ".undo"


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
    now = access.clock.now_ms()
    keep, afresh = _before_the_failure(recorded)
    truncated = Truncated(keep, now, afresh)
    reopened = _reopened(record, now)
    before = standing([*recorded.entries, truncated])
    segment = Item(
        partition=partition,
        sort=segment_sort(record.run, recorded.segments),
        epoch=head.epoch,
        body=encode_entries([*record.tail, truncated, *_kept_after(recorded, keep, before, reopened, access)]),
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
        await write_for_caller(
            access.home.store,
            Put(segment, ABSENT),
            update,
            ours=partial(eq, segment),
        )
    except Refused:
        raise InvalidState(
            f"{describe_partition(partition)} was changed by somebody else just now; look again"
        ) from None
    nudge(partition, access.home, access.host)


def _reopened(record: ExecutionRecord, now: int) -> ExecutionRecord:
    first_began_at = max(record.created_at, record.starts_at)
    timeout_ms = None if record.deadline_at is None else record.deadline_at - first_began_at
    return replace(
        record,
        tail=(),
        notes=(),
        result=NO_VALUE,
        error=None,
        queries={},
        ended_at=None,
        deadline_at=None if timeout_ms is None else max(now, record.starts_at) + timeout_ms,
    )


# ── What to drop ────────────────────────────────────────────────────────────────────────────────────────────────────


def _before_the_failure(recorded: Recorded) -> tuple[int, str]:
    """How many entries come before the failure that ended the execution; and the operation that failed."""
    entries, status = recorded.entries, recorded.head.status
    for place in range(len(entries) - 1, -1, -1):
        entry = entries[place]
        if not _ended_it(entry, status, recorded):
            continue
        undone = [each.op for each in entries[place:] if isinstance(each, Done) and _is_undo(each.op)]
        if undone:
            raise InvalidState(
                f"{describe_partition(recorded.head.partition)} was compensated ({', '.join(undone)}): its finished "
                "steps no longer hold. Start a new execution, or fork this one before the step that failed"
            )
        return place, entry.op if isinstance(entry, Failed) else ""
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


# ── What to keep ────────────────────────────────────────────────────────────────────────────────────────────────────


def _kept_after(
    recorded: Recorded, keep: int, before: Sequence[Entry], reopened: ExecutionRecord, access: Access
) -> list[Entry]:
    """The entries behind the failure that other branches of the body had asked for, found by replaying without it.

    What nobody asks for now followed from the failure; it is dropped with it.
    """
    workflow = access.registry.workflow(reopened.workflow)
    rebuild = access.registry.errors.rebuild
    activation = activation_of(recorded.head.partition, reopened, workflow, before, rebuild, looking=True)
    kept: list[Entry] = []
    try:
        activation.begin()
        for entry in recorded.entries[keep + 1 :]:
            match entry:
                case Received() | Marked():
                    kept.append(entry)
                case Done(op=op) | Failed(op=op) | Tried(op=op) | Intended(op=op) | Progressed(op=op):
                    if op in activation.requested:
                        kept.append(entry)
                case _:
                    pass
            if kept and kept[-1] is entry and isinstance(entry, (Done, Failed, Received)):
                activation.deliver(entry)
        if activation.broken is not None:
            raise activation.broken
    finally:
        activation.evict()
    return kept
