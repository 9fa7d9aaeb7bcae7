"""The outbox: where events wait, in the write of whatever published them, until the relay has carried them on (G5).

One partition per app: a head, which the relay claims; entries ``o#<stamp>#<sender>``, in the order of each sender;
and subscriptions ``s#<event>#<consumer>``, which say where an event goes, whichever process carries it.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Raw, Struct

from holdfast.items import ABSENT, EXISTS, Item, Put, Update, Write

PARTITION_PREFIX: Final = "out#"
ENTRY_PREFIX: Final = "o#"
SUBSCRIPTION_PREFIX: Final = "s#"

WAITING: Final = "SUSPENDED"
RELAYING: Final = "RUNNING"


class Entry(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """An event on its way. ``group``: those of one group are handled in their order, by ``place`` if it is not 0;
    others stand alone, and a second one of the same group is a repeat.
    """

    event: str
    id: str
    group: str
    data: Raw
    place: int = 0
    published_at: int


encode_entry: Final = msgspec.json.Encoder().encode
decode_entry: Final = msgspec.json.Decoder(Entry).decode


def partition_of(app: str) -> str:
    """The partition of an app's outbox."""
    return PARTITION_PREFIX + app


def entry_writes(partition: str, stamp: int, sender: str, entry: Entry, now: int) -> tuple[Write, Write]:
    """The writes that put an event into the outbox and have the relay look."""
    sort = f"{ENTRY_PREFIX}{stamp:020d}#{sender}"
    put = Put(Item(partition=partition, sort=sort, body=encode_entry(entry)), ABSENT)
    return put, Update(partition=partition, when=EXISTS, due_at=now, add_revision=1)


def head(partition: str) -> Put:
    """The write that makes an outbox, if there is none."""
    return Put(Item(partition=partition, status=WAITING), ABSENT)


def subscription(partition: str, event: str, consumer: str) -> Item:
    """The item that says that a consumer wants an event."""
    return Item(partition=partition, sort=f"{SUBSCRIPTION_PREFIX}{event}#{consumer}")


def subscribed(item: Item) -> tuple[str, str]:
    """The event and the consumer of a subscription."""
    event, _, consumer = item.sort[len(SUBSCRIPTION_PREFIX) :].partition("#")
    return event, consumer
