"""The relay to the bus: it sends events from their queue to the bus, as the relay delivers them to consumers (G5).

An event that the bus does not accept stays in the queue and is sent again after a pause that grows. The pause is
recorded in the head, so that all processes of the home keep it. An event that the bus refuses for good is kept apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from holdfast.bus import EventBus, NotTaken, Unfit
from holdfast.items import Delete, Item, Put, Write
from holdfast.kernel.outcomes import AGAIN, Idle, Next, Rest
from holdfast.messaging.bus_queue import UNROUTABLE_PREFIX, BusHead, Unroutable, announced, decode_head, encode
from holdfast.messaging.outbox import ENTRY_PREFIX, WAITING, Entry, decode_entry
from holdfast.messaging.queue_turns import Relay, Relaying, mark
from holdfast.retry import Retry

if TYPE_CHECKING:
    from holdfast.kernel.entity import Unloaded
    from holdfast.kernel.host import Host
    from holdfast.kernel.model import Model

BUS_BATCH: Final = 100
"""The most events that are sent before they are marked as sent. A crash repeats at most these."""

PAUSES: Final = Retry(initial="1s", backoff=2, max_delay="5m")
"""The pause after a failed attempt; it grows with each failure in a row. Attempts never end."""


FARTHEST_MS: Final = 10 * 60 * 1000
"""The longest pause. One that another process recorded may come from a clock that is far ahead (G9)."""


LONGEST_REASON_CHARACTERS: Final = 200


class BusQueue(Relay):
    """A queue of the bus that this process empties. ``known`` is what its head said when it was claimed, ``reason``
    why the bus has not accepted an event last.
    """

    __slots__ = ("known", "reason")

    def __init__(self, partition: str, model: Model) -> None:
        super().__init__(partition, model)
        self.known = BusHead("")
        self.reason = ""


class BusQueues(Relaying, frozen=True, kw_only=True):
    """The programming model of the bus's queues: one per worker of a home that has a bus."""

    app: str
    bus: EventBus

    def admit(self, partition: str) -> BusQueue:
        """See ``Model``."""
        return BusQueue(partition, self)

    async def load(self, entity: BusQueue, unloaded: Unloaded, host: Host, /) -> None:
        """See ``Stages``. All processes of the home keep the same pause."""
        entity.known = decode_head(unloaded.head.body)
        entity.reason = entity.known.reason
        farthest = host.clock.now_ms() + FARTHEST_MS
        self.patience.learn(entity.known.failures, min(entity.known.until_ms, farthest))
        await super().load(entity, unloaded, host)

    async def run(self, entity: BusQueue, host: Host, /) -> Next:
        """See ``Stages``."""
        if host.draining or self.patience.until_ms > host.clock.now_ms():
            return await self.rest(entity, host)
        page = await host.home.store.query(entity.partition, prefix=ENTRY_PREFIX, limit=BUS_BATCH)
        entity.full = bool(page.items)
        if kept := await self._send(page.items, entity, host) if page.items else ():
            host.telemetry.emit("bus_failed", partition=entity.partition, count=len(kept), error=kept[0].reason)
            self.patience.failed(host.clock.now_ms(), host.home.owner)
            entity.reason = kept[0].reason[:LONGEST_REASON_CHARACTERS]
            return await self.rest(entity, host)
        self.patience.succeeded()
        entity.reason = ""
        return AGAIN if page.items else Idle(None, host.limits.linger_seconds)

    async def _send(self, items: Sequence[Item], queue: BusQueue, host: Host) -> list[NotTaken]:
        """Send events, and mark those that the bus accepted or refused for good. Returns the verdicts on the others."""
        entries = [decode_entry(item.body) for item in items]
        said = await self.bus.put([announced(self.app, queue.known.origin, entry) for entry in entries])
        writes: list[Write] = []
        kept: list[NotTaken] = []
        for item, entry, verdict in zip(items, entries, said, strict=True):
            match verdict:
                case NotTaken():
                    kept.append(verdict)
                    continue
                case Unfit(reason):
                    writes.append(Put(_unroutable(item, entry, reason)))
                    host.telemetry.emit("event_unfit", partition=queue.partition, id=entry.id, error=reason)
                case None:
                    pass
            writes.append(Delete(queue.partition, item.sort))
        await mark(writes, queue, host)
        return kept

    async def rest(self, entity: BusQueue, host: Host, /) -> Rest:
        """See ``Stages``: rest until there are more events, or until the next attempt is due."""
        patience, now = self.patience, host.clock.now_ms()
        due_at = max(patience.until_ms, now) if entity.full else None
        head = BusHead(entity.known.origin, patience.failures, patience.until_ms, entity.reason)
        return Rest(WAITING, due_at, body=encode(head))


def _unroutable(item: Item, entry: Entry, reason: str) -> Item:
    sort = UNROUTABLE_PREFIX + item.sort[len(ENTRY_PREFIX) :]
    return Item(partition=item.partition, sort=sort, body=encode(Unroutable(entry, reason)))
