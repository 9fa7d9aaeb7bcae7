"""Starting an execution: one conditional write, the same from code, parents, queues and schedules (G1, G11)."""

from __future__ import annotations

from asyncio import CancelledError
from functools import partial
from operator import eq
from typing import TYPE_CHECKING

from msgspec import Raw, Struct
from msgspec.structs import replace

from holdfast import ids
from holdfast.errors import (
    IdempotencyMismatch,
    Refused,
)
from holdfast.failure import describe
from holdfast.flow.at_once import at_once
from holdfast.flow.declarations import Queued
from holdfast.flow.placing import is_placed, take_back
from holdfast.flow.record import QUEUED, UNSEEN_MS, make_due, place_put
from holdfast.flow.record import create as create_gate
from holdfast.items import ABSENT, AllOf, Condition, EpochIs, Expired, Item, Put, RevisionIs, StatusIn
from holdfast.kernel.host import serving
from holdfast.kernel.ownership import lease_until
from holdfast.kernel.room import leave_room
from holdfast.kernel.unit import Unit, current_unit
from holdfast.kernel.wake import wake, wake_at
from holdfast.persist import write_for_caller
from holdfast.replay.entries import Cancelled
from holdfast.tracing import here
from holdfast.workflows.callback_keys import new_execution_secret
from holdfast.workflows.queueing import queueing_of, refuse_if_full, tell_gate
from holdfast.workflows.record import (
    CANCELLED,
    DELETED,
    DERIVED_ID_MARK,
    NO_LONGER_AWAITED,
    READY,
    RUNNING,
    ExecutionRecord,
    Parent,
    are_same,
    decode_record,
    describe_partition,
    encode_record,
    is_there,
    partition_of,
)
from holdfast.workflows.runs import first_revision, first_run

if TYPE_CHECKING:
    from holdfast.clock import Clock
    from holdfast.flow.declarations import Queue
    from holdfast.kernel.host import Host
    from holdfast.ports import Home
    from holdfast.workflows.declared import DeclaredWorkflow


class Launch(Struct, frozen=True, gc=False, kw_only=True):
    """What to start: a workflow's input, canonically encoded, under an id.

    Its body begins no earlier than ``starts_at``, from which its timeout counts. ``root`` is the partition of the
    execution at the top of its family, if it has a parent; ``starter`` is what leaves it to itself, if it has none.
    ``trace`` is the context of who starts it; if empty, that of the code that runs. ``queued`` is what is said of its
    place in a queue, ``shares`` are the queues in which it shares a slot. ``needs``: see ``ExecutionRecord``.
    """

    id: str
    input: bytes
    needs: str = ""
    tags: dict[str, str] = {}
    parent: Parent | None = None
    starter: Parent | None = None
    root: str = ""
    timeout_ms: int | None = None
    starts_at: int = 0
    trace: str = ""
    queued: Queued | None = None
    shares: tuple[str, ...] = ()


async def launch(home: Home, host: Host | None, workflow: DeclaredWorkflow, order: Launch, clock: Clock) -> Item:
    """Create the execution's head, or find the one that is there. Answers the head.

    With a host that has room the head is born with our lease in it, and its first turn begins at once, unless it waits
    in a queue. Raises ``IdempotencyMismatch`` if the id belongs to another input, and ``QueueFull``.
    """
    if workflow.shares:
        input, needs = await workflow.sharing(order.input, home)
        order = replace(order, input=input, needs=needs)
    if (unit := current_unit.get()) is not None:
        return await _launch_with(unit, home, workflow, order, clock)
    partition = partition_of(workflow.name, order.id)
    queue = workflow.policy.queue
    if queue is not None and order.parent is None and order.starter is None:  # no execution has asked for it
        await refuse_if_full(queue, partition, home, host)
    if host is None or serving(host, partition) is None:  # another app of this home, or another function, takes it up
        return await _launch(partition, home, None, workflow, order, clock)
    host.creations.expect(partition)
    try:
        async with host.pace.creations:
            return await _launch(partition, home, host, workflow, order, clock)
    finally:
        leave_room(partition, host)


async def _launch_with(unit: Unit, home: Home, workflow: DeclaredWorkflow, order: Launch, clock: Clock) -> Item:
    """Create the head with the commit of the handler that is running, unless the execution is there already (G5)."""
    partition = partition_of(workflow.name, order.id)
    unit.refuse_elsewhere(home, describe_partition(partition))
    with unit.waiting():
        there = await home.store.get(partition)
    there = unit.head_to_be(partition) or there
    now = clock.now_ms()
    if there is None:
        head = _new_head(partition, home, None, workflow, order, now, run=first_run(home), epoch=0)
        _add_to(unit, head, Put(head, ABSENT), now)
        return head
    if _is_free(there, order, now):
        run = decode_record(there.body).run + 1
        head = _new_head(partition, home, None, workflow, order, now, run=run, epoch=there.epoch + 1)
        _add_to(unit, head, Put(head, _still_free(there, now)), now)
        return head
    return _same_execution(there, workflow, order)


def _add_to(unit: Unit, head: Item, put: Put, now: int) -> None:
    """Write a head with the commit of a handler, and its place with it: so no worker has to see to that."""
    queued = decode_record(head.body).queued if head.status == QUEUED else None
    if queued is None or queued.since > now:
        unit.add(head.partition, put)
        return
    unit.add(queued.gate, put, place_put(head.partition, queued))


async def _launch(
    partition: str, home: Home, host: Host | None, workflow: DeclaredWorkflow, order: Launch, clock: Clock
) -> Item:
    when: Condition = ABSENT
    run, epoch = first_run(home), 0
    while True:
        now = clock.now_ms()
        head = _new_head(partition, home, host, workflow, order, now, run=run, epoch=epoch)
        try:
            if head.status == QUEUED:
                head = await _write_waiting(head, when, workflow.policy.queue, home, host, now)
            else:
                await write_for_caller(home.store, Put(head, when), ours=partial(eq, head))
        except Refused as refused:
            there = refused.item
        else:
            _set_off(head, home, host, clock)
            return head
        if there is None:  # it expired and was purged between two tries
            when, run, epoch = ABSENT, first_run(home), 0
        elif _is_free(there, order, clock.now_ms()):
            # The journal of the expired execution may still be there: a run of another number does not see it.
            when, run, epoch = _still_free(there, clock.now_ms()), decode_record(there.body).run + 1, there.epoch + 1
        else:
            return _same_execution(there, workflow, order)


async def _write_waiting(
    head: Item, when: Condition, queue: Queue | None, home: Home, host: Host | None, now: int
) -> Item:
    """Write a new head that is to wait in a queue, and answer it. Its place and the wake-up of its gate come with it,
    in one call where that costs nothing more. It does not wait if it may begin at once.
    """
    queued = decode_record(head.body).queued
    if queue is None or queued is None or queued.since > now:
        await write_for_caller(home.store, Put(head, when), ours=partial(eq, head))
        return head
    place = place_put(head.partition, queued)
    if home.writes_are_paid:
        return await _write_behind(place, head, when, queue, home)
    if host is not None and (begins := at_once(head.partition, queued, queue, host)) is not None:
        try:
            running = _worked_on(head.partition, head.revision, head.epoch, head.body, host, now)
            if await begins.write(Put(running, when), partial(eq, running)):
                return running
        finally:
            begins.close()
    while True:
        try:
            writes = (Put(head, when), place, make_due(queued.gate, now))
            await write_for_caller(home.store, *writes, ours=partial(eq, head))
        except Refused as refused:
            if refused.index == 0:
                raise
            await create_gate(queued.gate, home, queue)  # no worker with this queue has run yet
        else:
            return head


async def _write_behind(place: Put, head: Item, when: Condition, queue: Queue, home: Home) -> Item:
    """Write a place, and its head behind it: nothing is due for the head, then, but its timeout. If another head is in
    the way, or the queue may not look at the place, the head comes first, and is due until a worker has seen its place.
    """
    if when == ABSENT and await is_placed(place, queue):
        waiting = replace(head, due_at=decode_record(head.body).deadline_at)
        try:
            await write_for_caller(home.store, Put(waiting, ABSENT), ours=partial(eq, waiting))
        except Refused as refused:
            await take_back(place, refused.item, queue)
            raise
        return waiting
    await write_for_caller(home.store, Put(head, when), ours=partial(eq, head))
    await is_placed(place, queue)
    return head


async def cancel_before_start(
    home: Home, workflow: DeclaredWorkflow, order: Launch, reason: str, clock: Clock
) -> ExecutionRecord | None:
    """Cancel an execution before it begins: its place is taken by one that has ended. ``None`` if it is there already.

    The start may still be on its way, sent by an owner of the parent that is none any more: it finds the place taken.
    """
    now = clock.now_ms()
    partition = partition_of(workflow.name, order.id)
    head = _new_head(partition, home, None, workflow, order, now, run=first_run(home), epoch=0)
    error = describe(CancelledError(reason))
    record = replace(decode_record(head.body), ended_at=now, error=error, tail=(Cancelled(now, reason),))
    kept_ms = workflow.policy.retention_ms
    expires_at = None if kept_ms is None else now + kept_ms
    ended = Item(partition=head.partition, status=CANCELLED, expires_at=expires_at, body=encode_record(record))
    try:
        await write_for_caller(home.store, Put(ended, ABSENT), ours=partial(eq, ended))
    except Refused:
        return None
    return record


def _new_head(
    partition: str,
    home: Home,
    host: Host | None,
    workflow: DeclaredWorkflow,
    order: Launch,
    now: int,
    *,
    run: int,
    epoch: int,
) -> Item:
    starts_at = max(now, order.starts_at)
    timeout_ms = order.timeout_ms if order.timeout_ms is not None else workflow.policy.timeout_ms
    queued = queueing_of(workflow, order.input, order.queued, order.shares, since=starts_at, epoch=epoch)
    record = ExecutionRecord(
        workflow=workflow.name,
        id=order.id,
        version=workflow.version,
        input=Raw(order.input),
        needs=order.needs,
        fingerprint=ids.fingerprint(order.input),
        created_at=now,
        secret=new_execution_secret(),
        nonce=ids.new_nonce(),
        run=run,
        run_at=now,
        tags=order.tags,
        parent=order.parent,
        starter=order.starter,
        root=order.root,
        trace=order.trace or here(),
        starts_at=0 if starts_at == now else starts_at,
        deadline_at=None if timeout_ms is None else starts_at + timeout_ms,
        published=_published(partition, home) if workflow.is_pinned else "",
        queued=queued,
        shares=order.shares,
    )
    return _head_of(record, partition, home, host, now, epoch)


def _head_of(record: ExecutionRecord, partition: str, home: Home, host: Host | None, now: int, epoch: int) -> Item:
    """The head of a new execution: it waits, is ready, or is worked on by this process from its first moment."""
    starts_at = record.starts_at or now
    body, revision = encode_record(record), first_revision(record.run)
    if record.queued is not None:
        due_at = starts_at if starts_at > now else _due_while_waiting(record, home, now)
        return Item(partition=partition, revision=revision, status=QUEUED, due_at=due_at, epoch=epoch, body=body)
    if starts_at > now or host is None or not _keeps_place(host, partition):
        return Item(partition=partition, revision=revision, status=READY, due_at=starts_at, epoch=epoch, body=body)
    return _worked_on(partition, revision, epoch, body, host, now)


def _worked_on(partition: str, revision: int, epoch: int, body: bytes, host: Host, now: int) -> Item:
    """A head that this process works on from its first moment."""
    return Item(
        partition=partition,
        revision=revision,
        status=RUNNING,
        owner=host.home.owner,
        lease_until=lease_until(now, host),
        epoch=epoch + 1,
        due_at=now,  # so that it is found if we die
        body=body,
    )


def _due_while_waiting(record: ExecutionRecord, home: Home, now: int) -> int | None:
    """Its timeout; before that, if its place is written behind it, a worker sees to it that it is there."""
    unseen = now + UNSEEN_MS if home.writes_are_paid or current_unit.get() is not None else None
    return min((at for at in (unseen, record.deadline_at) if at is not None), default=None)


def _keeps_place(host: Host, partition: str) -> bool:
    """Whether the host can work on it at once; then its place is kept until its creation is over."""
    kept = host.creations.kept
    kept.discard(partition)  # by a try before this one
    if not host.has_room:
        return False
    kept.add(partition)
    return True


def _published(partition: str, home: Home) -> str:
    """The version to call for it. One of a function that does not work on it would only pass the call on, for ever."""
    return home.versions.own if home.versions is not None and home.serves(partition) else ""


def _set_off(head: Item, home: Home, host: Host | None, clock: Clock) -> None:
    queued = decode_record(head.body).queued if head.status == QUEUED else None
    if queued is not None and queued.since <= clock.now_ms():
        tell_gate(head.partition, queued, home, host)
        if head.due_at is not None:
            wake_at(head.partition, head.due_at, home, host)
        return
    # If the answer took longer than the lease, another process may have started it.
    if head.lease_until is not None and host is not None and clock.now_ms() < head.lease_until:
        host.adopt(head)
    elif head.due_at is not None and clock.now_ms() < head.due_at:
        wake_at(head.partition, head.due_at, home, host)
    else:
        wake(head.partition, home, host)


def _is_free(there: Item, order: Launch, now: int) -> bool:
    """Whether another execution may begin under this id, for what is there has expired or was deleted.

    Not over one that the very same operation has started: it was sent again, or comes late, and has had its execution.
    """
    if is_there(there, now):
        return False
    parent = decode_record(there.body).parent
    is_its_own = order.id.startswith(DERIVED_ID_MARK) or (order.parent is not None and are_same(order.parent, parent))
    return not is_its_own or gave_up(there.status, there.body)


def _still_free(there: Item, now: int) -> AllOf:
    """The condition that no other process has started it meanwhile, with the run and epoch that would be ours (G3)."""
    gone = StatusIn((DELETED,)) if there.status == DELETED else Expired(now)
    return AllOf((gone, EpochIs(there.epoch), RevisionIs(there.revision)))


def gave_up(status: str, body: bytes) -> bool:
    """Whether a child has ended because its parent did not wait for it any more. One that waits again was retried."""
    if status not in (CANCELLED, DELETED):
        return False
    error = decode_record(body).error
    return error is not None and error.message == NO_LONGER_AWAITED


def _same_execution(there: Item, workflow: DeclaredWorkflow, order: Launch) -> Item:
    record = decode_record(there.body)
    if record.fingerprint == ids.fingerprint(order.input):
        return there
    if workflow.given(bytes(record.input)) == workflow.given(order.input):
        return there
    raise IdempotencyMismatch(
        f"{record.workflow} {record.id!r} was already started with another input. Use another id, or the same input"
    )
