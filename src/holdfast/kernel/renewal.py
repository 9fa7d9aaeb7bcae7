"""Renewing the leases of the entities that this process owns, all at one beat."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from msgspec import UNSET
from msgspec.structs import replace

from holdfast.coordination.lease import is_leased, renewal
from holdfast.errors import Refused, StoreError
from holdfast.items import OwnerIs, Update
from holdfast.kernel.entity import Entity, Owned, Told
from holdfast.kernel.ownership import lease_until, renewed

if TYPE_CHECKING:
    from holdfast.items import Item
    from holdfast.kernel.host import Host


async def renew(host: Host) -> None:
    """Extend every lease we hold, all in one batch. An entity whose lease is lost stops.

    In a process that ends at a known time, leases are long. While they last long enough they are only looked at: a read
    costs less than a write.
    """
    held = [entity for entity in host.awake.values() if entity.renewable]
    with host.pace.renewing():
        await asyncio.gather(*(_renew(entity, host) for entity in held))


async def _renew(entity: Entity, host: Host) -> None:
    async with host.pace.renewals:
        if not entity.renewable:
            return  # it was released meanwhile
        if _lasts(entity, host):
            await _look(entity, host)
        else:
            await _extend(entity, host)


def _lasts(entity: Entity, host: Host) -> bool:
    enough = host.clock.now_ms() + host.limits.lease_ms * 2 // 3
    return host.ends_at is not None and isinstance(entity.hold, Owned) and entity.hold.lease_until > enough


async def _look(entity: Entity, host: Host) -> None:
    """See whether a lease is still ours. What is to be told is written without extending it."""
    epoch, told = entity.epoch, entity.tells()
    try:
        if told is None:
            _seen(entity, epoch, await host.home.store.get(entity.partition), host)
        else:
            when = OwnerIs(host.home.owner, epoch)
            await _write(entity, epoch, Update(partition=entity.partition, when=when), told, host)
    except StoreError:
        return  # not known; the next look or write will tell


async def _extend(entity: Entity, host: Host) -> None:
    epoch, until = entity.epoch, lease_until(host.clock.now_ms(), host)
    try:
        update = renewal(entity.partition, host.home.owner, epoch, until)
        if await _write(entity, epoch, update, entity.tells(), host):
            renewed(entity, until)
    except StoreError:
        return  # not known; the next renewal or write will tell


async def _write(entity: Entity, epoch: int, update: Update, told: Told | None, host: Host) -> bool:
    """Whether the write was applied, and the lease is ours.

    The body that rides along may be written while a release is: what the release writes stands in any case. If this
    write comes first it is overwritten, and if it comes later it is refused.
    """
    body = UNSET if told is None else told.body
    try:
        (head,) = await host.home.store.write(replace(update, load=True, body=body))
    except Refused as refused:
        _seen(entity, epoch, refused.item, host)
        return False
    if not isinstance(entity.hold, Owned) or entity.epoch != epoch:
        return False
    if told is not None:
        told.written()
    _seen(entity, epoch, head, host)
    return True


def _seen(entity: Entity, epoch: int, head: Item | None, host: Host) -> None:
    """The head shows whether the lease is lost, and whether a wake-up was: a turn that never rests would not find out.

    One that is being written now may have moved its epoch on itself: that write will tell.
    """
    if not entity.renewable or entity.epoch != epoch:
        return
    if not is_leased(head, host.home.owner, epoch):
        entity.lose()
    elif isinstance(entity.hold, Owned) and head.revision > entity.hold.revision:
        entity.notify()
