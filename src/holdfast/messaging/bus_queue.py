"""The queue of the bus: events that go to another system, until the bus has accepted them.

To the relay the bus is one more consumer, and this is its inbox: a bus that is down delays only delivery to the bus.
Each app has one partition. It holds a head, which the process that empties the queue claims; entries as in the outbox,
``o#<stamp>#<sender>``; and ``x#<stamp>#<sender>`` for events that the bus refused for good, until an operator resends
or discards them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from holdfast.actors.record import describe_partition
from holdfast.bus import BusEvent
from holdfast.codec.stored import stored
from holdfast.errors import Refused, StoreUnavailable
from holdfast.items import ABSENT, EXISTS, Bounds, Delete, Item, Put, Update, Write, parts_of
from holdfast.messaging.outbox import ENTRY_PREFIX, WAITING, Entry, stands_alone
from holdfast.messaging.outbox import PARTITION_PREFIX as OUTBOX_PREFIX
from holdfast.paging import items
from holdfast.persist import write_for_caller, write_until_known
from holdfast.ports import Store
from holdfast.tracing import checked

PARTITION_PREFIX: Final = "bus#"

QUEUES: Final = (OUTBOX_PREFIX, PARTITION_PREFIX)
"""The queues of events. What an actor has sent is named like an event, and is delivered by its owner."""

UNROUTABLE_PREFIX: Final = "x#"

BUS: Final = "(bus)"
"""The name of the bus among the consumers of an event. No consumer can be called so."""

SOURCE_PREFIX: Final = "holdfast."
"""The beginning of an event's source on a bus. The name of its app follows."""

PAGE: Final = 100


class BusHead(Struct, frozen=True, omit_defaults=True):
    """The body of the head. ``origin`` identifies this app in this home, and never changes.

    ``failures`` is the number of attempts in a row that the bus has failed, ``reason`` what the last of them was
    answered. Nothing is sent to it before ``until_ms``.
    """

    origin: str
    failures: int = 0
    until_ms: int = 0
    reason: str = ""


class Unroutable(Struct, frozen=True):
    """An event that the bus refused for good, and the reason."""

    entry: Entry
    reason: str


class Announced(Struct, frozen=True, omit_defaults=True, kw_only=True, tag_field="holdfast", tag="event"):
    """The detail of an event on a bus. ``origin`` and ``id`` together identify it. If an actor published the event,
    ``sender`` is that actor, and ``sequence`` the event's place among those of the actor. ``traceparent``
    is the context of what published it, and no part of its identity: what is damaged there is ignored.
    """

    origin: str
    app: str
    event: str
    id: str
    data: Raw
    published_at: int
    sender: str = ""
    sequence: int = 0
    traceparent: Any = ""


encode: Final = msgspec.json.Encoder().encode
decode_head: Final = stored(BusHead, "the head of a bus")
announced_of: Final = msgspec.json.Decoder(Announced).decode
decode_unroutable: Final = stored(Unroutable, "an event that the bus refused")


def partition_of(app: str) -> str:
    """The partition of an app's queue for the bus."""
    return PARTITION_PREFIX + app


def head(partition: str, origin: str) -> Put:
    """The write that creates a queue, unless it exists."""
    return Put(Item(partition=partition, status=WAITING, body=encode(BusHead(origin))), ABSENT)


def announced(app: str, origin: str, entry: Entry) -> BusEvent:
    """An event as it is sent to a bus."""
    detail = Announced(
        origin=origin,
        app=app,
        event=entry.event,
        id=entry.id,
        data=entry.data,
        published_at=entry.published_at,
        sender="" if stands_alone(entry.group) else describe_partition(entry.group),
        sequence=entry.place,
        traceparent=checked(entry.trace),
    )
    return BusEvent(SOURCE_PREFIX + app, entry.event, encode(detail))


async def enqueue(store: Store, partition: str, entries: Sequence[Item], now: int, bounds: Bounds | None) -> None:
    """Put entries of the outbox into the queue, in their order. Entries that are already there stay as they are.

    Raises ``StoreUnavailable`` if the queue does not exist.
    """
    puts = [Put(Item(partition=partition, sort=each.sort, body=each.body), ABSENT) for each in entries]
    for part in parts_of(puts, bounds):
        await _put(store, list(part), _make_due(partition, now))


def _make_due(partition: str, now: int) -> Update:
    return Update(partition=partition, when=EXISTS, due_at=now, add_revision=1)


async def _put(store: Store, puts: list[Write], due: Write) -> None:
    while puts:
        try:
            await write_until_known(store, *puts, due, ours=lambda _there: False)
        except Refused as refused:
            if refused.index == len(puts):
                raise StoreUnavailable(
                    "the queue of the bus is gone; the next worker that starts creates it"
                ) from refused
            del puts[refused.index]
        else:
            return


async def unroutable(store: Store, partition: str) -> list[tuple[str, Unroutable]]:
    """The events that the bus refused for good, in their order, each with its sort key."""
    found = items(store, partition, prefix=UNROUTABLE_PREFIX, limit=PAGE)
    return [(item.sort, decode_unroutable(item.body)) async for item in found]


async def put_back(store: Store, partition: str, sort: str, refused: Unroutable, now: int) -> None:
    """Return an event that the bus refused to the queue, so that it is sent again."""
    again = Item(partition=partition, sort=ENTRY_PREFIX + sort[len(UNROUTABLE_PREFIX) :], body=encode(refused.entry))
    writes = (Delete(partition, sort, EXISTS), Put(again), _make_due(partition, now))
    try:
        await write_for_caller(store, *writes, ours=lambda _there: False)
    except Refused as error:
        if error.index != 0:  # else it is already back, perhaps by an earlier attempt of our own
            raise
