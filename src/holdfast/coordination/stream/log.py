"""The log: the events of all streams of a collection in one order, without gaps (SQLite and memory).

A number is assigned in the write that appends its event, by the store's one writer. So number 8 is never seen before
number 7, and a reader that has read up to a number has read everything before it: no reader skips an event that is
not committed yet. A store with many writers has no such order; there each stream has its own order only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from holdfast.codec.stored import stored
from holdfast.errors import ConfigurationError
from holdfast.items import ABSENT, HEAD, Item, Put, RevisionIs, Update, Write
from holdfast.ports import Home, Page, Sequencer, Store

PARTITION_PREFIX: Final = "log#"
POSITION_PREFIX: Final = "p#"
POSITION_DIGITS: Final = 16


class Pointer(Struct, frozen=True, array_like=True):
    """The place of the event at a position."""

    key: tuple[str, ...]
    version: int


_encode: Final = msgspec.json.Encoder().encode
decode_pointer: Final = stored(Pointer, "the head of a stream")

Numbered = Callable[[int], tuple[Sequence[Write], Sequence[Pointer]]]
"""Makes writes and the events that they append, given the position before the first of them."""


def partition_of(collection: str) -> str:
    """The partition of a collection's log."""
    return PARTITION_PREFIX + collection


def position_sort(position: int) -> str:
    """The sort key of a position."""
    return f"{POSITION_PREFIX}{position:0{POSITION_DIGITS}d}"


def position_in(entry: Item) -> int:
    """The position of an entry of the log."""
    return int(entry.sort[len(POSITION_PREFIX) :])


def sequencer_of(home: Home) -> Sequencer:
    """The home's sequencer. Raises ``ConfigurationError`` if it has none."""
    if home.sequencer is None:
        raise ConfigurationError(
            f"{home.url} has no order of all events: its writers do not see each other. Declare the streams without "
            "ordered=True, and read them one by one"
        )
    return home.sequencer


async def write_numbered(home: Home, collection: str, numbered: Numbered) -> None:
    """Apply numbered writes all or nothing, with their entries in the log. Raises as ``Store.write``."""
    partition = partition_of(collection)

    def decide(head: Item | None) -> Sequence[Write]:
        last = 0 if head is None else head.revision
        writes, pointers = numbered(last)
        entries = [
            Put(Item(partition=partition, sort=position_sort(last + n), body=_encode(pointer)), ABSENT)
            for n, pointer in enumerate(pointers, start=1)
        ]
        counted: Write
        if head is None:
            counted = Put(Item(partition=partition, revision=len(pointers)), ABSENT)
        else:
            counted = Update(partition=partition, when=RevisionIs(last), add_revision=len(pointers))
        return (*writes, *entries, counted)

    await sequencer_of(home).write_after(partition, HEAD, decide)


async def last_position(store: Store, collection: str) -> int:
    """How many events there are."""
    head = await store.get(partition_of(collection))
    return 0 if head is None else head.revision


async def pointers(store: Store, collection: str, after: int, limit: int) -> Page:
    """Entries of the log behind a position, in order."""
    return await store.query(partition_of(collection), prefix=POSITION_PREFIX, after=position_sort(after), limit=limit)
