"""The stages of a turn: what a programming model supplies to ``run_turn``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from holdfast.coordination.lease import Closed, Held
from holdfast.items import Item
from holdfast.kernel.entity import Entity, Unloaded
from holdfast.kernel.outcomes import Ended, Left, Next

if TYPE_CHECKING:
    from holdfast.kernel.host import Host

E_contra = TypeVar("E_contra", bound=Entity, contravariant=True)


class Stages(Protocol[E_contra]):
    """What is different about the turns of each programming model."""

    @property
    def claimable(self) -> tuple[str, ...]:
        """The statuses of heads that wait to be worked on, or are."""
        ...

    @property
    def running(self) -> str:
        """The status that a claim sets."""
        ...

    def ahead(self, entity: E_contra, host: Host, /) -> Ended | None:
        """It was released by this process, which has it in memory: how it ends, if it ends with nothing but what has
        fallen due since. That may be written without a claim, and is void if anything else has come. ``None``: claim
        it.
        """
        ...

    async def may_claim(self, entity: E_contra, host: Host, /) -> bool:
        """Whether this process is the one to work on it, and now."""
        ...

    async def refused(self, entity: E_contra, claim: Held | Closed, host: Host, /) -> Item | None:
        """The claim was refused: do what is to be done about it. Answers the head if that has created it, with our
        lease in it.
        """
        ...

    async def resume(self, entity: E_contra, host: Host, /) -> None:
        """It is ours already: it was created here, or the turn before was left behind. Finish what that has begun. The
        entity is claimed again if this leaves it ``Unowned``.
        """
        ...

    async def load(self, entity: E_contra, unloaded: Unloaded, host: Host, /) -> None:
        """Bring what the store has into memory, and clear ``entity.unloaded``. Raises ``Blocked``."""
        ...

    async def receive(self, entity: E_contra, head: Item | None, host: Host, /) -> None:
        """Something may have come: take it in. ``head`` was read before; ``None`` if the claim has just shown it."""
        ...

    async def run(self, entity: E_contra, host: Host, /) -> Next:
        """Run what there is, and make durable what came of it. Raises ``Blocked``."""
        ...

    async def rest(self, entity: E_contra, host: Host, /) -> Left:
        """How it is left, now that nothing has come for as long as it lingered. Raises ``Blocked``."""
        ...

    def left(self, entity: E_contra, left: Left, host: Host, /) -> None:
        """It is released, as ``left`` says."""
        ...

    async def fenced(self, entity: E_contra, /) -> None:
        """It has a newer owner, and is to be forgotten: wait for the writes whose outcome is to be known before."""
        ...

    async def failed(self, entity: E_contra, error: Exception, host: Host, /) -> None:
        """The turn cannot go on: leave it to other code, or to a later turn. Raises ``Fenced``."""
        ...
