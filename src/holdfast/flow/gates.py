"""The gates of an app's queues: the model of their turns. One process at a time decides for a queue (G15).

The owner keeps its lease as long as something runs or waits. Other processes do not try to take it from a living one:
each try would be a write.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from holdfast.coordination.lease import Closed, Held
from holdfast.flow.changing import settings_in
from holdfast.flow.deciding import is_busy, next_at, note_rest, read_places, run_round
from holdfast.flow.declarations import Queue, queue_at
from holdfast.flow.ends import Ends
from holdfast.flow.gate import Gate, books_of
from holdfast.flow.purging import take_in
from holdfast.flow.record import DECIDING, PLACE_PREFIX, RESTING, SETTINGS, create, decode_gate, shards_of, since_of
from holdfast.items import Item
from holdfast.kernel.entity import Unloaded
from holdfast.kernel.host import settled
from holdfast.kernel.outcomes import Ended, Left, Next, Rest
from holdfast.kernel.turn import run_turn

if TYPE_CHECKING:
    from holdfast.flow.settings import Settings
    from holdfast.kernel.host import Host
    from holdfast.kernel.runtime import Runtime


class Gates(Struct, frozen=True, kw_only=True):
    """The programming model of queues, and the stages of their turns. One per worker.

    ``closed`` are the statuses of executions that are over; ``ends`` is how one ends that waits.
    """

    runtime: Runtime
    closed: Sequence[str]
    ends: Ends
    blocked: str = ""
    claimable: tuple[str, ...] = (RESTING, DECIDING)
    running: str = DECIDING

    def queue_of(self, partition: str) -> Queue | None:
        """The queue that the app declares there."""
        return queue_at(partition, self.runtime.registry.queues)

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
            await create(entity.partition, host.home, self._declared(entity.partition))
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
        declared = self._declared(entity.partition)
        settings = await _settings(entity.partition, host)
        record = decode_gate(unloaded.head.body)
        entity.books = books = books_of(unloaded.head, record, settings.over(declared.rules))
        books.chooser.catch_up(host.clock.now_ms() * 1000)
        books.looked_at = host.clock.now_ms()
        books.is_told = record == record.with_numbers(declared.rules, declared.most_waiting)
        take_in(books, settings.purges, host.clock.now_ms())
        entity.unloaded = None

    async def receive(self, entity: Gate, _head: Item | None, host: Host, /) -> None:
        """See ``Stages``. What has come is not known: a place, or another number."""
        books = entity.open_books
        books.lookup, books.is_stale, books.is_changed = True, False, False  # what comes from here on is read again
        settings = await _settings(entity.partition, host)
        take_in(books, settings.purges, host.clock.now_ms())
        if (rules := settings.over(self._declared(entity.partition).rules)) != books.chooser.rules:
            books.chooser.change(rules)
            books.chooser.catch_up(host.clock.now_ms() * 1000)

    async def run(self, entity: Gate, host: Host, /) -> Next:
        """See ``Stages``."""
        if not _stops(host):
            found = await run_round(entity, self._declared(entity.partition), self.closed, self.ends, host)
            if not _stops(host):
                return found
        return await self.rest(entity, host)

    async def rest(self, entity: Gate, host: Host, /) -> Rest:
        """See ``Stages``. Where writes are paid, a place need not make the gate due while that is awake: who writes one
        sees it so before it writes that it is not, and thus before it reads all places for the last time.
        """
        entity.open_books.rests = True
        if not is_busy(entity):
            await note_rest(entity, self._declared(entity.partition), host)
            entity.open_books.lookup = True
            await read_places(entity, host, at_once=True)  # no process looks after this
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

    def _declared(self, partition: str) -> Queue:
        queue = self.queue_of(partition)
        assert queue is not None, "only what is served here is worked on here"
        return queue


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


async def begin_queues(runtime: Runtime, closed: Sequence[str], ends: Ends) -> Gates:
    """Create the heads of the declared queues, and return the model of their gates."""
    gates = runtime.kept.get(Gates, partial(_listening, runtime, closed, ends))
    await asyncio.gather(*(create(each.partition, runtime.home, each) for each in runtime.registry.queues.values()))
    return gates


async def _settings(gate: str, host: Host) -> Settings:
    """What was changed since the queue was declared."""
    return settings_in(await host.home.store.get(gate, SETTINGS))


class Decided(Struct, frozen=True):
    """How a queue stands for which this process decides: ``oldest_ms`` is for how long the first has waited."""

    waiting: int
    held: int
    oldest_ms: int


def decided_here(runtime: Runtime, host: Host) -> Iterator[tuple[str, Decided]]:
    """The queues for which this process decides, by name: numbers in memory."""
    for name, queue in runtime.registry.queues.items():
        gate = host.entities.get(queue.partition)
        if isinstance(gate, Gate) and (books := gate.books) is not None:
            first = books.chooser.first_place
            oldest_ms = 0 if first is None else max(0, host.clock.now_ms() - since_of(first))
            yield name, Decided(books.waiting, len(books.held), oldest_ms)


async def _has_place(gate: str, host: Host) -> bool:
    """Whether something waits: where writes are paid, a place does not always make its gate due."""
    pages = (host.home.store.query(shard, prefix=PLACE_PREFIX, limit=1) for shard in shards_of(gate))
    return any(page.items for page in await asyncio.gather(*pages))


def _stops(host: Host) -> bool:
    return host.draining


def _listening(runtime: Runtime, closed: Sequence[str], ends: Ends) -> Gates:
    gates = Gates(runtime=runtime, closed=closed, ends=ends)
    runtime.wake_listeners.add_for_all(partial(heard, runtime))
    return gates


def check_queues(runtime: Runtime) -> None:
    """Have this worker look at all queues that it knows, as it has just started."""
    if runtime.host is not None:
        for queue in runtime.registry.queues.values():
            runtime.host.check(queue.partition)
