"""What comes for a journaled entity that this process may have in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.replay.entity import JournaledEntity

if TYPE_CHECKING:
    from holdfast.kernel.host import Host
    from holdfast.replay.program import Arrival


def deliver(host: Host, partition: str, arrival: Arrival) -> None:
    """Something has come for an entity. If it is not in memory it is looked at, and finds out by itself."""
    entity = host.entities.get(partition)
    if not isinstance(entity, JournaledEntity) or not entity.loaded:
        host.check(partition)
        return
    entity.arrive(arrival)
    if entity.turn is None:
        host.begin_turn(entity)


def remind(host: Host, partition: str, op: str) -> None:
    """Let an entity in memory look at one of its operations again, now."""
    entity = host.entities.get(partition)
    if isinstance(entity, JournaledEntity) and entity.work is not None and entity.held:
        entity.work.add_timer(host.clock.now_ms(), op)
        entity.wake()
