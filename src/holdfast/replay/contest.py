"""Arrivals that something else may come before: whichever of the two is written first counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.errors import Refused

if TYPE_CHECKING:
    from holdfast.kernel.entity import Entity
    from holdfast.replay.program import Contested
    from holdfast.replay.work import Work


async def contest(contested: Contested, entity: Entity, work: Work) -> None:
    """Record the arrival, and deliver it; or have the inbox read if something else came first. The body has learnt of
    neither before, so nothing needs to be taken back.
    """
    entry = contested.arrival.entry
    try:
        await work.journal.record_with(entry, contested.claim)
    except Refused as refused:
        if await contested.came_first(refused.item):
            entity.notify()  # its own hint may be lost
            return
        await work.journal.record_with(entry)
    work.program.deliver(contested.arrival)
