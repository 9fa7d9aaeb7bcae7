"""Ownership of an entity: how it becomes ours, how a turn learns that it no longer is, and how it is released.

The same for every programming model: the fence, the time for which an entity is kept, and what the last write of an
owner depends on are here and nowhere else.
"""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from holdfast.clock import elapsed_seconds
from holdfast.coordination.lease import Claim, Claimed, Fenced, Held, is_leased, is_released, renewal
from holdfast.coordination.lease import claim as claim_lease
from holdfast.coordination.lease import release as release_lease
from holdfast.errors import Refused, StoreError, StoreUnavailable
from holdfast.items import UNOWNED, AllOf, EpochIs, OwnerIs, RevisionIs, Update, one_per_place, place
from holdfast.kernel.entity import Owned, Unowned
from holdfast.kernel.outcomes import Ended
from holdfast.persist import write_until_known

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from holdfast.items import Item
    from holdfast.kernel.entity import Entity
    from holdfast.kernel.host import Host
    from holdfast.kernel.outcomes import Idle, Left

BLOCKED_RECHECK_MS: Final = 60_000
"""So long an entity waits that wants other code before it is looked at again."""


# ── Becoming the owner ────────────────────────────────────────────────────────────────────────────────────────────────


def lease_until(now: int, host: Host) -> int:
    """When a lease ends that is taken or extended now (milliseconds)."""
    until = now + host.limits.lease_ms
    return until if host.ends_at is None else max(until, min(now + host.limits.called_lease_ms, host.ends_at))


def lasts(hold: Owned, now: int, host: Host) -> bool:
    """Whether a lease lasts for a while: for less, an effect does not start before it is renewed."""
    return hold.lease_until - now >= host.limits.lease_ms // 5


def kept_until(hold: Owned, now: int, host: Host) -> int:
    """Until when the lease is ours once a write of ours is there: it takes a renewal along, if half of it is over."""
    return lease_until(now, host) if hold.lease_until < now + host.limits.lease_ms // 2 else hold.lease_until


async def claim(entity: Entity, host: Host, *, claimable: tuple[str, ...], running: str) -> Claim:
    """Try to become the owner. What another process holds is looked at again when its lease ends.

    After an outage its living owner first gets the time of a lease, to write what it did meanwhile (G2).
    """
    async with host.pace.calls if entity.has_callers else host.pace.claims:
        return await _claim(entity, host, claimable, running)


async def _claim(entity: Entity, host: Host, claimable: tuple[str, ...], running: str) -> Claim:
    now = host.clock.now_ms()
    entity.missed = entity.unread = False  # the claim shows what has come by now, and perhaps nothing that comes later
    try:
        outcome = await claim_lease(
            host.home.store,
            entity.partition,
            owner=host.home.owner,
            now=now,
            until=lease_until(now, host),
            claimable=claimable,
            running=running,
            alive=host.home.doorbell.alive,
            spare=entity.partition in host.unanswered,
        )
    except StoreUnavailable:
        host.unanswered[entity.partition] = True
        raise
    host.unanswered.pop(entity.partition, None)
    match outcome:
        case Claimed(_, takeover, _):
            host.telemetry.emit("claimed", partition=entity.partition, takeover=takeover)
        case Held(_, until, unanswered):
            if unanswered:
                host.unanswered[entity.partition] = True
            host.wakeups.held(host, entity.partition, until)
        case _:
            pass
    return outcome


def take(entity: Entity, claimed: Claimed) -> None:
    """Note what a claim says. What is in memory stays valid if no other process was in between."""
    head = claimed.item
    if claimed.takeover or head.epoch != entity.epoch + 1:
        entity.unload()
    entity.own(head, taken_over=claimed.takeover, died=claimed.died)


# ── Being the owner ───────────────────────────────────────────────────────────────────────────────────────────────────


def ours(entity: Entity) -> Owned:
    """Our hold on it. Raises ``Fenced`` if the lease is known to be lost."""
    if isinstance(hold := entity.hold, Owned):
        return hold
    raise _lost(entity)


def ensure_sound(entity: Entity) -> Owned:
    """The same. Raises what has broken its work concurrently with the turn, too."""
    if not isinstance(hold := entity.hold, Owned):
        raise _lost(entity)
    if entity.broken is not None:
        raise entity.broken
    return hold


def _lost(entity: Entity) -> Fenced:
    return Fenced(f"{entity.partition}: its lease could not be renewed, or a write of it failed")


async def check(entity: Entity, host: Host) -> Item:
    """The head as it is now. Raises ``Fenced`` if it has a newer owner."""
    head = await host.home.store.get(entity.partition)
    if head is None or head.epoch != entity.epoch:
        raise Fenced(f"{entity.partition} has a newer owner")
    return head


def seen(entity: Entity, head: Item) -> None:
    """What has come by this revision of the head is read next."""
    hold = ours(entity)
    entity.advance(hold.epoch, head.revision, hold.lease_until, hold.due_at)


def wait(entity: Entity, idle: Idle, host: Host) -> Awaitable[bool]:
    """Wait for something to do; false if nothing comes for a while, or before it is due if the entity is ``busy``."""
    near = None if idle.due_at is None else max(0, idle.due_at - host.clock.now_ms()) / 1000
    if idle.busy:
        return entity.woken(None if host.draining else near)
    return _linger(entity, idle, near, host)


async def _linger(entity: Entity, idle: Idle, near: float | None, host: Host) -> bool:
    linger = host.patience_seconds(near) if idle.linger_seconds is None else idle.linger_seconds
    if await entity.woken(linger if near is None else min(near, linger)) or entity.lost:
        return True
    return near is not None and near <= linger


async def cover(entity: Entity, host: Host) -> Owned:
    """There is something to do without a wake-up: have it found if we die of it (G1)."""
    now, hold = host.clock.now_ms(), ours(entity)
    entity.advance(hold.epoch, hold.revision, hold.lease_until, now)
    update = Update(partition=entity.partition, when=OwnerIs(host.home.owner, hold.epoch), due_at=now)
    try:
        await write_until_known(host.home.store, update, ours=lambda _there: False)  # what runs meanwhile is not lost
    except Refused as refused:
        raise Fenced(f"{entity.partition}: {refused}") from None
    return ours(entity)


async def confirm(entity: Entity, host: Host) -> Owned:
    """Our lease may have lapsed while we waited for the store, or were stopped: ask for it before an effect starts.

    So a slow process does not repeat what another one has finished meanwhile (G2). Nothing else rests on it (G9).
    """
    until, epoch = lease_until(host.clock.now_ms(), host), ours(entity).epoch
    update = renewal(entity.partition, host.home.owner, epoch, until)
    still_ours = partial(is_leased, owner=host.home.owner, epoch=epoch)
    try:
        await write_until_known(host.home.store, update, ours=still_ours)
    except Refused as refused:
        raise Fenced(f"{entity.partition}: {refused}") from None
    return renewed(entity, until)


def renewed(entity: Entity, until: int) -> Owned:
    """Its lease lasts until then, in milliseconds, or for longer."""
    hold = ours(entity)
    return entity.advance(hold.epoch, hold.revision, max(hold.lease_until, until), hold.due_at)


# ── Releasing it ──────────────────────────────────────────────────────────────────────────────────────────────────────


async def leave(entity: Entity, left: Left, host: Host, *, as_released: bool = False) -> bool:
    """Release an entity, and say in the same write how it is left. False if something has come since the turn read its
    head: then there is more to do. Raises ``Fenced``.

    The messages of a conclusion are in that write if the entity expires; a receiver that takes none any more is left
    out. ``as_released``: it is not ours, and is left as the one who released it last; false if any other process has
    claimed it since, too. That a head is still the same execution its revision says (``workflows.runs``).
    """
    match left:
        case Ended(head, others):
            posts = () if head.expires_at is None else head.posts
            host.watchers.ends(entity.partition)
        case head:
            others, posts = head.others, ()
    while True:
        hold = _released_by_us(entity) if as_released else ensure_sound(entity)
        if entity.missed:  # a wake-up need not show in the revision: a thread's does not
            return False
        entity.unread = False  # the write is refused if something else has come by now
        update = Update(
            partition=entity.partition,
            when=_as_seen(hold, host),
            status=head.status,
            body=head.body,
            owner=None,
            lease_until=None,
            due_at=head.due_at,
            expires_at=head.expires_at,
        )
        told = [write for _, message in posts for write in message()] if posts else ()
        writes = (update, *(one_per_place((*others, *told)) if told else others))
        began = elapsed_seconds() if host.telemetry.is_detailed else None
        try:
            await write_until_known(host.home.store, *writes, ours=partial(_is_left, hold, update))
        except Refused as refused:
            if (refusing := place(writes[refused.index])[0]) == entity.partition:
                if isinstance(hold, Owned) and not is_leased(refused.item, host.home.owner, hold.epoch):
                    raise Fenced(f"{entity.partition}: {refused}") from None
                entity.notify()
                return False
            posts = [post for post in posts if post[0] != refusing]  # it takes no messages, and nothing was written
        else:
            if began is not None:
                committed(began, host)
            entity.release()
            return True


def _is_left(hold: Owned | Unowned, left: Update, there: Item | None) -> bool:
    """Whether this very write has left the head that is there."""
    if there is None or there.partition != left.partition or not is_released(there, hold.epoch, hold.revision):
        return False
    return left.body is UNSET or left.body == there.body


def _released_by_us(entity: Entity) -> Unowned:
    if not isinstance(entity.hold, Unowned):
        raise Fenced(f"{entity.partition} was taken up meanwhile")
    return entity.hold


def _as_seen(hold: Owned | Unowned, host: Host) -> AllOf:
    seen = RevisionIs(hold.revision)
    if isinstance(hold, Unowned):
        return AllOf((UNOWNED, EpochIs(hold.epoch), seen))
    return AllOf((OwnerIs(host.home.owner, hold.epoch), seen))


def committed(began: float, host: Host) -> None:
    """A turn has waited for a write since ``began``."""
    host.telemetry.detail("committed", seconds=elapsed_seconds() - began)


def release(entity: Entity, host: Host, *, status: str, due_at: int, body: bytes | UnsetType = UNSET) -> Update:
    """The write that releases an entity whatever has come for it, because this code may not go on with it; refused if
    it is no longer ours.
    """
    update = release_lease(entity.partition, host.home.owner, entity.epoch)
    return replace(update, status=status, due_at=due_at, body=body)


async def block(entity: Entity, reason: str, host: Host, *, body: bytes | UnsetType = UNSET) -> None:
    """Release an entity that needs other code, visibly, and look again once in a while."""
    host.telemetry.emit("blocked", partition=entity.partition, reason=reason)
    due_at = host.clock.now_ms() + BLOCKED_RECHECK_MS
    update = release(entity, host, status=entity.model.blocked, due_at=due_at, body=body)
    with contextlib.suppress(StoreError):  # then the lease runs out by itself
        await host.home.store.write(update)
    host.forget(entity)
