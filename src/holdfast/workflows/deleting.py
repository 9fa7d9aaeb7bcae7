"""Deleting one execution that has ended: first it is marked as deleted, then all that it has stored goes.

From the first write on it counts as absent, to processes with a wrong clock too (G9), and its id is free. That it was
there stays, until it is purged: its run, its epoch, and the places of its journal. So a process that was stopped in it,
and wakes up, finds its place taken, and the next execution under its id has another run (G3). After a death in between
the purge does the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Raw

from holdfast.errors import InvalidState, NotFound, Refused
from holdfast.failure import describe
from holdfast.items import HEAD, AllOf, Delete, EpochIs, Item, RevisionIs, StatusIn, Update, Write, parts_of
from holdfast.paging import Pages
from holdfast.persist import write_for_caller
from holdfast.replay.entries import EMPTY, Done, Failed, Pending
from holdfast.replay.journal import SEGMENT_PREFIX
from holdfast.workflows.ended_outside import stands
from holdfast.workflows.finding import head_of
from holdfast.workflows.history import Recorded, load
from holdfast.workflows.launch import gave_up
from holdfast.workflows.messages import send, was_started
from holdfast.workflows.operations.awaiting import awaiting
from holdfast.workflows.outcome_error import outcome_error
from holdfast.workflows.record import (
    DELETED,
    ENDED,
    NO_VALUE,
    OPEN,
    TERMINATED,
    AwaitedEnded,
    ExecutionRecord,
    Message,
    Parent,
    decode_record,
    describe_partition,
    encode_record,
)

if TYPE_CHECKING:
    from holdfast.kernel.runtime import Runtime

BATCH: Final = 100
"""The number of items that one write deletes."""


async def delete(runtime: Runtime, partition: str) -> None:
    """Delete an execution that has ended, with its journal and all it has stored; its id is free then.

    Executions waiting for it by handle are told first how it ended. Raises ``NotFound``, and ``InvalidState`` if it is
    open, or its parent is and has not heard yet, or it was terminated and its children are not released yet: its
    journal alone knows them.
    """
    head = await head_of(runtime, partition)
    if head.status not in ENDED:
        raise InvalidState(f"{describe_partition(partition)} is {head.status}: only what has ended can be deleted")
    recorded = await load(runtime.home.store, partition)
    _refuse_if_it_has_children(recorded)
    await _refuse_if_awaited(runtime, recorded.record.parent, partition)
    await _tell(runtime, recorded)
    as_seen = AllOf((RevisionIs(head.revision), EpochIs(head.epoch), StatusIn(ENDED)))
    deleted = Update(
        partition=partition,
        when=as_seen,
        status=DELETED,
        due_at=None,
        expires_at=runtime.clock.now_ms(),
        add_revision=1,
    )
    try:
        await write_for_caller(runtime.home.store, deleted, ours=lambda there: _is_deleted(there, head))
    except Refused:
        raise InvalidState(
            f"{describe_partition(partition)} was changed by another process just now; look again"
        ) from None
    await _empty(runtime, head, AllOf((StatusIn((DELETED,)), RevisionIs(head.revision + 1), EpochIs(head.epoch))))


def _is_deleted(there: Item | None, head: Item) -> bool:
    return there is not None and there.revision == head.revision + 1 and there.status == DELETED


def _refuse_if_it_has_children(recorded: Recorded) -> None:
    """A terminated execution is due until a worker has released its children: which they are only its journal says."""
    head, entries = recorded.head, recorded.entries
    if head.status != TERMINATED or head.due_at is None:
        return
    ended = {each.op for each in entries if isinstance(each, (Done, Failed))}
    begun = {op for each in entries if isinstance(each, Pending) for op in each.operations}
    if begun - ended:
        raise InvalidState(
            f"{describe_partition(head.partition)} was terminated, and no worker has released its children yet. Run a "
            "worker that has its code, and delete it then"
        )


async def _refuse_if_awaited(runtime: Runtime, parent: Parent | None, partition: str) -> None:
    if parent is None:
        return
    try:
        waiting = await load(runtime.home.store, parent.partition)
    except NotFound:
        return
    if waiting.head.status not in OPEN or waiting.record.run != parent.run:
        return
    heard = any(isinstance(each, (Done, Failed)) and each.op == parent.op for each in waiting.entries)
    if not heard:
        raise InvalidState(
            f"{describe_partition(partition)} is awaited by its parent, {describe_partition(parent.partition)}, which "
            "is open and has not heard yet how it ended"
        )


async def _tell(runtime: Runtime, recorded: Recorded) -> None:
    record, error = recorded.record, None
    if record.result == NO_VALUE:
        error = describe(outcome_error(recorded.head.status, record, runtime.registry.errors))
    ended = AwaitedEnded(recorded.head.partition, record.result, error)
    told: list[tuple[str, Message]] = [
        (by, ended) for by in dict.fromkeys((*record.awaited_by, *awaiting(recorded.entries)))
    ]
    if (starter := record.starter) is not None:
        told.append((starter.partition, was_started(record.id, starter)))
    for by, message in told:
        now, guard = runtime.clock.now_ms(), stands(recorded.head)
        await send(by, message, runtime.home, runtime.host, runtime.sender, now, (guard,))


async def _empty(runtime: Runtime, head: Item, as_left: AllOf) -> None:
    """Empty everything, each part only while the head is as it was left: a new start there writes another one."""
    store = runtime.home.store
    emptied = Update(partition=head.partition, when=as_left, body=_emptied(head))
    try:
        async for page in Pages(lambda after: store.query(head.partition, after=after, limit=BATCH), HEAD):
            for part in parts_of([_without_content(item) for item in page.items], runtime.home.bounds):
                await write_for_caller(store, emptied, *part, ours=lambda _there: False)
        await write_for_caller(store, emptied, ours=lambda _there: False)
    except Refused:
        return  # it was started again, or another process deletes it as well


def _without_content(item: Item) -> Write:
    if item.sort.startswith(SEGMENT_PREFIX):
        return Update(partition=item.partition, sort=item.sort, body=EMPTY)
    return Delete(item.partition, item.sort)


def _emptied(head: Item) -> bytes:
    """What is left of the record: nothing that the user has given it, or got of it."""
    before = decode_record(head.body)
    return encode_record(
        ExecutionRecord(
            workflow=before.workflow,
            id=before.id,
            version=before.version,
            input=Raw(b"null"),
            fingerprint=before.fingerprint,
            created_at=before.created_at,
            secret=before.secret,
            nonce=before.nonce,
            run=before.run,
            run_at=before.run_at,
            parent=before.parent,
            starter=before.starter,
            ended_at=before.ended_at,
            error=before.error if gave_up(head.status, head.body) else None,
        )
    )
