"""Commits of an actor: one write for all that has run, and only then do replies leave (G4, G7).

Every commit depends on our epoch and moves it on: one that is sent again, or comes late, is refused. A process that
has lost the lease finds out here (G3).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from msgspec import UNSET, Raw, Struct
from msgspec.structs import replace

from holdfast.actors.mailbox.departures import is_departure
from holdfast.actors.mailbox.post import make_due
from holdfast.actors.mailbox.queue import ELSEWHERE
from holdfast.actors.record import (
    DELETED,
    PARTITION_PREFIX,
    REPLY_PREFIX,
    RUNNING,
    describe_partition,
    encode_record,
    next_timer,
)
from holdfast.actors.turn.applied import page_of
from holdfast.actors.turn.entity import REFUSED, ActorEntity, Gathering, Refusal, Writing
from holdfast.actors.turn.handling import tell
from holdfast.actors.turn.performed import Finished, Version, writes_of
from holdfast.backoff import Pauses
from holdfast.coordination.inbox import INBOX_PREFIX
from holdfast.coordination.lease import Fenced, is_leased
from holdfast.errors import Refused, StoreUnavailable
from holdfast.items import HEAD, AllOf, Delete, Item, OwnerIs, Put, RevisionIs, Update, one_per_place, place
from holdfast.kernel.entity import Owned
from holdfast.kernel.ownership import check, kept_until, ours
from holdfast.kernel.wake import notify
from holdfast.persist import sit_out

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.items import Bounds, Write
    from holdfast.kernel.host import Host
    from holdfast.kernel.outcomes import Rest
    from holdfast.kernel.runtime import Runtime


GATHERING_SECONDS: Final = 0.05
"""Some five requests of DynamoDB, or twenty messages."""

SERIES_SECONDS: Final = 1.0
"""The calls of a series are all acknowledged together, so they wait for each other a little longer."""


async def commit(actor: ActorEntity, runtime: Runtime, host: Host, rest: Rest | None = None) -> None:
    """Make all that has run durable. Raises ``Fenced`` if that is not ours to do any more.

    With ``rest`` the last write releases the lease too, unless the actor was woken: ``actor.held`` tells.
    """
    await commit_under_way(actor)
    if actor.uncommitted.finished and not _is_over(actor):
        actor.uncommitted.phase = Writing()
        await _commit(actor, runtime, host, rest)
    if actor.lost:
        raise Fenced(f"{actor.partition}: its lease could not be renewed, or its state not written")
    if actor.broken is not None:
        raise actor.broken
    if actor.uncommitted.phase is REFUSED:
        actor.reset()


async def commit_under_way(actor: ActorEntity) -> None:
    """Wait until it is known what came of the commit that is made concurrently with the turn, if there is one."""
    while isinstance(writing := actor.uncommitted.phase, Writing) and writing.task is not None:
        await asyncio.wait((writing.task,))


def begin_commit(actor: ActorEntity, runtime: Runtime, host: Host) -> None:
    """Begin to make what has run durable; more may run while it is written.

    Where each write is billed, what no caller waits for waits a moment for what comes next, to share its write.
    """
    left = actor.uncommitted
    if not left.finished or isinstance(left.phase, Writing):
        return
    if not _may_wait(actor, host):
        _commit_from_now(actor, runtime, host)
    elif left.phase is None:
        left.phase = gathering = Gathering()
        seconds = SERIES_SECONDS if all(each.delivery.series for each in left.finished) else GATHERING_SECONDS
        asyncio.get_running_loop().call_later(seconds, _end_gathering, gathering, actor, runtime, host)


def _may_wait(actor: ActorEntity, host: Host) -> bool:
    return host.home.writes_are_paid and all(
        each.delivery.answer is None or each.delivery.series is not None for each in actor.uncommitted.finished
    )


def _end_gathering(gathering: Gathering, actor: ActorEntity, runtime: Runtime, host: Host) -> None:
    left = actor.uncommitted
    if left.phase is gathering:  # else it was written meanwhile, or dropped
        left.phase = None
        if left.finished and not _is_over(actor):
            _commit_from_now(actor, runtime, host)


def _is_over(actor: ActorEntity) -> bool:
    """Whether what has run is not to be committed: it is not ours to do any more, or is to run again."""
    return actor.lost or actor.broken is not None or actor.uncommitted.phase is REFUSED


def _commit_from_now(actor: ActorEntity, runtime: Runtime, host: Host) -> None:
    task = asyncio.get_running_loop().create_task(_commit_concurrently(actor, runtime, host))
    actor.uncommitted.phase = Writing(task)


async def _commit_concurrently(actor: ActorEntity, runtime: Runtime, host: Host) -> None:
    try:
        await _commit(actor, runtime, host, concurrent=True)
    finally:
        actor.wake()
    if not _is_over(actor):
        begin_commit(actor, runtime, host)  # what has run meanwhile: whatever runs now may take for ever


async def _commit(
    actor: ActorEntity, runtime: Runtime, host: Host, rest: Rest | None = None, *, concurrent: bool = False
) -> None:
    left, state = actor.uncommitted, actor.state
    batch: list[Finished] = []
    after: Refusal | None = None
    try:
        assert state is not None
        while left.finished:
            batch, left.finished = together(left.finished, host.home.bounds)
            version = batch[-1].version if left.finished else state.version
            await _write(batch, version, actor, runtime, host, None if left.finished else rest)
            state.committed = version
            _release(batch, actor, runtime, host)
            _depart(batch, actor, runtime)
            batch = []
            if concurrent and _may_wait(actor, host):
                break
    except asyncio.CancelledError:
        _tell_doubt(batch, actor)
        raise
    except Fenced:
        actor.lose()
    except Refused:  # what a call sends does not fit any more: none of the batch happened, all of it runs again
        after = REFUSED
    except Exception as error:  # noqa: BLE001 - the store's, or a mistake of ours: the turn shall not wait for ever
        actor.broken = error
    finally:
        left.finished = batch + left.finished
        left.phase = after


def together(finished: list[Finished], bounds: Bounds | None) -> tuple[list[Finished], list[Finished]]:
    """Those at the front that one write takes, at least one, and the rest. What one of them leaves stays whole (G4)."""
    if bounds is None:
        return finished, []
    besides = 1 + any(each.paged for each in finished)  # the head, and a page
    writes: list[Write] = []
    for count, each in enumerate(finished):
        writes += each.writes
        if count and not bounds.fit(one_per_place(writes), besides=besides):
            return finished[:count], finished[count:]
    return finished, []


async def _write(
    batch: Sequence[Finished],
    version: Version,
    actor: ActorEntity,
    runtime: Runtime,
    host: Host,
    rest: Rest | None,
) -> None:
    """One write for the state, the acknowledgements, the replies and whatever the calls send (G4)."""
    last = {place(write): write for write in writes_of(batch)}
    last.pop(actor.place, None)  # the write to the head is made below
    others = [*last.values(), *page_of(batch, actor.partition, host.clock.now_ms())]
    assert actor.state is not None
    if version is actor.state.committed and not others:
        await _confirm(actor, host)
        return
    to_itself = int(any(is_message_to(actor.partition, write) for write in others))
    departs = any(is_departure(write, actor.partition) for write in others)
    arrived = actor.departures.acknowledgements(room_in(host.home.bounds, others))
    others += arrived
    remains = departs or actor.departures.remains_without(arrived)
    if to_itself or remains or actor.unread:  # an owner that releases it says when to look again, and has seen all
        rest = None
    pauses, doubtful = Pauses(), False
    after = After(version, to_itself, remains=remains)
    update = _update(after, actor, host, rest)
    while True:
        try:
            await host.home.store.write(update, *others)
            break
        except Refused as refused:
            if refused.index:
                others[refused.index - 1 : refused.index] = _instead(others[refused.index - 1], refused, runtime)
                continue
            if is_leased(refused.item, host.home.owner, actor.epoch):  # not written, because the actor was woken
                actor.advance(actor.epoch, refused.item.revision, ours(actor).lease_until, refused.item.due_at)
                actor.notify()
                rest = None
                update = _update(after, actor, host, rest)
                continue
            if doubtful and _is_written(refused.item, update, actor, host):
                break
            if doubtful:
                _tell_doubt(batch, actor)
            raise Fenced(f"{actor.partition}: {refused}") from None
        except StoreUnavailable:
            doubtful = True
            await pauses.wait()
    actor.departures.acknowledged(arrived)
    _advance(actor, update, to_itself)


def _advance(actor: ActorEntity, update: Update, to_itself: int) -> None:
    """Our write has moved the head on, and perhaps released it. That the lease is lost is known by the next write."""
    hold = actor.hold
    if isinstance(hold, Owned):
        due_at = hold.due_at if update.due_at is UNSET else update.due_at
        actor.advance(hold.epoch + 1, hold.revision + to_itself, update.lease_until or 0, due_at)
    if update.owner is None:
        actor.release()
    if to_itself:
        actor.notify()  # what it has sent to itself was not read yet


class After(Struct, frozen=True, gc=False):
    """What a commit leaves: the actor, whether it has sent itself a message (1) or not (0), and whether departures of
    it ``remain`` in the store.
    """

    version: Version
    to_itself: int
    remains: bool


def _update(after: After, actor: ActorEntity, host: Host, rest: Rest | None) -> Update:
    """The write to the head. It depends on no wake-up if it says when to look next: a wake-up says "now"."""
    owner, now, version = host.home.owner, host.clock.now_ms(), after.version
    # Of an actor that has ended the stamp stays: what it publishes when it begins again comes behind all of before.
    record = version.record if version.deleted else replace(version.record, state=Raw(version.state))
    hold = ours(actor)
    not_woken = AllOf((OwnerIs(owner, hold.epoch), RevisionIs(hold.revision)))
    if rest is not None:
        return Update(
            partition=actor.partition,
            when=not_woken,
            status=rest.status,
            owner=None,
            lease_until=None,
            due_at=rest.due_at,
            expires_at=rest.expires_at,
            body=encode_record(replace(record, departing=False, left_by=f"{owner}/{hold.epoch}")),
            add_epoch=1,
        )
    record = replace(record, departing=after.remains, left_by="")
    due = now if after.to_itself or after.remains else next_timer(version.record)
    covered = due is None or (hold.due_at is not None and hold.due_at <= due)
    return Update(
        partition=actor.partition,
        when=OwnerIs(owner, hold.epoch) if covered else not_woken,
        status=DELETED if version.deleted else RUNNING,
        lease_until=kept_until(hold, now, host),
        due_at=UNSET if covered else due,
        body=encode_record(record),
        add_epoch=1,
        add_revision=after.to_itself,
    )


def room_in(bounds: Bounds | None, writes: Sequence[Write]) -> int | None:
    """How many small writes fit into a call together with these and one more; ``None``: any number."""
    return None if bounds is None else max(0, bounds.writes - len(writes) - 1)


async def _confirm(actor: ActorEntity, host: Host) -> None:
    """Nothing was changed, and what was answered is the truth if no other process has moved the actor meanwhile (G3).

    None has while the lease lasts; a process that was stopped for longer has to look.
    """
    if host.clock.now_ms() < ours(actor).lease_until:
        return
    await sit_out(lambda: check(actor, host), lambda _error: None)


def is_message_to(partition: str, write: Write) -> bool:
    """Whether a write brings this actor a message: then the same commit wakes it."""
    return isinstance(write, Put) and write.item.partition == partition and write.item.sort.startswith(INBOX_PREFIX)


def _instead(write: Write, refused: Refused, runtime: Runtime) -> list[Write]:
    """What to write instead: another wake-up for an actor that was created, deleted or halted since the call looked,
    and nothing for a reply that is gone. Else the call runs again.
    """
    partition, sort = place(write)
    if sort.startswith(REPLY_PREFIX):
        return []
    if sort != HEAD or not partition.startswith(PARTITION_PREFIX):
        raise refused
    return [make_due(partition, refused.item, runtime)]


def _is_written(there: Item | None, update: Update, actor: ActorEntity, host: Host) -> bool:
    """Whether what is there is what our write has left: under our lease, or with the name of the commit in it."""
    if there is None or there.body != update.body:
        return False
    return update.owner is None or (there.owner, there.epoch) == (host.home.owner, actor.epoch + 1)


def _tell_doubt(batch: Sequence[Finished], actor: ActorEntity) -> None:
    """It is not known whether these were written. Calls that are known by their id find out elsewhere."""
    error = StoreUnavailable(
        f"the store did not answer while a call of {describe_partition(actor.partition)} was written, and then this "
        "process let go of the actor: the call may or may not have been applied. With a request_id it can be sent again"
    )
    for each in batch:
        if each.delivery.call.known:
            each.delivery.resolve(ELSEWHERE)
        else:
            each.delivery.fail(error)


def _depart(batch: Sequence[Finished], actor: ActorEntity, runtime: Runtime) -> None:
    """What these have sent is durable, and is delivered now."""
    if sent := [each.item for each in writes_of(batch) if is_departure(each, actor.partition)]:
        actor.depart(sent, runtime)


def _release(batch: Sequence[Finished], actor: ActorEntity, runtime: Runtime, host: Host) -> None:
    """It is durable: replies leave, and the receivers of what was sent are told to look (G7)."""
    answered = False
    for each in batch:
        actor.uncommitted.is_durable(each)
        if each.writes:
            actor.queue.known.difference_update(write.sort for write in each.writes if isinstance(write, Delete))
        if each.to_wake:
            host.wake(each.to_wake)
        each.delivery.resolve(each.outcome)
        if each.handled is not None:
            tell(each.handled, runtime)
        answered = answered or (each.delivery.sort is not None and each.delivery.call.replies)
    if answered:
        notify(actor.partition, host.home)
        runtime.wake_listeners.heard(actor.partition)
