"""The outbox: an event is written to it in the transaction that publishes it, and waits there for the relay (G5).

Each app has one partition. It holds a head, which the relay claims; entries ``o#<stamp>#<sender>``, in the order of
each sender; and subscriptions ``s#<event>#<consumer>``, by which any process can deliver an event.

Where writes are billed, one head limits how many events an app can publish per second. There the entries are in shards,
``out#<app>#<n>``, each with a head of its own. Those of a group are in one shard, in their order.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Raw, Struct

from holdfast import ids, keys
from holdfast.actors.record import HIDDEN_MARK, actor_of
from holdfast.actors.record import PARTITION_PREFIX as ACTOR_PREFIX
from holdfast.codec import jsontext
from holdfast.codec.stored import stored
from holdfast.errors import InvalidInput
from holdfast.items import ABSENT, EXISTS, Item, Put, Update
from holdfast.paging import items
from holdfast.ports import Home, Store

PARTITION_PREFIX: Final = keys.OUTBOXES
ENTRY_PREFIX: Final = "o#"
SUBSCRIPTION_PREFIX: Final = "s#"

SHARDS: Final = 16
"""A head takes 1,000 write units a second: these take some 5,000 events. A change needs a move of what waits."""

WAITING: Final = "SUSPENDED"
RELAYING: Final = "RUNNING"


class Entry(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """An event on its way. Events of one ``group`` are handled in their order, by ``place``. An event without a place
    stands alone: its group is its id, and a second event of the same group is a repeat. A ``foreign`` event came from
    a bus, and is not published to one. ``trace`` is the context of what published it.
    """

    event: str
    id: str
    group: str
    data: Raw
    place: int = 0
    published_at: int
    foreign: bool = False
    trace: str = ""


encode_entry: Final = msgspec.json.Encoder().encode
decode_entry: Final = stored(Entry, "an event of an outbox")


def partition_of(app: str) -> str:
    """The partition of an app's outbox."""
    return PARTITION_PREFIX + app


def shard_of(app: str, group: str) -> str:
    """The shard of an app's outbox that holds the events of a group."""
    return f"{partition_of(app)}#{int(ids.fingerprint(group.encode()), 16) % SHARDS}"


def part_for(app: str, group: str, home: Home) -> str:
    """The partition of an app's outbox into which events of a group are published, unless they join a transaction."""
    return shard_of(app, group) if home.writes_are_paid else partition_of(app)


def all_parts(app: str) -> tuple[str, ...]:
    """The partitions of an app's outbox: the one with the subscriptions, and its shards."""
    return partition_of(app), *(f"{partition_of(app)}#{number}" for number in range(SHARDS))


def app_of(partition: str) -> str:
    """The app of a queue of events, or of a shard of it. No app has a ``#`` in its name."""
    return partition.split("#")[1]


def is_shard(partition: str) -> bool:
    """Whether this is a shard of an outbox."""
    return partition.count("#") > 1


def consumer_name(app: str, consumer: str) -> str:
    """The name of a consumer's hidden actors. It holds the app: apps of a home may have consumers of one name."""
    return f"{HIDDEN_MARK}{app}{HIDDEN_MARK}{consumer}"


def schedules_name(app: str) -> str:
    """The name of the hidden actors of an app's schedules. No consumer has an empty name."""
    return f"{HIDDEN_MARK}{app}{HIDDEN_MARK}"


def is_hidden(partition: str) -> bool:
    """Whether an actor is a hidden one, which handles events or ticks."""
    return actor_of(partition).startswith(HIDDEN_MARK)


def stands_alone(group: str) -> bool:
    """Whether a group is the id of a single event. Otherwise it is the partition of the actor that published it."""
    return not group.startswith(ACTOR_PREFIX)


def check_id(id: str) -> str:
    """Return the id if it can be a key in the store: bounded, printable, and not the group of an actor. Raises
    ``InvalidInput`` otherwise.
    """
    keys.check_id("an event's id", id)
    if not stands_alone(id):
        raise InvalidInput(f"an event's id must not begin with {ACTOR_PREFIX!r}, got {id!r}")
    return id


def nests_too_deep(data: bytes) -> bool:
    """Whether an event nests too deep for its consumers, who receive it as an argument: one level deeper."""
    return jsontext.nests_too_deep(b"[%b]" % data)


def entry_sort(stamp: int, sender: str) -> str:
    """The place of an event in the outbox: ``stamp`` grows with every event of one sender."""
    return f"{ENTRY_PREFIX}{stamp:020d}#{sender}"


def entry_writes(partition: str, stamp: int, sender: str, entry: Entry, now: int) -> tuple[Put, Update]:
    """The writes that put an event into the outbox and make the relay due."""
    put = Put(Item(partition=partition, sort=entry_sort(stamp, sender), body=encode_entry(entry)), ABSENT)
    return put, Update(partition=partition, when=EXISTS, due_at=now, add_revision=1)


def head(partition: str) -> Put:
    """The write that creates an outbox, unless it exists."""
    return Put(Item(partition=partition, status=WAITING), ABSENT)


def subscription(partition: str, event: str, consumer: str) -> Item:
    """The item that subscribes a consumer to an event."""
    return Item(partition=partition, sort=f"{SUBSCRIPTION_PREFIX}{event}#{consumer}")


def subscribed(item: Item) -> tuple[str, str]:
    """The event and the consumer of a subscription."""
    event, _, consumer = item.sort[len(SUBSCRIPTION_PREFIX) :].partition("#")
    return event, consumer


async def subscriptions(store: Store, partition: str) -> list[Item]:
    """All subscriptions of an outbox."""
    return [item async for item in items(store, partition, prefix=SUBSCRIPTION_PREFIX)]
