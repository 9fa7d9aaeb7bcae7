"""The turn: the only way an entity moves. ``claim → load → receive → run → leave``, the same for every model.

Nothing here trusts memory over the store: every write is conditional on our epoch, so a turn that has lost its lease
finds out at its next write (``Fenced``), forgets what it had and leaves the entity to the newer owner (G3).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from holdfast.coordination.lease import Claimed, Fenced
from holdfast.kernel.entity import Entity, Unowned
from holdfast.kernel.outcomes import Again, Ended, Idle, Released, Rest
from holdfast.kernel.ownership import check, claim, ensure_sound, leave, seen, take, wait

if TYPE_CHECKING:
    from holdfast.kernel.host import Host
    from holdfast.kernel.stages import Stages

E = TypeVar("E", bound=Entity)


async def run_turn(entity: E, stages: Stages[E], host: Host) -> None:
    """Work on one entity until it waits for something far away, has ended, or belongs to another process.

    A wake-up may come at any moment of it. It is ``entity.missed`` until the turn asks the store for something that
    shows what it was for; if the turn ends before, the host begins another one.
    """
    try:
        if not isinstance(entity.hold, Unowned):
            await stages.resume(entity, host)
        shown = isinstance(entity.hold, Unowned)
        if shown and (await end_ahead(entity, stages, host) or not await own(entity, stages, host)):
            return
        if entity.unloaded is not None:
            await stages.load(entity, entity.unloaded, host)
            shown = True  # by the write that made it ours: the claim of this turn, or what began it here before
        while True:
            ensure_sound(entity)
            if entity.unread:
                await receive(entity, stages, host, shown=shown)
            shown = False
            match await stages.run(entity, host):
                case Idle() as idle:
                    if await wait(entity, idle, host) or idle.busy:
                        continue
                    left = await stages.rest(entity, host)
                case Ended() | Rest() as left:
                    pass
                case Again():
                    continue
                case Released(rest):
                    stages.left(entity, rest, host)
                    return
            if await leave(entity, left, host):
                stages.left(entity, left, host)
                return
    except (Fenced, asyncio.CancelledError) as error:
        if not (isinstance(error, Fenced) or entity.lost):  # that it is lost may have cancelled what ran
            raise
        await give_way(entity, stages, host)
    except Exception as error:  # noqa: BLE001 - what becomes of the entity is the same whatever has failed
        await fail(entity, error, stages, host)


async def end_ahead(entity: E, stages: Stages[E], host: Host) -> bool:
    """End it without a claim, if it ends with what has fallen due since this process has released it. If that is
    refused, what is in memory is of no use.
    """
    if (ended := stages.ahead(entity, host)) is None:
        return False
    if await leave(entity, ended, host, as_released=True):
        stages.left(entity, ended, host)
        return True
    entity.unload()
    return False


async def own(entity: E, stages: Stages[E], host: Host) -> bool:
    """Become the owner, if this process is the one to be and no other one is. If not, the entity leaves memory."""
    entity.missed = False  # what is read from here on shows all that has come by now
    if await stages.may_claim(entity, host):
        match await claim(entity, host, claimable=stages.claimable, running=stages.running):
            case Claimed() as claimed:
                take(entity, claimed)
                return True
            case refused:
                if (created := await stages.refused(entity, refused, host)) is not None:
                    take(entity, Claimed(created, takeover=False))
                    return True
    host.forget(entity)
    return False


async def receive(entity: E, stages: Stages[E], host: Host, *, shown: bool) -> None:
    """After a wake-up, look at the head and at what has come. The head first: what comes later moves it on again.
    ``shown``: a claim has just shown the head.
    """
    shown = shown and not entity.missed
    entity.missed = entity.unread = False
    head = None if shown else await check(entity, host)
    if head is not None:
        seen(entity, head)
    await stages.receive(entity, head, host)


async def fail(entity: E, error: Exception, stages: Stages[E], host: Host) -> None:
    """The turn cannot go on: leave the entity as its model does, if it is still ours to leave."""
    entity.missed = False  # what has come by now waits until the entity is looked at again
    try:
        await stages.failed(entity, error, host)
    except Fenced:
        await give_way(entity, stages, host)


async def give_way(entity: E, stages: Stages[E], host: Host) -> None:
    """The entity has a newer owner: forget it."""
    await stages.fenced(entity)
    host.telemetry.emit("fenced", partition=entity.partition)
    host.forget(entity)
