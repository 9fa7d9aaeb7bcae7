"""Retrying an execution that ended badly: the failure is taken back with what followed from it, and nothing else (G2).

Outcomes of operations that finished after the failure are kept in the journal. A body that requests such an operation
again, with the same arguments, gets the outcome. An operation that it does not request again followed from the failure.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from operator import eq
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from holdfast.clock import Clock
from holdfast.coordination.lease import Fenced
from holdfast.errors import InvalidState, NotFound, Refused
from holdfast.flow.record import QUEUED, UNSEEN_MS, Queueing, place_put
from holdfast.items import ABSENT, AllOf, Item, Put, RevisionIs, StatusIn, Update, Write
from holdfast.kernel.host import Host
from holdfast.kernel.wake import wake
from holdfast.persist import write_for_caller
from holdfast.ports import Home
from holdfast.registrations import Registrations
from holdfast.replay.entries import Before, Done, Entry, Failed, Renewed, Reopened, encode_entries, renamed
from holdfast.replay.journal import segment_sort
from holdfast.workflows.failing import failure_of
from holdfast.workflows.history import Recorded, load
from holdfast.workflows.launch import gave_up
from holdfast.workflows.named_children import named_children
from holdfast.workflows.once import MayHaveHappened, refuse_second_time
from holdfast.workflows.queueing import queued_again, tell_gate
from holdfast.workflows.record import (
    CANCELLED,
    COMPENSATION_FAILED,
    FAILED,
    NO_VALUE,
    READY,
    TIMED_OUT,
    ExecutionRecord,
    child_id,
    decode_record,
    describe_partition,
    encode_record,
    is_there,
    partition_of,
)
from holdfast.workflows.renewed_callbacks import closed, open_callbacks, told_so
from holdfast.workflows.undone import Undone

if TYPE_CHECKING:
    from holdfast.kernel.runtime import Runtime

RETRYABLE: Final = (FAILED, TIMED_OUT, CANCELLED, COMPENSATION_FAILED)
CHILD_KIND: Final = "child"


async def retry(runtime: Runtime, partition: str, request: str = "") -> int:
    """Go on with an execution that ended badly, from the operation that failed; what was finished stays finished (G2).

    If an awaited child failed, that is retried first, by the same rules; one that has undone its work starts again.
    After a ``COMPENSATION_FAILED`` it goes on with the undos that gave up. An execution whose saga has undone its work
    cannot be retried (``InvalidState``): start a new one, or ``fork`` it. Neither can one whose failed step is at most
    once and may have happened (G10). The journal keeps the id of the ``request``.
    Answers when it was, in milliseconds.
    """
    return await Retrier(runtime.home, runtime.host, runtime.registry, runtime.clock).retry(partition, request)


class Retrier(Struct, frozen=True):
    """What it takes to retry an execution, for a handle as for a parent that needs its child again.

    ``guards`` are writes that change nothing, and are refused if a retry is no longer for us to make.
    """

    home: Home
    host: Host | None
    registry: Registrations
    clock: Clock
    guards: tuple[Update, ...] = ()

    async def retry(self, partition: str, request: str = "") -> int:
        """See above. Raises ``InvalidState`` and ``NotFound``, and ``Fenced`` if a guard is refused."""
        recorded = await load(self.home.store, partition)
        head, now = recorded.head, self.clock.now_ms()
        if not is_there(head, now):
            raise NotFound(f"there is no {describe_partition(partition)}")
        if head.status not in RETRYABLE:
            raise InvalidState(
                f"{describe_partition(partition)} is {head.status}; only {', '.join(RETRYABLE)} can be retried"
            )
        failure = failure_of(recorded, self.registry)
        refuse_second_time(recorded, failure.ops, self.registry)
        anew = await self._starting_anew(failure.ops, recorded)
        before = _before(head, recorded.record)
        reopened = Reopened(failure.place, now, failure.ops, tuple(anew), before, request)
        renewed, run = open_callbacks(recorded, reopened, self.registry), recorded.record.run
        queued = self._queued_again(recorded, now)
        segment, update = _writes(recorded, [*told_so(renewed, run, now), reopened], queued, now)
        places = () if queued is None else (place_put(partition, queued),)
        writes: tuple[Write, ...] = (segment, update, *self.guards, *places, *closed(renewed, partition, run))
        try:
            await write_for_caller(self.home.store, *writes, ours=partial(eq, segment.item))
        except Refused as refused:
            if refused.index >= len((segment, update)):
                raise Fenced(f"{describe_partition(partition)} is for a newer owner to retry") from None
            raise InvalidState(
                f"{describe_partition(partition)} was changed by another process just now; look again"
            ) from None
        if queued is None:
            wake(partition, self.home, self.host)
        else:
            tell_gate(partition, queued, self.home, self.host)
        return now

    def _queued_again(self, recorded: Recorded, now: int) -> Queueing | None:
        """It waits for a slot again, for its old one is free. A new epoch makes old permissions void."""
        head, record = recorded.head, recorded.record
        return queued_again(record, self.registry.workflows.get(record.workflow), since=now, epoch=head.epoch + 1)

    async def _starting_anew(self, ops: Sequence[str], recorded: Recorded) -> list[str]:
        """The failed operations that must not find again what they have found: children that have undone their work.

        Other children are retried here, before their parent. After a crash in between the parent finds them retried.
        """
        failed = {each.op: each.kind for each in recorded.entries if isinstance(each, (Done, Failed))}
        children = [op for op in ops if failed.get(op) == CHILD_KIND]
        named = named_children(recorded, self.registry) if children else {}
        for op, child in named.items():
            if op in ops or op not in failed:  # what has ended since, the body does not know yet
                await self._retry_own(child, recorded.head.partition)
        return [op for op in children if op not in named and await self._goes_on_without(child_partition(recorded, op))]

    async def _retry_own(self, child: str, parent: str) -> None:
        """Retry a child under an id that the body has given it, unless it is another's, or was stopped with its parent,
        which then retries it itself. It keeps its id, so one that has undone its work is found as it is.
        """
        head = await self.home.store.get(child)
        if head is None or gave_up(head.status, head.body):
            return
        started_by = decode_record(head.body).parent
        if started_by is not None and started_by.partition == parent:
            await self._goes_on_without(child)

    async def _goes_on_without(self, child: str) -> bool:
        """Retry a child that ended badly, unless another process does. Returns whether a new child must replace it."""
        while True:
            head = await self.home.store.get(child)
            if head is None or head.status not in RETRYABLE:
                return False
            try:
                await self.retry(child)
            except (Undone, NotFound):  # of what has expired a part may be gone
                return True
            except MayHaveHappened:
                raise  # that is for a person to find out
            except InvalidState:
                continue  # it was changed just now: another process has retried it
            return False


def child_partition(recorded: Recorded, op: str) -> str:
    """Where the child of an operation is."""
    name = op.rpartition("/")[2].rpartition("#")[0]
    times = sum(isinstance(entry, Renewed) and entry.op == op for entry in recorded.entries)
    return partition_of(name, child_id(recorded.head.partition, recorded.record, renamed(op, times)))


def _writes(recorded: Recorded, entries: Sequence[Entry], queued: Queueing | None, now: int) -> tuple[Put, Update]:
    head, record = recorded.head, recorded.record
    segment = Item(
        partition=head.partition,
        sort=segment_sort(record.run, recorded.segments),
        epoch=head.epoch,
        body=encode_entries([*record.tail, *entries]),
    )
    update = Update(
        partition=head.partition,
        when=AllOf((RevisionIs(head.revision), StatusIn(RETRYABLE))),
        status=READY if queued is None else QUEUED,
        due_at=now if queued is None else now + UNSEEN_MS,
        expires_at=None,
        body=encode_record(replace(_open_again(record, now), queued=queued)),
        add_revision=1,
        add_epoch=0 if queued is None else 1,
    )
    return Put(segment, ABSENT), update


def _before(head: Item, record: ExecutionRecord) -> Before:
    error = "" if record.error is None else record.error.type
    return Before(record.timed_from, record.ended_at or record.created_at, head.status, error)


def _open_again(record: ExecutionRecord, now: int) -> ExecutionRecord:
    since = record.timed_from or max(record.created_at, record.starts_at)
    timed_from = max(now, record.starts_at)
    return replace(
        record,
        tail=(),
        notes=(),
        result=NO_VALUE,
        error=None,
        queries={},
        ended_at=None,
        timed_from=timed_from,
        deadline_at=None if record.deadline_at is None else timed_from + record.deadline_at - since,
    )
