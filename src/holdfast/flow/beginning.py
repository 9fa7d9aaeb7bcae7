"""An execution begins that has a slot: its claim is refused unless it waits under the epoch that the slot is for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec import UNSET, UnsetType

from holdfast.coordination.lease import is_leased
from holdfast.errors import Refused, StoreUnavailable
from holdfast.flow.record import QUEUED, decode_gate, encode
from holdfast.items import UNOWNED, AllOf, EpochIs, Item, OwnerIs, StatusIn, Update, Write
from holdfast.kernel.entity import Owned
from holdfast.kernel.ownership import kept_until, lease_until, ours
from holdfast.kernel.room import keep_room, leave_room
from holdfast.kernel.wake import wake

if TYPE_CHECKING:
    from holdfast.flow.gate import Gate
    from holdfast.flow.record import Declared
    from holdfast.kernel.host import Host

RUNNING: Final = "RUNNING"


async def begin(partition: str, epoch: int, gate: Gate, host: Host) -> None:
    """Begin an execution here, if there is room and code for it, else in another process.

    Whatever becomes of the write, the slot stays until the execution's head says that it is over.
    """
    if not keep_room(partition, host):
        wake(partition, host.home, host)
        return
    try:
        (head,) = await host.home.store.write(_claim(partition, epoch, host))
    except Refused:
        gate.has_changed(partition)
        host.check(partition)  # it may be ours: the answer of a write before this one was lost
    except StoreUnavailable:
        host.check_at(partition, host.clock.now_ms() + int(host.limits.retry_turn_seconds * 1000))
    else:
        assert head is not None
        _work_on(head, gate, host)
    finally:
        leave_room(partition, host)


async def decide_and_begin(
    decision: Sequence[Write], chosen: Iterable[str], gate: Gate, host: Host
) -> frozenset[str] | None:
    """Write a decision, and with it the begin of all that there is room for here: one commit in place of two. Answers
    what has begun; ``None`` if the whole was not written, or perhaps was not: the decision is to be written alone then.
    """
    here = [partition for partition in chosen if keep_room(partition, host)]
    held = gate.open_books.held
    try:
        claims = [_claim(partition, held[partition].epoch, host) for partition in here]
        answers = await host.home.store.write(*decision, *claims)
        for head in answers[len(decision) :]:
            assert head is not None
            _work_on(head, gate, host)
    except (Refused, StoreUnavailable):
        return None
    finally:
        for partition in here:
            leave_room(partition, host)
    return frozenset(here)


def next_head(gate: Gate, declared: Declared, host: Host, *, awake: bool) -> Update:
    """The write of a decision: all that its head is to say, as it is in memory.

    A request over a network may arrive when no process waits for it, behind a later decision. It changes nothing
    then, because each decision moves the epoch on (G3).
    """
    books, now, hold = gate.open_books, host.clock.now_ms(), ours(gate)
    books.chooser.forget_idle(now * 1000)
    update = Update(
        partition=gate.partition,
        when=OwnerIs(host.home.owner, hold.epoch),
        lease_until=kept_until(hold, now, host),
        due_at=UNSET if books.is_due else now,  # it stays so until it is released, and costs no entry of an index
        body=encode(books.record(declared, awake=awake)),
        add_epoch=1 if host.home.writes_are_paid else 0,
    )
    books.decided_at, books.freed_at, books.is_told, books.is_due, books.awake = now, None, True, True, awake
    return update


def is_written(update: Update, gate: Gate, host: Host, there: Item | None) -> bool:
    """Whether the head of the queue is as this write leaves it."""
    epoch = gate.epoch + update.add_epoch
    return there is not None and is_leased(there, host.home.owner, epoch) and there.body == update.body


def moved_on(gate: Gate, update: Update) -> None:
    """The head of the queue is as this write leaves it. That the lease is lost is known by the next write."""
    hold = gate.hold
    if isinstance(hold, Owned) and not isinstance(update.lease_until, UnsetType):
        due_at = hold.due_at if update.due_at is UNSET else update.due_at
        gate.advance(hold.epoch + update.add_epoch, hold.revision, update.lease_until or 0, due_at)


def _work_on(head: Item, gate: Gate, host: Host) -> None:
    """Our claim is written."""
    host.telemetry.emit("claimed", partition=head.partition, takeover=False)
    watch(head.partition, gate, host)
    if host.clock.now_ms() < (head.lease_until or 0):
        host.adopt(head, created=False)


async def begin_with_slot(partition: str, gate: str, host: Host) -> Item | None:
    """Claim an execution that waits, if the head of its queue has a slot for it. ``None`` if it has none any more."""
    queue = await host.home.store.get(gate)
    slot = None if queue is None else decode_gate(queue.body).held.get(partition)
    if slot is None:
        return None
    try:
        (head,) = await host.home.store.write(_claim(partition, slot.epoch, host))
    except Refused:
        return None
    return head


def watch(partition: str, gate: Gate, host: Host) -> None:
    """Have the gate look when this process ends or leaves the execution."""
    host.watchers.add(partition, gate.partition, partial(_noticed, partition, gate))


def _noticed(partition: str, gate: Gate, _conclusion: object) -> None:
    gate.has_changed(partition)


def _claim(partition: str, epoch: int, host: Host) -> Update:
    now = host.clock.now_ms()
    return Update(
        partition=partition,
        when=AllOf((UNOWNED, StatusIn((QUEUED,)), EpochIs(epoch))),
        status=RUNNING,
        owner=host.home.owner,
        lease_until=lease_until(now, host),
        due_at=now,  # so that it is found if we die
        add_epoch=1,
        load=True,
    )
