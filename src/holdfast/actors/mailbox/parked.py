"""Parked messages: each lies in its actor, and a note of it in one register, where all of a home are found at once.

A message and its note are written together and removed together, so the register is never wrong; and it costs nothing
as long as nothing is parked.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from holdfast import ids
from holdfast.actors.record import (
    PARKED_PREFIX,
    REPLY_PREFIX,
    Call,
    FailureRecord,
    Parked,
    Reply,
    encode,
    fingerprint_of,
    timer_of,
)
from holdfast.codec.stored import stored
from holdfast.items import EXISTS, Delete, Item, Put, StatusIn, Write

if TYPE_CHECKING:
    from holdfast.ports import Store

REGISTER: Final = "parked"
"""The partition of the notes, in the order in which the messages were sent."""

PARKED: Final = "PARKED"
"""The status of a parked message, and of the mark that its request has in place of a reply."""


class Note(Struct, frozen=True):
    """Where a parked message lies."""

    partition: str
    place: str


decode_note: Final = stored(Note, "the note of a parked call")


def note_id(partition: str, place: str, call: Call) -> str:
    """What names a parked message in its home. It follows from the message: one that is parked again has one note."""
    return f"{call.sent_at:012x}{ids.fingerprint(f'{partition} {place}'.encode())}"


def parking(partition: str, at: str, call: Call, failure: FailureRecord, now: int) -> tuple[Write, ...]:
    """The writes that park a message; ``at`` is its place in the inbox, or its timer's."""
    sort = at if timer_of(at) is None else f"{at}:{call.id}"
    place = PARKED_PREFIX + sort
    message = Item(partition, place, status=PARKED, body=encode(Parked(call, failure, now, sort)))
    note = Item(REGISTER, note_id(partition, place, call), body=encode(Note(partition, place)))
    return Put(message), Put(note), *_marking(partition, call)


def mark_of(call: Call) -> Reply:
    """What a sender that repeats a parked request finds in place of a reply."""
    return Reply(fingerprint_of(call), parked=True)


def _marking(partition: str, call: Call) -> tuple[Write, ...]:
    """The write that makes a parked request known by its id: sent again, it would be applied here and once more when it
    is put back.
    """
    if not call.known:
        return ()
    return (Put(Item(partition, REPLY_PREFIX + call.id, status=PARKED, body=encode(mark_of(call)))),)


async def lies_parked(store: Store, partition: str, sort: str) -> bool:
    """Whether the message of this place in the inbox lies parked."""
    return await store.get(partition, PARKED_PREFIX + sort) is not None


async def removing(item: Item, parked: Parked, store: Store) -> tuple[Write, ...]:
    """The writes that take away a parked message; refused if it is there no more."""
    call, note = parked.call, note_id(item.partition, item.sort, parked.call)
    marked = await store.get(item.partition, REPLY_PREFIX + call.id) if call.known else None
    unmark = (
        () if marked is None or marked.status != PARKED else (Delete(item.partition, marked.sort, StatusIn((PARKED,))),)
    )
    return Delete(item.partition, item.sort, EXISTS), Delete(REGISTER, note), *unmark


async def noted(store: Store, notes: Iterable[Item]) -> AsyncIterator[tuple[Item, Item]]:
    """Each note with the message that it names, if that is still there."""
    for note in notes:
        found = decode_note(note.body)
        item = await store.get(found.partition, found.place)
        if item is not None:
            yield note, item
