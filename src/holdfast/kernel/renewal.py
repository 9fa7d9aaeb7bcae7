"""Renewing the leases of the entities that this process owns, all at one beat."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from msgspec import UNSET
from msgspec.structs import replace

from holdfast.coordination.lease import is_leased, renewal
from holdfast.errors import Refused, StoreError
from holdfast.kernel.entity import Entity, Owned
from holdfast.kernel.ownership import renewed

if TYPE_CHECKING:
    from holdfast.kernel.host import Host


async def renew(host: Host) -> None:
    """Extend every lease we hold, all in one batch. An entity whose lease is lost stops."""
    until = host.clock.now_ms() + host.limits.lease_ms
    held = [entity for entity in host.entities.values() if entity.renewable]
    await asyncio.gather(*(_extend(entity, until, host) for entity in held))


async def _extend(entity: Entity, until: int, host: Host) -> None:
    """Extend a lease. The head that comes back shows whether a wake-up was lost: a turn that never rests would not
    find out.

    The body that rides along may be written while a release is: what the release writes stands in any case. If the
    renewal comes first it is overwritten, and if it comes later it is refused.
    """
    epoch, told = entity.epoch, entity.tells()
    body = UNSET if told is None else told.body
    try:
        update = replace(renewal(entity.partition, host.home.owner, epoch, until), load=True, body=body)
        (head,) = await host.home.store.write(update)
        if isinstance(entity.hold, Owned) and entity.epoch == epoch:
            renewed(entity, until)
            if told is not None:
                told.written()
            if head is not None and head.revision > entity.hold.revision:
                entity.notify()
    except Refused as refused:
        # One that is being written now may have moved its epoch on itself: that write will tell.
        if entity.renewable and entity.epoch == epoch and not is_leased(refused.item, host.home.owner, epoch):
            entity.lose()
    except StoreError:
        return  # not known; the next renewal or write will tell
