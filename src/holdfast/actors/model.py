"""What the host must know of actors."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from holdfast.actors import record
from holdfast.deferred import LazyModule
from holdfast.kernel.runtime import Runtime
from holdfast.kernel.turn import run_turn

if TYPE_CHECKING:
    from holdfast.actors.turn import entity as turns
    from holdfast.actors.turn import stages
    from holdfast.actors.turn.entity import ActorEntity
    from holdfast.kernel.host import Host
else:  # a worker whose app has no actors loads nothing of their turns
    turns, stages = (
        LazyModule("holdfast.actors.turn.entity", globals()),
        LazyModule("holdfast.actors.turn.stages", globals()),
    )


class Actors(Struct, frozen=True):
    """The programming model of actors. One per worker."""

    runtime: Runtime
    blocked: str = record.BLOCKED

    def serves(self, partition: str) -> bool:
        if not partition.startswith(record.PARTITION_PREFIX):
            return False
        kind = self.runtime.registry.actors.get(record.actor_of(partition))
        return kind is not None and kind.keys(record.key_of(partition))

    def admit(self, partition: str) -> ActorEntity:
        return turns.ActorEntity(partition, self, self.runtime.registry.actors[record.actor_of(partition)])

    def turn(self, entity: ActorEntity, host: Host) -> Coroutine[Any, Any, None]:
        return run_turn(entity, stages.ActorStages(self.runtime), host)
