"""This process's hold on an entity: how it becomes ours, and how we let go. The same for every programming model."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from holdfast.coordination.lease import Claim, Claimed, Closed, Fenced, Held, is_leased, is_released, renewal
from holdfast.coordination.lease import claim as claim_lease
from holdfast.coordination.lease import release as release_lease
from holdfast.errors import Refused, StoreError
from holdfast.items import AllOf, OwnerIs, RevisionIs, Update, one_per_place, place
from holdfast.persist import write_until_known

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.items import Item, Write
    from holdfast.kernel.entity import Entity
    from holdfast.kernel.host import Host

BLOCKED_RECHECK_MS: Final = 60_000
"""So long an entity waits that wants other code before it is looked at again."""


async def claim(entity: Entity, host: Host, *, claimable: tuple[str, ...], running: str) -> Claim:
    """Try to become the owner. What belongs to somebody else is looked at again when his lease ends."""
    now = host.clock.now_ms()
    rung, entity.unread = entity.unread, False  # what comes from here on may be later than the answer
    outcome = await claim_lease(
        host.home.store,
        entity.partition,
        owner=host.home.owner,
        now=now,
        until=now + host.limits.lease_ms,
        claimable=claimable,
        running=running,
        alive=host.home.doorbell.alive,
    )
    match outcome:
        case Claimed(_, takeover, _):
            entity.unread = entity.unread or rung
            host.telemetry.emit("claimed", partition=entity.partition, takeover=takeover)
        case Held(_, until):
            host.later.held(host, entity.partition, until)
        case Closed():
            pass
    return outcome


def forget(entity: Entity, host: Host) -> None:
    """Forget an entity that is not ours, and look at it again if somebody rang meanwhile: what refused us may have been
    over by then, and nobody else may have heard it.
    """
    missed = entity.unread
    host.forget(entity)
    if missed:
        host.look(entity.partition)


async def block(entity: Entity, reason: str, host: Host, *, body: bytes | UnsetType = UNSET) -> None:
    """Let go of an entity that needs other code, visibly, and look again once in a while."""
    host.telemetry.emit("blocked", partition=entity.partition, reason=reason)
    due_at = host.clock.now_ms() + BLOCKED_RECHECK_MS
    update = left(entity, host, status=entity.model.blocked, due_at=due_at, body=body)
    with contextlib.suppress(StoreError):  # then the lease runs out by itself
        await host.home.store.write(update)
    host.forget(entity)


async def cover(entity: Entity, host: Host) -> None:
    """Nobody rang, and yet there is something to do: have it found if we die of it (G1)."""
    entity.due_at = host.clock.now_ms()
    ours = OwnerIs(host.home.owner, entity.epoch)
    update = Update(partition=entity.partition, when=ours, due_at=entity.due_at)
    try:
        await write_until_known(host.home.store, update, ours=lambda _there: False)  # what runs beside is not lost
    except Refused as refused:
        raise Fenced(f"{entity.partition}: {refused}") from None


async def confirm(entity: Entity, host: Host) -> None:
    """Our lease may have lapsed while we waited for the store, or were stopped: ask for it before an effect starts.

    So a slow process does not repeat what another one has finished meanwhile (G2). Nothing else rests on it (G9).
    """
    until = host.clock.now_ms() + host.limits.lease_ms
    update = renewal(entity.partition, host.home.owner, entity.epoch, until)
    still_ours = partial(is_leased, owner=host.home.owner, epoch=entity.epoch)
    try:
        await write_until_known(host.home.store, update, ours=still_ours)
    except Refused as refused:
        raise Fenced(f"{entity.partition}: {refused}") from None
    entity.lease_until = max(entity.lease_until, until)


def left(entity: Entity, host: Host, *, status: str, due_at: int, body: bytes | UnsetType = UNSET) -> Update:
    """The write that lets go of an entity and says how it stands; refused if it is no longer ours."""
    ours = release_lease(entity.partition, host.home.owner, entity.epoch)
    return replace(ours, status=status, due_at=due_at, body=body)


def unchanged(entity: Entity, host: Host) -> AllOf:
    """What a release depends on: our epoch, and that nobody has rung since we looked."""
    return AllOf((OwnerIs(host.home.owner, entity.epoch), RevisionIs(entity.revision)))


class Unheard(Exception):
    """An entity that was to be told in the same write takes no messages any more: nothing was written."""

    def __init__(self, partition: str) -> None:
        super().__init__(partition)
        self.partition = partition


async def release(entity: Entity, left: Update, *others: Write, host: Host) -> Item | None:
    """Write how an entity is left, if it is ``unchanged``. Answers its head if somebody rang meanwhile: then there is
    more to do. Raises ``Fenced``, and ``Unheard`` if one of the ``others`` is refused that is for another entity.
    """

    def ours(there: Item | None) -> bool:
        if (
            there is None
            or there.partition != entity.partition
            or not is_released(there, entity.epoch, entity.revision)
        ):
            return False
        return left.body is UNSET or left.body == there.body

    try:
        await write_until_known(host.home.store, left, *others, ours=ours)
    except Refused as refused:
        if (refusing := place((left, *others)[refused.index])[0]) != entity.partition:
            raise Unheard(refusing) from None
        if not is_leased(refused.item, host.home.owner, entity.epoch):
            raise Fenced(f"{entity.partition}: {refused}") from None
        return refused.item
    entity.held = False
    return None


async def release_and_notify(
    entity: Entity, update: Update, others: Sequence[Write], posts: Sequence[tuple[str, Sequence[Write]]], host: Host
) -> Item | None:
    """Write the end, and tell the entities that take messages: the others do not wait any more."""
    while True:
        told = [write for _, message in posts for write in message]
        try:
            return await release(entity, update, *one_per_place((*others, *told)), host=host)
        except Unheard as unheard:
            posts = [post for post in posts if post[0] != unheard.partition]
