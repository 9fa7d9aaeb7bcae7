"""The gates of an app's queues: the model of their turns. One process at a time decides for a queue (G15).

The owner keeps its lease as long as something runs or waits. Other processes do not try to take it from a living one:
each try would be a write.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from holdfast.coordination.lease import Closed, Held
from holdfast.flow.deciding import is_busy, next_at, read_places, run_round
from holdfast.flow.declarations import Queue
from holdfast.flow.gate import Gate, books_of
from holdfast.flow.record import DECIDING, PLACE_PREFIX, RESTING, SETTINGS, create, decode_gate, shards_of
from holdfast.flow.settings import AS_DECLARED, decode_settings
from holdfast.items import Item
from holdfast.kernel.entity import Unloaded
from holdfast.kernel.host import settled
from holdfast.kernel.outcomes import Ended, Left, Next, Rest
from holdfast.kernel.turn import run_turn

if TYPE_CHECKING:
    from holdfast.flow.choose import Rules
    from holdfast.kernel.host import Host
    from holdfast.kernel.runtime import Runtime


class Gates(Struct, frozen=True, kw_only=True):
    """The programming model of queues, and the stages of their turns. One per worker.

    ``closed`` are the statuses of executions that are over.
    """

    runtime: Runtime
    closed: Sequence[str]
    blocked: str = ""
    claimable: tuple[str, ...] = (RESTING, DECIDING)
    running: str = DECIDING

    def queue_of(self, partition: str) -> Queue | None:
        """The queue that the app declares there."""
        queues: dict[str, Queue] = self.runtime.registry.queues
        return next((queue for queue in queues.values() if queue.partition == partition), None)

    def serves(self, partition: str) -> bool:
        """See ``Model``."""
        return self.queue_of(partition) is not None

    def admit(self, partition: str) -> Gate:
        """See ``Model``."""
        return Gate(partition, self)

    def turn(self, entity: Any, host: Host) -> Coroutine[Any, Any, None]:
        """See ``Model``."""
        return run_turn(entity, self, host)

    def ahead(self, _entity: Gate, _host: Host, /) -> Ended | None:
        """See ``Stages``."""
        return None

    async def may_claim(self, entity: Gate, host: Host, /) -> bool:
        """See ``Stages``: not while a living process decides, and not if there is nothing to decide. It is looked at
        again when the lease of the other process ends.
        """
        head = await host.home.store.get(entity.partition)
        if head is None:
            await create(entity.partition, host.home)
            return True
        if head.owner is None:
            return head.due_at is not None or await _has_place(entity.partition, host)
        if head.owner == host.home.owner or not host.home.doorbell.alive(head.owner):
            return True
        until = head.lease_until or 0
        if until < host.clock.now_ms():
            return True
        host.check_at(entity.partition, until + 1)
        return False

    async def refused(self, _entity: Gate, _claim: Held | Closed, _host: Host, /) -> Item | None:
        """See ``Stages``."""
        return None

    async def resume(self, _entity: Gate, _host: Host, /) -> None:
        """See ``Stages``."""

    async def load(self, entity: Gate, unloaded: Unloaded, host: Host, /) -> None:
        """See ``Stages``. The places are read by the first round."""
        rules = await self._rules(entity.partition, host)
        entity.books = books_of(decode_gate(unloaded.head.body), rules)
        entity.books.looked_at = host.clock.now_ms()
        entity.unloaded = None

    async def receive(self, entity: Gate, _head: Item | None, host: Host, /) -> None:
        """See ``Stages``. What has come is not known: a place, or another number."""
        books = entity.open_books
        books.lookup = True
        if (rules := await self._rules(entity.partition, host)) != books.chooser.rules:
            books.chooser.change(rules)

    async def run(self, entity: Gate, host: Host, /) -> Next:
        """See ``Stages``."""
        queue = self.queue_of(entity.partition)
        if not _stops(host):
            found = await run_round(entity, None if queue is None else queue.most_waiting, self.closed, host)
            if not _stops(host):
                return found
        return await self.rest(entity, host)

    async def rest(self, entity: Gate, host: Host, /) -> Rest:
        """See ``Stages``."""
        if not is_busy(entity):
            entity.open_books.lookup = True  # where writes are paid, a place does not make the gate due
            await read_places(entity, host)
        if not is_busy(entity):
            return Rest(RESTING, None)
        return Rest(RESTING, host.clock.now_ms() if host.draining else next_at(entity, host))

    def left(self, entity: Gate, left: Left, host: Host, /) -> None:
        """See ``Stages``. Another worker goes on at once if this one stops."""
        entity.books = None
        settled(entity, left, host)
        if host.draining:
            host.home.doorbell.ring(entity.partition)

    async def fenced(self, _entity: Gate, /) -> None:
        """See ``Stages``."""

    async def failed(self, entity: Gate, error: Exception, host: Host, /) -> None:
        """See ``Stages``."""
        host.failed(entity, error)

    async def _rules(self, partition: str, host: Host) -> Rules:
        """The numbers that hold: those that were declared, and what was changed since."""
        queue = self.queue_of(partition)
        assert queue is not None, "only what is served here is worked on here"
        there = await host.home.store.get(partition, SETTINGS)
        return (AS_DECLARED if there is None else decode_settings(there.body)).over(queue.rules)


def heard(runtime: Runtime, partition: str | None) -> None:
    """An entity was woken from elsewhere: if it has a slot, it may have ended."""
    host = runtime.host
    if host is None:
        return
    for queue in runtime.registry.queues.values():
        gate = host.entities.get(queue.partition)
        if isinstance(gate, Gate) and gate.books is not None:
            for each in gate.books.held if partition is None else (partition,):
                gate.has_changed(each)


async def begin_queues(runtime: Runtime, closed: Sequence[str]) -> Gates:
    """Create the heads of the declared queues, and return the model of their gates."""
    gates = runtime.kept.get(Gates, partial(_listening, runtime, closed))
    await asyncio.gather(*(create(queue.partition, runtime.home) for queue in runtime.registry.queues.values()))
    return gates


async def _has_place(gate: str, host: Host) -> bool:
    """Whether something waits: where writes are paid, a place does not always make its gate due."""
    pages = (host.home.store.query(shard, prefix=PLACE_PREFIX, limit=1) for shard in shards_of(gate))
    return any(page.items for page in await asyncio.gather(*pages))


def _stops(host: Host) -> bool:
    return host.draining


def _listening(runtime: Runtime, closed: Sequence[str]) -> Gates:
    gates = Gates(runtime=runtime, closed=closed)
    runtime.wake_listeners.add_for_all(partial(heard, runtime))
    return gates


def check_queues(runtime: Runtime) -> None:
    """Have this worker look at all queues that it knows, as it has just started."""
    if runtime.host is not None:
        for queue in runtime.registry.queues.values():
            runtime.host.check(queue.partition)
