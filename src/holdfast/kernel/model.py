"""A programming model, as the kernel sees it: which entities are its own, how one of them moves, and how one leaves."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from holdfast.items import Write

if TYPE_CHECKING:
    from holdfast.kernel.entity import Entity
    from holdfast.kernel.host import Host


class Blocked(Exception):
    """There is code for this entity here, but not of the version it is pinned to. ``published`` is the name of a
    version that has it, if one is known; ``run`` is the entity's.
    """

    def __init__(self, reason: str, *, run: int = 0, published: str = "") -> None:
        super().__init__(reason)
        self.run = run
        self.published = published


class LeftBehind(BaseException):
    """The code that this turn ran did not end in its time, and another turn of its entity goes on: this one does
    nothing more.
    """


class Conclusion(Struct, frozen=True, gc=False):
    """How an entity leaves its turn for good: the head as it shall be. With ``due_at`` it goes on as a new run.

    ``posts`` are messages to others. They are written with the end if it expires, for then nobody finds it by looking;
    else afterwards, if they can be: an entity that waits for one also looks by itself.
    """

    status: str
    body: bytes
    due_at: int | None = None
    expires_at: int | None = None
    posts: Sequence[tuple[str, Sequence[Write]]] = ()


class Model(Protocol):
    """A programming model, as the host sees it: which entities are its own, and how one of them moves."""

    @property
    def blocked(self) -> str:
        """The status of an entity that the code here may not go on with."""
        ...

    def serves(self, partition: str) -> bool:
        """Whether there is code here for this entity."""
        ...

    def admit(self, partition: str) -> Entity:
        """The entity, with nothing of it in memory yet."""
        ...

    def turn(self, entity: Any, host: Host) -> Coroutine[Any, Any, None]:
        """Work on one of the entities that ``admit`` made, until it waits, has ended, or belongs to somebody else."""
        ...
