"""Callers that were stopped, or heard from the store too late: another process may have overtaken them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.actors.turn.entity import ActorEntity
from holdfast.coordination.lease import Fenced
from holdfast.kernel.entity import Unowned
from holdfast.kernel.ownership import ours

if TYPE_CHECKING:
    from holdfast.actors.record import Call
    from holdfast.kernel.runtime import Runtime


async def refuse_if_overtaken(request: Call, runtime: Runtime) -> None:
    """Raise ``Fenced`` if the actor that calls has a newer owner: nothing leaves it any more (G3).

    It is asked when its lease is over, and only then: what it calls may have been called, answered and forgotten since.
    """
    caller = runtime.host.entities.get(request.chain[-1]) if runtime.host is not None and request.chain else None
    if not isinstance(caller, ActorEntity) or isinstance(caller.hold, Unowned):
        return  # what an optimistic one does depends on its version
    if runtime.clock.now_ms() < ours(caller).lease_until:
        return
    head = await runtime.home.store.get(caller.partition)
    if head is None or head.owner != runtime.home.owner:
        caller.lose()
        raise Fenced(f"{caller.partition} has a newer owner")
