"""Methods that need permits of limits: a call runs when it has all of them. Meanwhile its actor is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.coordination.lease import Fenced
from holdfast.flow.limits import wanted_by
from holdfast.flow.permits import lenders_of

if TYPE_CHECKING:
    from msgspec import Raw

    from holdfast.actors.kind import Method
    from holdfast.actors.timers import Timer
    from holdfast.actors.turn.entity import ActorEntity
    from holdfast.flow.permits import Hold
    from holdfast.kernel.runtime import Runtime

LOOK_SECONDS: Final = 1.0
"""So often a call that waits looks whether its actor is still to be kept."""


def hold_of(method: Method | Timer[...] | None, args: Raw, actor: ActorEntity, runtime: Runtime) -> Hold | None:
    """Room for the permits that a call needs; ``None`` if it needs none. Raises what the user's functions of its
    arguments raise, and ``SerializationError``.
    """
    if method is None or not method.uses:
        return None
    signature = method.signature
    given = signature.unbind(bytes(args))
    return lenders_of(runtime).hold(
        wanted_by(method.uses, signature.parameters, *given, f"{actor.kind.name}.{method.name}")
    )


async def take(hold: Hold, actor: ActorEntity, runtime: Runtime) -> None:
    """Wait for the permits of a call. Raises ``Fenced`` if the actor is lost, or this process stops."""
    taken = False
    while not taken:
        taken = await hold.taken(LOOK_SECONDS, runtime.host)
        if actor.lost or (runtime.host is not None and runtime.host.draining):
            hold.end()
            raise Fenced(f"{actor.partition}: it was left while a call of it waited for a permit")
