"""The chain of actors that wait for a call: none of them may wait for itself.

A call that would wait for ever is refused, or taken back. Of one that was taken back it is known that it was applied,
and its reply is there, or that it never will be (G4). What was sent lies in the inbox, or with an owner that has run
it and not committed it yet. The owner may be slow, or stopped for an hour: so it loses the actor, and its commit is
refused.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from msgspec import UNSET

from holdfast.actors.mailbox.post import wake_actor, withdraw
from holdfast.actors.record import READY, RUNNING, Call, Reply, decode_call, describe_partition
from holdfast.actors.turn.commit import GATHERING_SECONDS, begin_commit, commit_under_way
from holdfast.actors.turn.entity import REFUSED, ActorEntity, actor_in_memory
from holdfast.actors.turn.replies import look_for_reply
from holdfast.coordination.inbox import INBOX_PREFIX
from holdfast.errors import CallCycle, Refused
from holdfast.items import EpochIs, Update
from holdfast.kernel.entity import Owned
from holdfast.paging import items
from holdfast.persist import write_for_caller

if TYPE_CHECKING:
    from holdfast.kernel.host import Host
    from holdfast.kernel.runtime import Runtime


MOST_FOLLOWED: Final = 1_000
"""How many actors are asked who waits for them, before a caller is believed to wait for one that just takes long."""


# ── Before the call ─────────────────────────────────────────────────────────────────────────────────────────────────


async def refuse_cycle(partition: str, request: Call, runtime: Runtime) -> Reply | None:
    """Raise ``CallCycle`` if the actor would wait for itself, unless an earlier run of the caller has got through: the
    reply that it was given.
    """
    cycle = _cycle(partition, request.chain, runtime.host)
    if cycle is None:
        return None
    # An actor of this very chain has never applied this call: it was refused in every run of the caller.
    look = look_for_reply if partition in request.chain else take_back
    reply = await look(partition, request.id, runtime)
    if reply is None:
        raise CallCycle(cycle)
    return reply


def _cycle(partition: str, chain: tuple[str, ...], host: Host | None) -> str | None:
    """What is wrong if the actor is in the chain that calls it, or waits for the caller in this process."""
    if partition in chain:
        return f"this call comes back to an actor that waits for it: {_told((*chain, partition))}. Use hf.send"
    if host is not None and (path := _path(partition, frozenset(chain), host)):
        return f"these actors would wait for each other: {_told((chain[-1], *path))}. Use hf.send for one of them"
    return None


def _path(start: str, goals: frozenset[str], host: Host) -> tuple[str, ...]:
    """How ``start`` waits for one of ``goals`` in this process, over others or not; empty if it does not."""
    seen: set[str] = set()
    paths: list[tuple[str, ...]] = [(start,)]
    while paths:
        path = paths.pop()
        entity = actor_in_memory(path[-1], host)
        if path[-1] in seen or entity is None or entity.running is None:
            continue
        seen.add(path[-1])
        if met := goals & entity.running.waits_for:
            return (*path, min(met))
        paths += [(*path, each) for each in entity.running.waits_for]
    return ()


def _told(partitions: tuple[str, ...]) -> str:
    return " → ".join(describe_partition(partition) for partition in partitions)


# ── While it waits ──────────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def waiting_for(partition: str, request: Call, host: Host | None) -> Generator[None]:
    """Note whom the running actor waits for."""
    caller = actor_in_memory(request.chain[-1], host)
    if caller is None or caller.running is None:
        yield
        return
    waits_for = caller.running.waits_for
    waits_for.add(partition)
    try:
        yield
    finally:
        waits_for.discard(partition)


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
    here = ((each.partition, each.running) for each in entities if isinstance(each, ActorEntity))
    waiting = [waiter for waiter, running in here if running is not None and partition in running.waits_for]
    return by_mail + [((each,), False) for each in waiting]


async def give_way(partition: str, request: Call, runtime: Runtime) -> Reply:
    """Take the call back and raise ``CallCycle``, unless it has been applied meanwhile."""
    if (reply := await take_back(partition, request.id, runtime)) is not None:
        return reply
    ours, theirs = describe_partition(request.chain[-1]), describe_partition(partition)
    raise CallCycle(f"{ours} and {theirs} call each other and would wait for ever: this call was taken back")


# ── Taking a call back ──────────────────────────────────────────────────────────────────────────────────────────────


async def take_back(partition: str, request_id: str, runtime: Runtime) -> Reply | None:
    """Take a request back, so that it is not applied any more; what it was answered, if it was applied."""
    await _withdraw(partition, request_id, runtime)
    if not await _is_settled_here(partition, runtime):
        await _take_from_owner(partition, runtime)
    return await look_for_reply(partition, request_id, runtime)


async def _withdraw(partition: str, request_id: str, runtime: Runtime) -> None:
    """Take every message of it out of the inbox.

    There may be several: of an earlier run of the caller, or sent again because the store gave no answer. A message
    leaves the inbox with the commit that brings its reply: an owner that has run it is refused now.
    """
    async for item in items(runtime.home.store, partition, prefix=INBOX_PREFIX):
        if decode_call(item.body).id == request_id:
            await withdraw(partition, item.sort, runtime)


async def _is_settled_here(partition: str, runtime: Runtime) -> bool:
    """Whether the actor is ours, and what has run is durable, or is not to be. It is waited for, if it is ours."""
    host = runtime.host
    actor = actor_in_memory(partition, host)
    if host is None or actor is None:
        return False
    while actor.held and not (actor.settled or actor.uncommitted.phase is REFUSED or actor.lost or actor.broken):
        begin_commit(actor, runtime, host)
        await commit_under_way(actor)
        if not actor.settled:
            await asyncio.sleep(GATHERING_SECONDS)
    hold = actor.hold
    return isinstance(hold, Owned) and not actor.broken and runtime.clock.now_ms() < hold.lease_until


async def _take_from_owner(partition: str, runtime: Runtime) -> None:
    """Have every commit refused that began before this. What else the owner was at begins again."""
    while (head := await runtime.home.store.get(partition)) is not None:
        owned = head.owner is not None and head.status == RUNNING
        update = Update(
            partition=partition,
            when=EpochIs(head.epoch),
            status=READY if owned else UNSET,
            owner=None,
            lease_until=None,
            due_at=runtime.clock.now_ms() if owned else UNSET,
            add_revision=1,
            add_epoch=1,
        )
        try:
            await write_for_caller(runtime.home.store, update, ours=lambda _there: False)
        except Refused:
            continue  # it has moved on: look again
        if owned:
            wake_actor(partition, runtime)
        return
