"""Call cycles and deadlocks: a chain that comes back to an actor in it would wait for itself, for ever."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from holdfast.actors.record import decode_call, describe_partition
from holdfast.actors.resident import Resident
from holdfast.coordination.inbox import INBOX_PREFIX
from holdfast.errors import CallCycle

if TYPE_CHECKING:
    from holdfast.actors.access import ActorAccess
    from holdfast.kernel.host import Host
    from holdfast.kernel.unit import Unit


def refuse_cycle(partition: str, chain: tuple[str, ...], host: Host | None) -> None:
    """Raise ``CallCycle`` if the actor is in the chain that calls it, or waits for the caller in this process."""
    if partition in chain:
        raise CallCycle(
            f"this call comes back to an actor that waits for it: {_told((*chain, partition))}. Use hf.send"
        )
    if chain and host is not None and (path := _path(partition, chain[-1], host)):
        raise CallCycle(
            f"these actors would wait for each other: {_told((chain[-1], *path))}. Use hf.send for one of them"
        )


def _path(start: str, goal: str, host: Host) -> tuple[str, ...]:
    """How ``start`` waits for ``goal`` in this process, over others or not; empty if it does not."""
    seen: set[str] = set()
    paths: list[tuple[str, ...]] = [(start,)]
    while paths:
        path = paths.pop()
        entity = host.entities.get(path[-1])
        if path[-1] in seen or not isinstance(entity, Resident):
            continue
        seen.add(path[-1])
        if goal in entity.waits_for:
            return (*path, goal)
        paths += [(*path, each) for each in entity.waits_for]
    return ()


def _told(partitions: tuple[str, ...]) -> str:
    return " → ".join(describe_partition(partition) for partition in partitions)


@contextmanager
def waiting_for(partition: str, unit: Unit | None, host: Host | None) -> Generator[None]:
    """Note whom the running actor waits for."""
    caller = host.entities.get(unit.chain[-1]) if host is not None and unit is not None and unit.chain else None
    if not isinstance(caller, Resident):
        yield
        return
    caller.waits_for.add(partition)
    try:
        yield
    finally:
        caller.waits_for.discard(partition)


async def must_give_way(ours: str, theirs: str, access: ActorAccess) -> bool:
    """Whether we, who wait for an actor elsewhere, keep it waiting for us, and are the one of the two to give way.

    Its own call then lies in our inbox, with it in its chain. One side gives way, by name; the other is then served.
    """
    if ours > theirs:
        return False
    page = await access.home.store.query(ours, prefix=INBOX_PREFIX)
    return any(theirs in decode_call(message.body).chain for message in page.items)
