"""The queue of the bus: events that are to leave the home, until the bus has taken them.

To the relay the bus is one more consumer, and this is its inbox: so a bus that is down delays nothing but what is for
it. One partition per app: a head, which whoever empties it claims; entries as in the outbox, ``o#<stamp>#<sender>``;
and ``x#<stamp>#<sender>`` for those that the bus will never take, until somebody looks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Raw, Struct

from holdfast.actors.record import describe_partition
from holdfast.codec.stored import stored
from holdfast.errors import Refused, StoreUnavailable
from holdfast.items import ABSENT, EXISTS, Bounds, Delete, Item, Put, Update, Write, parts_of
from holdfast.messaging.outbox import ENTRY_PREFIX, WAITING, Entry, stands_alone
from holdfast.paging import items
from holdfast.persist import write_for_caller, write_until_known
from holdfast.ports import BusEvent, Store

PARTITION_PREFIX: Final = "bus#"
UNROUTABLE_PREFIX: Final = "x#"

BUS: Final = "(bus)"
"""What the bus is called among the consumers of an event. None of them could have this name."""

SOURCE_PREFIX: Final = "holdfast."
"""What the source of an event begins with on a bus; the name of its app follows."""

PAGE: Final = 100


class BusHead(Struct, frozen=True, omit_defaults=True):
    """The body of the head. ``origin`` tells this app in this home from every other, for ever. The bus has taken
    nothing for so many times in a row, and is left alone until then (milliseconds).
    """

    origin: str
    failures: int = 0
    until_ms: int = 0


class Unroutable(Struct, frozen=True):
    """An event that the bus will never take as it is, and why."""

    entry: Entry
    reason: str


class Announced(Struct, frozen=True, omit_defaults=True, kw_only=True, tag_field="holdfast", tag="event"):
    """What an event says on a bus. ``origin`` and ``id`` together are its own for ever; ``sequence`` is its place among
    those of the actor ``sender``, if an actor published it.
    """

    origin: str
    app: str
    event: str
    id: str
    data: Raw
    published_at: int
    sender: str = ""
    sequence: int = 0


encode: Final = msgspec.json.Encoder().encode
decode_head: Final = stored(BusHead, "the head of a bus")
announced_of: Final = msgspec.json.Decoder(Announced).decode
decode_unroutable: Final = stored(Unroutable, "a message that was set aside")


def partition_of(app: str) -> str:
    """The partition of an app's queue for the bus."""
    return PARTITION_PREFIX + app


def head(partition: str, origin: str) -> Put:
    """The write that makes a queue, if there is none."""
    return Put(Item(partition=partition, status=WAITING, body=encode(BusHead(origin))), ABSENT)


def announced(app: str, origin: str, entry: Entry) -> BusEvent:
    """An event as it goes to a bus."""
    detail = Announced(
        origin=origin,
        app=app,
        event=entry.event,
        id=entry.id,
        data=entry.data,
        published_at=entry.published_at,
        sender="" if stands_alone(entry.group) else describe_partition(entry.group),
        sequence=entry.place,
    )
    return BusEvent(SOURCE_PREFIX + app, entry.event, encode(detail))


async def enqueue(store: Store, partition: str, entries: Sequence[Item], now: int, bounds: Bounds | None) -> None:
    """Put entries of the outbox into the queue, in their order; those that are there already stay as they are."""
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
                    "the queue of the bus is gone; the next worker that starts makes it"
                ) from refused
            del puts[refused.index]
        else:
            return


async def unroutable(store: Store, partition: str) -> list[tuple[str, Unroutable]]:
    """What the bus will never take, in its order, with its place."""
    found = items(store, partition, prefix=UNROUTABLE_PREFIX, limit=PAGE)
    return [(item.sort, decode_unroutable(item.body)) async for item in found]


async def put_back(store: Store, partition: str, sort: str, refused: Unroutable, now: int) -> None:
    """Have an event that was set aside sent once more."""
    again = Item(partition=partition, sort=ENTRY_PREFIX + sort[len(UNROUTABLE_PREFIX) :], body=encode(refused.entry))
    writes = (Delete(partition, sort, EXISTS), Put(again), _make_due(partition, now))
    try:
        await write_for_caller(store, *writes, ours=lambda _there: False)
    except Refused as error:
        if error.index != 0:  # else somebody has put it back already, perhaps an earlier attempt of our own
            raise
