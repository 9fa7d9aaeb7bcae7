"""Call cycles and deadlocks: a chain that comes back to an actor in it would wait for itself, for ever."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from holdfast.actors.record import decode_call, describe_partition
from holdfast.actors.turn.entity import ActorEntity
from holdfast.coordination.inbox import INBOX_PREFIX
from holdfast.errors import CallCycle

if TYPE_CHECKING:
    from holdfast.kernel.host import Host
    from holdfast.kernel.runtime import Runtime
    from holdfast.kernel.unit import Unit


MOST_FOLLOWED: Final = 1_000
"""How many actors are asked who waits for them, before a caller is believed to wait for one that just takes long."""


def refuse_cycle(partition: str, chain: tuple[str, ...], host: Host | None) -> None:
    """Raise ``CallCycle`` if the actor is in the chain that calls it, or waits for the caller in this process."""
    if partition in chain:
        raise CallCycle(
            f"this call comes back to an actor that waits for it: {_told((*chain, partition))}. Use hf.send"
        )
    if chain and host is not None and (path := _path(partition, frozenset(chain), host)):
        raise CallCycle(
            f"these actors would wait for each other: {_told((chain[-1], *path))}. Use hf.send for one of them"
        )


def _path(start: str, goals: frozenset[str], host: Host) -> tuple[str, ...]:
    """How ``start`` waits for one of ``goals`` in this process, over others or not; empty if it does not."""
    seen: set[str] = set()
    paths: list[tuple[str, ...]] = [(start,)]
    while paths:
        path = paths.pop()
        entity = host.entities.get(path[-1])
        if path[-1] in seen or not isinstance(entity, ActorEntity):
            continue
        seen.add(path[-1])
        if met := goals & entity.waits_for:
            return (*path, min(met))
        paths += [(*path, each) for each in entity.waits_for]
    return ()


def _told(partitions: tuple[str, ...]) -> str:
    return " → ".join(describe_partition(partition) for partition in partitions)


@contextmanager
def waiting_for(partition: str, unit: Unit | None, host: Host | None) -> Generator[None]:
    """Note whom the running actor waits for."""
    caller = host.entities.get(unit.chain[-1]) if host is not None and unit is not None and unit.chain else None
    if not isinstance(caller, ActorEntity):
        yield
        return
    caller.waits_for.add(partition)
    try:
        yield
    finally:
        caller.waits_for.discard(partition)


async def find_deadlock(chain: tuple[str, ...], theirs: str, runtime: Runtime) -> frozenset[str]:
    """Who waits by mail in a circle, if the actor that the last of ``chain`` waits for waits for one of the chain.

    A caller by mail has left its call, with all callers that wait for it, in the inbox of the actor that it waits
    for; a caller in memory is known in its process.
    """
    seen = set(chain)
    paths = deque((partition, frozenset((chain[-1],))) for partition in chain)
    while paths and len(seen) < MOST_FOLLOWED:
        partition, waiters = paths.popleft()
        for their_chain, by_mail in await _who_waits_for(partition, runtime):
            path = waiters | {their_chain[-1]} if by_mail else waiters
            if theirs in their_chain:
                return path
            paths += [(each, path) for each in their_chain if each not in seen]
            seen.update(their_chain)
    return frozenset()


async def _who_waits_for(partition: str, runtime: Runtime) -> list[tuple[tuple[str, ...], bool]]:
    """The chains of those who wait for an actor, and whether they wait by mail."""
    page = await runtime.home.store.query(partition, prefix=INBOX_PREFIX)
    calls = (decode_call(message.body) for message in page.items)
    by_mail = [(call.chain, True) for call in calls if call.replies and call.chain]
    entities = () if runtime.host is None else runtime.host.entities.values()
    here = [each.partition for each in entities if isinstance(each, ActorEntity) and partition in each.waits_for]
    return by_mail + [((each,), False) for each in here]
