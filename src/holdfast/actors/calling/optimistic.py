"""Calls without a lease: read, run, and write if no other was faster; else run again on what is there now.

A run that others may overtake leaves nothing behind but its commit. So it calls no other actor: such a call is durable
before the commit, and the next run, on another state, may call with other arguments. The method is run under a lease.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Raw
from msgspec.structs import replace

from holdfast import ids
from holdfast.actors.mailbox.departures import is_departure
from holdfast.actors.mailbox.post import wake_actor
from holdfast.actors.mailbox.queue import Delivery, Replied
from holdfast.actors.model import Actors
from holdfast.actors.record import DELETE_METHOD, DELETED, HALTED, SUSPENDED, encode_record, next_timer
from holdfast.actors.turn.commit import is_message_to
from holdfast.actors.turn.entity import ActorEntity
from holdfast.actors.turn.handling import tell
from holdfast.actors.turn.make_room import make_room
from holdfast.actors.turn.perform import perform
from holdfast.actors.turn.stages import load
from holdfast.bounded import Bounded
from holdfast.coordination.inbox import INBOX_PREFIX
from holdfast.coordination.lease import Fenced
from holdfast.errors import Refused, SerializationError, StoreUnavailable
from holdfast.items import (
    ABSENT,
    UNOWNED,
    AllOf,
    EpochIs,
    Item,
    LeaseLapsed,
    OwnerIs,
    Put,
    RevisionIs,
    StatusIn,
    Update,
    one_per_place,
    place,
    updated,
)
from holdfast.kernel.entity import Unowned
from holdfast.kernel.outcomes import Blocked
from holdfast.kernel.wake import wake_at

if TYPE_CHECKING:
    from holdfast.actors.address import Address
    from holdfast.actors.record import Call
    from holdfast.actors.turn.performed import Version
    from holdfast.kernel.runtime import Runtime

MOST_RUNS: Final = 5
"""After this number of runs that others overtook, the call queues for the lease like any other: none starves."""


MOST_WARM: Final = 1_000
LARGEST_WARM_BYTES: Final = 16 * 1024
"""Together 16 MB at most."""


async def call_optimistically(address: Address, request: Call, runtime: Runtime) -> Replied | None:
    """Apply a call in this process; ``None`` if it is to queue: the actor is in use, the method calls another one, or
    others were always faster.
    """
    if request.method == DELETE_METHOD:  # its turn comes behind the messages that wait
        return None
    warm = head = warm_of(runtime).take(address.partition)
    if warm is None:
        head = await runtime.home.store.get(address.partition)
    for _ in range(MOST_RUNS):
        if head is not None and (not _is_free(head, runtime) or await _comes_behind(head, request, runtime)):
            return None
        actor = _loaded(address, head or Item(address.partition), runtime)
        await make_room(actor, runtime)
        try:
            performed = await perform(Delivery(request), actor, runtime)
        except Fenced:  # it calls another actor (``LeaseNeeded``)
            return None
        finished = performed.finished[0]  # behind it are the ends of replies that were kept for it
        writes = (write for each in performed.finished for write in each.writes)
        others = one_per_place(write for write in writes if place(write) != actor.place)
        departs = any(is_departure(write, actor.partition) for write in others)
        try:
            assert actor.state is not None
            if performed.version is not actor.state.committed or others:
                to_itself = sum(is_message_to(actor.partition, write) for write in others)
                version = performed.version
                if departs:  # the turn that delivers it follows the commit
                    version = replace(version, record=replace(version.record, departing=True))
                commit = _commit(actor.partition, version, head, to_itself, runtime)
                await runtime.home.store.write(commit, *others)
                warm_of(runtime).leave(_left_by(commit, head))
            elif warm is not None:  # no write has proved it right
                warm, guess = None, head
                head = await runtime.home.store.get(address.partition)
                if head != guess:
                    continue
        except Refused as refused:
            warm = None
            head = refused.item if refused.index == 0 else await runtime.home.store.get(address.partition)
            continue
        except StoreUnavailable:
            if request.known:  # the process that applies it finds out whether it has been
                return None
            raise
        _tell_when_due(actor.partition, next_timer(performed.version.record), head, runtime)
        for partition in (*finished.to_wake, *((actor.partition,) if departs else ())):
            wake_actor(partition, runtime)
        if finished.handled is not None:
            tell(finished.handled, runtime)
        assert isinstance(finished.outcome, Replied)
        return finished.outcome
    return None


def _loaded(address: Address, head: Item, runtime: Runtime) -> ActorEntity:
    """The actor as it is stored, for one call."""
    actor = ActorEntity(address.partition, Actors(runtime), address.kind)
    actor.hold = Unowned(head.epoch + 1)
    try:
        load(actor, head)
    except Blocked as blocked:
        raise SerializationError(str(blocked)) from blocked
    return actor


def _is_free(head: Item, runtime: Runtime) -> bool:
    owned = head.lease_until is not None and head.lease_until >= runtime.clock.now_ms()
    return not owned and head.status != HALTED


async def _comes_behind(head: Item, request: Call, runtime: Runtime) -> bool:
    """Whether something is to be done first (G6): a message that is sent makes the actor due.

    Behind what a dead owner has left undone, only a caller waits that has sent something itself: that work may not be
    taken up for long.
    """
    if head.due_at is None or head.due_at > runtime.clock.now_ms():
        return False
    if head.owner is None:
        return True
    senders = {runtime.sender.name, *(ids.fingerprint(each.encode()) for each in request.chain[-1:])}
    page = await runtime.home.store.query(head.partition, prefix=INBOX_PREFIX)
    return page.cursor is not None or any(item.sort.rpartition("#")[2] in senders for item in page.items)


def _tell_when_due(partition: str, due_at: int | None, before: Item | None, runtime: Runtime) -> None:
    """A timer was set, and no process has the actor in memory to know of it."""
    if due_at is None or (before is not None and before.due_at is not None and before.due_at <= due_at):
        return
    wake_at(partition, due_at, runtime.home, runtime.host)


def _left_by(commit: Put | Update, head: Item | None) -> Item:
    """The head after a commit that was applied."""
    if isinstance(commit, Put):
        return commit.item
    assert head is not None
    return updated(head, commit)


def _commit(partition: str, version: Version, head: Item | None, to_itself: int, runtime: Runtime) -> Put | Update:
    record = replace(version.record, state=Raw(version.state))
    if head is not None and head.owner is not None:
        # Its owner may be awake, and in doubt about a commit that would leave just this: that was another one (G4).
        record = replace(record, left_by=f"{runtime.home.owner}/{head.epoch}/{ids.new_id()}")
    body = encode_record(record)
    now = runtime.clock.now_ms()
    due_at = now if to_itself or version.record.departing else next_timer(version.record)
    if head is None:
        new = Item(partition, revision=to_itself, status=SUSPENDED, epoch=1, due_at=due_at, body=body)
        return Put(new, ABSENT)
    # Everything in the head is still as it was read: a wake-up or a release meanwhile would be written over.
    free = UNOWNED if head.owner is None else AllOf((OwnerIs(head.owner, head.epoch), LeaseLapsed(now)))
    when = AllOf((EpochIs(head.epoch), RevisionIs(head.revision), free, StatusIn((head.status,))))
    kept = due_at if head.due_at is None or due_at is None else min(head.due_at, due_at)  # early is harmless
    due_at = kept if kept is not None else head.due_at
    status = SUSPENDED if head.status == DELETED else head.status
    return Update(
        partition=partition,
        when=when,
        status=status,
        body=body,
        due_at=due_at,
        add_epoch=1,
        add_revision=to_itself,
    )


# ── What this process has left ──────────────────────────────────────────────────────────────────────────────────────


class Warm:
    """The heads of optimistic actors as this process has left them: a guess at what is there, which saves the read.

    It is never an answer by itself: the condition of the write that is made of it, or a read, must prove it right.
    """

    __slots__ = ("_heads",)

    def __init__(self) -> None:
        self._heads = Bounded[str, Item](MOST_WARM)

    def take(self, partition: str) -> Item | None:
        """What was left there, once."""
        return self._heads.pop(partition, None)

    def leave(self, head: Item) -> None:
        """It was just written."""
        if len(head.body) <= LARGEST_WARM_BYTES:
            self._heads[head.partition] = head


def warm_of(runtime: Runtime) -> Warm:
    """Those of an open app."""
    return runtime.kept.get(Warm, Warm)
