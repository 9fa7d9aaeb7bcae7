"""The relay: ``claim → read → deliver → mark → settle``. It delivers first and marks then: a crash between means that
an event is delivered again, and its consumer knows it (G5).
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET, Raw, Struct, UnsetType

from holdfast.actors.mailbox.post import ring
from holdfast.actors.record import Call, describe_partition, encode, key_of, partition_of
from holdfast.coordination.inbox import INBOX_PREFIX
from holdfast.coordination.lease import Claimed, Closed, Fenced, Held
from holdfast.errors import Refused, StoreUnavailable
from holdfast.items import ABSENT, Delete, Item, OwnerIs, Put, Update, Write, parts_of
from holdfast.kernel import hold
from holdfast.kernel.entity import Entity
from holdfast.kernel.host import nudge
from holdfast.kernel.identity import BY_CONTENT
from holdfast.messaging.bus_queue import BUS, enqueue
from holdfast.messaging.bus_queue import partition_of as bus_partition
from holdfast.messaging.outbox import (
    ENTRY_PREFIX,
    RELAYING,
    WAITING,
    Entry,
    consumer_name,
    decode_entry,
    stands_alone,
    subscribed,
    subscriptions,
)
from holdfast.persist import write_until_known
from holdfast.retry import Retry

if TYPE_CHECKING:
    from holdfast.kernel.host import Host
    from holdfast.kernel.model import Model
    from holdfast.kernel.runtime import Runtime

RELAY_BATCH: Final = 200
"""So many events are carried between two marks: a crash repeats at most these."""


MOST_TRIES: Final = 10

AGAIN: Final = Retry(initial="500ms", backoff=2, max_delay="8s")
"""How long a relay whose turn has failed holds back, more with each failure in a row. It never gives up."""


class Patience:
    """How often in a row the turns of an outbox have failed in this process, and until when it holds back."""

    __slots__ = ("_again", "failures", "until_ms")

    def __init__(self, again: Retry = AGAIN) -> None:
        self._again = again
        self.failures = 0
        self.until_ms = 0

    def failed(self, now: int, owner: str) -> None:
        """Hold back, longer than before; the processes of a home each by another while."""
        self.failures += 1
        self.until_ms = now + int(self._again.delay_seconds(self.failures, Random(f"{owner}/{self.failures}")) * 1000)

    def learn(self, failures: int, until_ms: int) -> None:
        """What another process has come to know."""
        self.failures, self.until_ms = failures, until_ms

    def got_on(self) -> None:
        """It works."""
        self.failures = self.until_ms = 0


class Relay(Entity):
    """One outbox that this process empties. ``full``: there may be events in it that the last look did not show."""

    __slots__ = ("full",)

    def __init__(self, partition: str, model: Model) -> None:
        super().__init__(partition, model)
        self.full = True

    @property
    def app(self) -> str:
        """Whose outbox it is."""
        return self.partition.partition("#")[2]

    @property
    def loaded(self) -> bool:
        return self.held  # there is nothing else to have in memory

    def interrupt(self) -> None:
        self.wake()


class Relays(Struct, frozen=True):
    """The programming model of outboxes. One per worker."""

    partition: str
    runtime: Runtime
    patience: Patience
    blocked: str = ""

    def serves(self, partition: str) -> bool:
        return partition == self.partition

    def admit(self, partition: str) -> Relay:
        return Relay(partition, self)

    def turn(self, entity: Relay, host: Host) -> Coroutine[Any, Any, None]:
        return turn(entity, self.runtime, self.patience, host)


class Message(Struct, frozen=True):
    """An event for one consumer, as a message to the actor that handles the events of its group."""

    partition: str
    sort: str
    call: Call


async def turn(relay: Relay, runtime: Runtime, patience: Patience, host: Host) -> None:
    """Carry events on until there are none."""
    if host.clock.now_ms() < patience.until_ms:  # somebody rang: they are not to be tried more often for it
        host.look_at(relay.partition, patience.until_ms)
        host.forget(relay)
        return
    try:
        if not relay.held and not await claim(relay, host):
            return
        while True:
            if not host.draining and await carry(relay, runtime, host):
                patience.got_on()
                continue
            if await settle(relay, host):
                patience.got_on()
                return
    except Fenced:
        host.telemetry.emit("fenced", partition=relay.partition)
        host.forget(relay)
    except Exception as error:  # noqa: BLE001 - the store's or ours: it comes again, and is not to be tried each moment
        patience.failed(host.clock.now_ms(), host.home.owner)
        host.failed(relay, error, again_at=patience.until_ms)


async def claim(relay: Relay, host: Host) -> bool:
    """Become the one process that empties this outbox."""
    relay.unread = False
    match await hold.claim(relay, host, claimable=(WAITING, RELAYING), running=RELAYING):
        case Claimed(item):
            missed = relay.unread
            relay.hold(item)
            relay.unread, relay.full = missed, True  # what is there now is looked at next
            return True
        case Held() | Closed():
            pass
    hold.forget(relay, host)
    return False


async def carry(relay: Relay, runtime: Runtime, host: Host) -> bool:
    """Carry some events on, or wait for more; false if nothing comes for a while."""
    entries = await host.home.store.query(relay.partition, prefix=ENTRY_PREFIX, limit=RELAY_BATCH)
    relay.full = bool(entries.items)
    if not entries.items:
        return await wait(relay, host)
    messages, leaving = await address(entries.items, relay, host)
    await deliver(messages, runtime, host)
    await send_off(leaving, relay, host)
    await mark([Delete(relay.partition, item.sort) for item in entries.items], relay, host)
    return True


async def address(items: Sequence[Item], relay: Relay, host: Host) -> tuple[list[Message], list[Item]]:
    """Who gets what: one message for every consumer of every event; and what is for the bus."""
    consumers: dict[str, list[str]] = {}
    for item in await subscriptions(host.home.store, relay.partition):
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
        naming=BY_CONTENT,
    )
    sort = INBOX_PREFIX + item.sort[len(ENTRY_PREFIX) :]
    return Message(partition_of(consumer, entry.group), sort, call)


async def send_off(items: Sequence[Item], relay: Relay, host: Host) -> None:
    """Put events into the queue of the bus, for whichever process has one."""
    if items:
        queue = bus_partition(relay.app)
        await enqueue(host.home.store, queue, items, host.clock.now_ms(), host.home.bounds)
        nudge(queue, host.home, host)


async def deliver(messages: Sequence[Message], runtime: Runtime, host: Host) -> None:
    """Put every message into its inbox; those of one receiver together, in their order (G6)."""
    by_receiver: dict[str, list[Message]] = {}
    for message in messages:
        by_receiver.setdefault(message.partition, []).append(message)
    deliveries = [_deliver_to(partition, each, runtime, host) for partition, each in by_receiver.items()]
    for failed in await asyncio.gather(*deliveries, return_exceptions=True):
        if failed is not None:
            raise failed


async def _deliver_to(partition: str, messages: list[Message], runtime: Runtime, host: Host) -> None:
    puts = [Put(Item(partition=partition, sort=each.sort, body=encode(each.call)), ABSENT) for each in messages]
    for part in parts_of(puts, host.home.bounds):
        await _put(partition, list(part), runtime, host)


async def _put(partition: str, puts: list[Write], runtime: Runtime, host: Host) -> None:
    # Of an event that stands alone nobody has heard yet, most of the time.
    head = None if stands_alone(key_of(partition)) else await host.home.store.get(partition)
    for _ in range(MOST_TRIES + len(puts)):
        try:
            await write_until_known(host.home.store, *puts, ring(partition, head, runtime), ours=lambda _there: False)
            break
        except Refused as refused:
            if refused.index == len(puts):
                head = refused.item
                continue
            del puts[refused.index]  # it was delivered before, and is still there
            if not puts:
                break
    else:
        raise StoreUnavailable(f"{describe_partition(partition)} changed all the time: nothing was delivered to it")
    nudge(partition, host.home, host)


async def mark(writes: Sequence[Write], relay: Relay, host: Host) -> None:
    """Note what has become of events, as long as they are ours to carry."""
    still_ours = Update(partition=relay.partition, when=OwnerIs(host.home.owner, relay.epoch))
    try:
        for part in parts_of(writes, host.home.bounds):
            await write_until_known(host.home.store, still_ours, *part, ours=lambda _there: False)
    except Refused as refused:
        raise Fenced(f"{relay.partition}: {refused}") from None


async def wait(relay: Relay, host: Host) -> bool:
    """Wait for more; false if nothing comes for a while."""
    if relay.lost:
        raise Fenced(f"{relay.partition}: its lease could not be renewed")
    if relay.unread:
        relay.unread = False
        head = await host.home.store.get(relay.partition)
        if head is None or head.epoch != relay.epoch:
            raise Fenced(f"{relay.partition} has a newer owner")
        relay.revision = head.revision
        return True
    return await relay.woken(host.limits.linger_seconds)


async def settle(relay: Relay, host: Host, *, again_at: int | None = None, body: bytes | UnsetType = UNSET) -> bool:
    """Let go of the outbox, until a time (milliseconds) if there is one. Refused if somebody published meanwhile: then
    there is more to do. ``body`` is what the head is to hold.
    """
    now = host.clock.now_ms()
    due_at = again_at if again_at is not None else now if relay.full else None
    update = Update(
        partition=relay.partition,
        when=hold.unchanged(relay, host),
        status=WAITING,
        owner=None,
        lease_until=None,
        due_at=due_at,
        body=body,
    )
    if (there := await hold.release(relay, update, host=host)) is not None:
        relay.revision, relay.full = there.revision, True
        return False
    host.suspended(relay, due_at)
    return True
