"""Parcels: messages that one process has sent to one head at the same time, in one item.

A parcel is written once, and read with the messages that are items of their own: its sort key is that of its first
message, behind ``i##`` or ``o##``, so parcels come before these in a page. None of its messages is before the first.
An owner that takes some of them writes the rest back, and one that takes the last one deletes it.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from holdfast.backends.aws.layout import Attributes, decode
from holdfast.errors import StoreUnusable
from holdfast.items import ABSENT, Delete, Item, Put, RevisionIs, Update, Write

MARK: Final = "#"
"""Behind the prefix of messages: the keys of these go on with a digit, or a letter."""

LAST: Final = "#\N{DELETE}"
"""Behind the prefix of messages, this is after every parcel and before every other message."""

Content = list[tuple[str, bytes]]
"""The sort keys and bodies of messages, in their order."""

_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(Content).decode


class Parcel(Struct, frozen=True):
    """What is in a parcel: the bodies of messages by their sort keys. ``revision`` counts its changes."""

    sort: str
    revision: int
    bodies: Mapping[str, bytes]

    def after_taking(self, sorts: Container[str]) -> Parcel:
        """The parcel when messages were taken out."""
        rest = {sort: body for sort, body in self.bodies.items() if sort not in sorts}
        return Parcel(self.sort, self.revision + 1, rest)

    def without(self, partition: str, sorts: Container[str]) -> Write:
        """The write that takes messages out, as long as no other process has."""
        rest = [(sort, body) for sort, body in self.bodies.items() if sort not in sorts]
        when = RevisionIs(self.revision)
        if not rest:
            return Delete(partition, self.sort, when)
        return Update(partition=partition, sort=self.sort, when=when, body=_encode(rest), add_revision=1)


def is_parcel(sort: str) -> bool:
    """Whether an item is a parcel."""
    return sort[1:3] == f"#{MARK}"


def sort_of(first: str) -> str:
    """The sort key of the parcel whose first message has this one."""
    return f"{first[:2]}{MARK}{first[2:]}"


def first_of(sort: str) -> str:
    """The sort key of the first message that was put into a parcel."""
    return sort[:2] + sort[3:]


def parcel_of(puts: Sequence[Put]) -> Put:
    """The write of a new parcel with these messages, which are for one head and have one prefix."""
    content = sorted((put.item.sort, put.item.body) for put in puts)
    return Put(Item(puts[0].item.partition, sort_of(content[0][0]), revision=1, body=_encode(content)), ABSENT)


def opened(wire: Attributes) -> Parcel:
    """A parcel as it is stored. Raises ``StoreUnusable`` if it was damaged."""
    item = decode(wire)
    try:
        content = _decode(item.body)
    except msgspec.DecodeError as error:
        raise StoreUnusable(
            f"the messages in {item.partition!r} / {item.sort!r} cannot be read ({error}): restore the table from a "
            "backup"
        ) from error
    return Parcel(item.sort, item.revision, dict(content))


def messages_in(partition: str, parcel: Parcel) -> list[Item]:
    """The messages of a parcel."""
    return [Item(partition, sort, body=body) for sort, body in parcel.bodies.items()]
