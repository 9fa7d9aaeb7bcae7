"""The way to the bus: ``claim → read → put → mark → settle``, as the relay does it for consumers of this home (G5).

What the bus does not take stays in the queue, and is sent again after a pause that grows; the pause is noted in the
head, so that it is one for all processes of the home. What it never will take is set aside.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from holdfast.coordination.lease import Fenced
from holdfast.items import Delete, Item, Put, Write
from holdfast.messaging.bus_queue import UNFIT_PREFIX, BusHead, SetAside, announced, decode_head, encode
from holdfast.messaging.outbox import ENTRY_PREFIX, decode_entry
from holdfast.messaging.relay import Patience, Relay, claim, mark, settle, wait
from holdfast.ports import EventBus, NotTaken, Unfit
from holdfast.retry import Retry

if TYPE_CHECKING:
    from holdfast.kernel.host import Host
    from holdfast.kernel.model import Model

BUS_BATCH: Final = 100
"""So many events are sent between two marks: a crash repeats at most these."""

AGAIN: Final = Retry(initial="1s", backoff=2, max_delay="5m")
"""How long a bus is left alone that took nothing, more with each time in a row. It is never given up."""


FARTHEST_MS: Final = 10 * 60 * 1000
"""No pause is longer: what another process has noted may be by a clock that is far ahead (G9)."""


class Departure(Relay):
    """The queue that this process empties."""

    __slots__ = ("known",)

    def __init__(self, partition: str, model: Model) -> None:
        super().__init__(partition, model)
        self.known = BusHead("")

    def hold(self, item: Item) -> None:
        """See ``Entity.hold``."""
        super().hold(item)
        self.known = decode_head(item.body)


class Departures(Struct, frozen=True):
    """The programming model of queues for the bus. One per worker of a home that has a bus."""

    app: str
    partition: str
    bus: EventBus
    patience: Patience
    blocked: str = ""

    def serves(self, partition: str) -> bool:
        return partition == self.partition

    def admit(self, partition: str) -> Departure:
        return Departure(partition, self)

    def turn(self, entity: Departure, host: Host) -> Coroutine[Any, Any, None]:
        return turn(entity, self, host)


async def turn(queue: Departure, model: Departures, host: Host) -> None:
    """Send events until there are none, or the bus takes no more."""
    patience = model.patience
    if host.clock.now_ms() < patience.until_ms:
        host.look_at(queue.partition, patience.until_ms)
        host.forget(queue)
        return
    try:
        if not queue.held:
            if not await claim(queue, host):
                return
            farthest = host.clock.now_ms() + FARTHEST_MS
            patience.learn(queue.known.failures, min(queue.known.until_ms, farthest))
        while True:
            awaited = patience.until_ms > host.clock.now_ms()
            if not (awaited or host.draining) and await carry(queue, model, host):
                continue
            if await rest(queue, patience, host):
                return
    except Fenced:
        host.telemetry.emit("fenced", partition=queue.partition)
        host.forget(queue)
    except Exception as error:  # noqa: BLE001 - the store's or ours: it comes again, and is not to be tried each moment
        patience.failed(host.clock.now_ms(), host.home.owner)
        host.failed(queue, error, again_at=patience.until_ms)


async def carry(queue: Departure, model: Departures, host: Host) -> bool:
    """Send some events, or wait for more; false if nothing comes for a while, or the bus takes no more."""
    page = await host.home.store.query(queue.partition, prefix=ENTRY_PREFIX, limit=BUS_BATCH)
    queue.full = bool(page.items)
    if not page.items:
        model.patience.got_on()
        return await wait(queue, host)
    entries = [decode_entry(item.body) for item in page.items]
    said = await model.bus.put([announced(model.app, queue.known.origin, entry) for entry in entries])
    writes: list[Write] = []
    kept: list[NotTaken] = []
    for item, entry, verdict in zip(page.items, entries, said, strict=True):
        match verdict:
            case NotTaken():
                kept.append(verdict)
                continue
            case Unfit(reason):
                aside = Item(
                    partition=queue.partition,
                    sort=UNFIT_PREFIX + item.sort[len(ENTRY_PREFIX) :],
                    body=encode(SetAside(entry, reason)),
                )
                writes.append(Put(aside))
                host.telemetry.emit("event_unfit", partition=queue.partition, id=entry.id, error=reason)
            case None:
                pass
        writes.append(Delete(queue.partition, item.sort))
    await mark(writes, queue, host)
    if not kept:
        model.patience.got_on()
        return True
    host.telemetry.emit("bus_failed", partition=queue.partition, count=len(kept), error=kept[0].reason)
    model.patience.failed(host.clock.now_ms(), host.home.owner)
    return False


async def rest(queue: Departure, patience: Patience, host: Host) -> bool:
    """Let go of the queue until there is more, or until the bus is to be tried again."""
    waits_until = patience.until_ms if queue.full and patience.until_ms > host.clock.now_ms() else None
    said = BusHead(queue.known.origin, patience.failures, patience.until_ms)
    return await settle(queue, host, again_at=waits_until, body=encode(said))
