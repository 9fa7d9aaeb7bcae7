"""A programming model, as the kernel sees it: which entities are its own, and how one of them moves."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from holdfast.kernel.entity import Entity
    from holdfast.kernel.host import Host


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
        """Work on one of the entities that ``admit`` made, until it waits, has ended, or belongs to another process."""
        ...
