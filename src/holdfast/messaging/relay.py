"""The relay: it delivers events from the outbox to the inboxes of their consumers, then deletes them (G5)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Raw, Struct

from holdfast.actors.record import Call, encode, key_of, partition_of
from holdfast.coordination.arrived import arrived
from holdfast.coordination.inbox import INBOX_PREFIX
from holdfast.deferred import LazyModule
from holdfast.items import ABSENT, Delete, Item, Put
from holdfast.kernel.identity import BY_CONTENT
from holdfast.kernel.outcomes import AGAIN, Idle, Left, Next
from holdfast.kernel.wake import wake
from holdfast.messaging.bus_queue import BUS, enqueue
from holdfast.messaging.bus_queue import partition_of as bus_partition
from holdfast.messaging.outbox import (
    ENTRY_PREFIX,
    Entry,
    consumer_name,
    decode_entry,
    stands_alone,
    subscribed,
    subscriptions,
)
from holdfast.messaging.outbox import partition_of as outbox_of
from holdfast.messaging.queue_turns import Relay, Relaying, mark

if TYPE_CHECKING:
    from holdfast.actors.mailbox import delivery
    from holdfast.actors.turn import born
    from holdfast.kernel.host import Host
    from holdfast.kernel.runtime import Runtime
else:  # an outbox without events delivers nothing
    delivery, born = (
        LazyModule("holdfast.actors.mailbox.delivery", globals()),
        LazyModule("holdfast.actors.turn.born", globals()),
    )

RELAY_BATCH: Final = 200
"""The most events that are delivered before they are deleted. A crash repeats at most these."""


class Relays(Relaying, frozen=True, kw_only=True):
    """The programming model of outboxes: events go to the consumers of this home and into the queue of the bus."""

    runtime: Runtime

    def serves(self, partition: str) -> bool:
        """See ``Model``: the outbox, and its shards."""
        return partition == self.partition or partition.startswith(f"{self.partition}#")

    def admit(self, partition: str) -> Relay:
        """See ``Model``."""
        return Relay(partition, self)

    async def run(self, entity: Relay, host: Host, /) -> Next:
        """See ``Stages``."""
        if host.draining:
            return await self.rest(entity, host)
        entries = await arrived(host.home, entity.partition, ENTRY_PREFIX, RELAY_BATCH)
        entity.full = bool(entries)
        if not entries:
            return Idle(None, host.limits.linger_seconds)
        messages, leaving = await address(entries, entity, host)
        await deliver(messages, self.runtime, host)
        await send_off(leaving, entity, host)
        await mark([Delete(entity.partition, item.sort) for item in entries], entity, host)
        self.patience.succeeded()
        return AGAIN

    def left(self, entity: Relay, left: Left, host: Host, /) -> None:
        """See ``Stages``."""
        self.patience.succeeded()
        super().left(entity, left, host)


class Message(Struct, frozen=True):
    """An event for one consumer: a message to the actor that handles the events of its group."""

    partition: str
    sort: str
    call: Call


async def address(items: Sequence[Item], relay: Relay, host: Host) -> tuple[list[Message], list[Item]]:
    """One message for every consumer of every event, and the events that go to the bus."""
    consumers: dict[str, list[str]] = {}
    for item in await subscriptions(host.home.store, outbox_of(relay.app)):
        event, consumer = subscribed(item)
        consumers.setdefault(event, []).append(consumer)
    bus = consumer_name(relay.app, BUS)
    messages: list[Message] = []
    leaving: list[Item] = []
    for item in items:
        entry = decode_entry(item.body)
        wanted = consumers.get(entry.event, [])
        if not wanted:
            host.telemetry.emit("event_unwanted", partition=relay.partition, name=entry.event)
        messages += [_message(item, entry, consumer) for consumer in wanted if consumer != bus]
        if bus in wanted and not entry.foreign:
            leaving.append(item)
    return messages, leaving


def _message(item: Item, entry: Entry, consumer: str) -> Message:
    args = Raw(encode({"place": entry.place, "id": entry.id, "event": entry.data}))
    call = Call(
        id=entry.id,
        method="handle",
        args=args,
        known=not entry.place,
        named=True,
        sent_at=entry.published_at,
        trace=entry.trace,
        naming=BY_CONTENT,
    )
    sort = INBOX_PREFIX + item.sort[len(ENTRY_PREFIX) :]
    return Message(partition_of(consumer, entry.group), sort, call)


async def send_off(items: Sequence[Item], relay: Relay, host: Host) -> None:
    """Put events into the queue of the bus, for a process that has a bus."""
    if items:
        queue = bus_partition(relay.app)
        await enqueue(host.home.store, queue, items, host.clock.now_ms(), host.home.bounds)
        wake(queue, host.home, host)


async def deliver(messages: Sequence[Message], runtime: Runtime, host: Host) -> None:
    """Put every message into its inbox. Messages of one receiver are written together, in their order (G6)."""
    by_receiver: dict[str, list[Message]] = {}
    for message in messages:
        by_receiver.setdefault(message.partition, []).append(message)
    deliveries = [_deliver_to(partition, each, runtime, host) for partition, each in by_receiver.items()]
    for failed in await asyncio.gather(*deliveries, return_exceptions=True):
        if failed is not None:
            raise failed


async def _deliver_to(partition: str, messages: list[Message], runtime: Runtime, host: Host) -> None:
    puts = [Put(Item(partition=partition, sort=each.sort, body=encode(each.call)), ABSENT) for each in messages]
    head = None
    if not stands_alone(key_of(partition)):
        head = await host.home.store.get(partition)
    elif await born.begin_with(puts, partition, host):  # the receiver of an event that stands alone is usually new
        return
    await delivery.deliver(partition, puts, head, runtime, whole=any(each.call.known for each in messages))
