"""Entities that want other code than there is here: another version is called for them, or they are blocked.

Nothing is claimed and nothing is written to hand one over: the head names the version that is needed, that version is
called, and it claims the entity. The due head or message that led here stays as it is until then. So a call that fails
or is lost is made again by the next look, and one that is made twice finds nothing to do (DESIGN idea 4).

It cannot go in circles. A version gets into a head only by a turn on that very version, whose code was the right one,
or by a move. A version that finds its own name in a head, and may not go on with it, blocks the entity.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from msgspec import UNSET

from holdfast.coordination.lease import Fenced
from holdfast.errors import Refused
from holdfast.items import Item
from holdfast.kernel import ownership
from holdfast.kernel.outcomes import Blocked
from holdfast.persist import write_until_known
from holdfast.ports import WakeUp
from holdfast.replay.entries import Marked
from holdfast.replay.journal import Journal

if TYPE_CHECKING:
    from holdfast.kernel.host import Host
    from holdfast.replay.entity import JournaledEntity


async def handed_over(entity: JournaledEntity, host: Host) -> bool:
    """Whether another version was called for it, because only its code may go on. Raises ``StoreUnavailable``.

    False too if no such version can be called: why is noted, and the worker that claims the entity blocks it.
    """
    versions = host.home.versions
    if versions is None or entity.loaded or not entity.programs.pins(entity.partition):
        return False
    head = await host.home.store.get(entity.partition)
    if head is None or head.status not in entity.programs.claimable or _is_held(head, host):
        return False
    try:
        entity.programs.open(head, host)
    except Blocked as blocked:
        if not wants_another(blocked, host):
            return False
        entity.uncallable = await versions.call(blocked.published, WakeUp(entity.partition))
        if entity.uncallable is not None:
            return False
        host.telemetry.emit("handed_over", partition=entity.partition, version=blocked.published)
        return True
    return False


def wants_another(blocked: Blocked, host: Host) -> bool:
    """Whether a version of another name than ours has the code."""
    return host.home.versions is not None and blocked.published not in {"", host.home.versions.own}


async def release(entity: JournaledEntity, host: Host) -> None:
    """Release one that was claimed although it wants another version, due at once, and check it again.

    For the rare case that its head changed between the read and the claim.
    """
    update = ownership.release(entity, host, status=entity.programs.suspended, due_at=host.clock.now_ms())
    try:
        await write_until_known(
            host.home.store,
            update,
            ours=lambda there: there is not None and there.owner is None and there.epoch == entity.epoch,
        )
    except Refused as refused:
        raise Fenced(f"{entity.partition}: {refused}") from None
    entity.notify()
    host.forget(entity)


async def leave_to_other_code(entity: JournaledEntity, blocked: Blocked, host: Host) -> None:
    """Release an entity that this code may not go on with. What has happened is kept, and nothing else changes."""
    if entity.uncallable is None and wants_another(blocked, host):
        await release(entity, host)
        return
    reason = f"{blocked}. {entity.uncallable or ''}".rstrip(" .")
    await _keep_what_happened(entity)
    await block_journaled(entity, reason, host)


async def _keep_what_happened(entity: JournaledEntity) -> None:
    if (work := entity.work) is None:
        return
    if work.flushing is not None:  # it writes at the place that comes next
        await asyncio.wait((work.flushing,))
    ownership.ours(entity)
    if not all(isinstance(entry, Marked) for entry in work.journal.buffer):
        await work.journal.commit(*work.take_others())


async def block_journaled(entity: JournaledEntity, reason: str, host: Host) -> None:
    """As ``ownership.block``; the head says why."""
    now, body = host.clock.now_ms(), None
    if entity.work is not None:
        body = entity.work.program.blocked(reason, now)
    elif entity.unloaded is not None:
        body = entity.programs.blocked_body(entity.unloaded.head, reason, now)
    await ownership.block(entity, reason, host, body=UNSET if body is None else body)


async def fence(entity: JournaledEntity, run: int, host: Host, *, died: bool) -> None:
    """Fence the last owner, which may be awake, before the entity is released: its next claim is no takeover (G3).

    If its process died, that is counted here, where it is noticed.
    """
    journal = Journal(host.home.store, entity.partition, run, host.home.owner, entity.epoch)
    await journal.load()
    await journal.fence(host.clock.now_ms() if died else None)


def _is_held(head: Item, host: Host) -> bool:
    return (
        head.owner is not None
        and host.home.doorbell.alive(head.owner)
        and (head.lease_until or 0) >= host.clock.now_ms()
    )
