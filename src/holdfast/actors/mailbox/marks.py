"""Marks: how an actor recognises a numbered message that is delivered again, however late (G5).

An actor's departures are delivered in their order, and each until that is confirmed. So of one sender it is enough to
remember the stamp of the last message that was applied. A process that was stopped may deliver an old message at any
time, so a mark is never forgotten. The newest marks are in the head. Older ones move together into an item of their
own, ``m#<greatest stamp>#<its sender>``: a message with a greater stamp than all of them needs no look there.

A message that waits for its time is applied out of order. It is noted in the marks when it arrives, and moves to
another place in the inbox (``TAKEN``), where no sender puts anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from holdfast.codec.stored import stored
from holdfast.coordination.inbox import sender_of, stamp_of
from holdfast.items import Item, Put, Write
from holdfast.paging import items

if TYPE_CHECKING:
    from holdfast.actors.record import ActorRecord
    from holdfast.ports import Store

MARK_PREFIX: Final = "m#"

MOST_MARKS: Final = 16
"""How many marks the head holds: some 600 bytes."""

MOVED_TOGETHER: Final = 12
"""How many move out of the head at once, when it holds too many."""

encode_marks: Final = msgspec.json.Encoder().encode
decode_marks: Final = stored(dict[str, int], "the marks of an actor")


def with_mark(record: ActorRecord, partition: str, sort: str) -> tuple[ActorRecord, tuple[Write, ...]]:
    """The record when the numbered message at this place was applied, and the writes that go with it."""
    sender, stamp = sender_of(sort), int(stamp_of(sort))
    if record.marks.get(sender, 0) >= stamp:
        return record, ()
    marks = record.marks | {sender: stamp}
    if len(marks) <= MOST_MARKS:
        return replace(record, marks=marks), ()
    oldest = sorted(marks, key=lambda each: (marks[each], each))[:MOVED_TOGETHER]
    moved = {each: marks[each] for each in oldest}
    kept = {each: mark for each, mark in marks.items() if each not in moved}
    last = oldest[-1]
    item = Item(partition, f"{MARK_PREFIX}{moved[last]:020d}#{last}", body=encode_marks(moved))
    return replace(record, marks=kept, marked_up_to=max(record.marked_up_to, moved[last])), (Put(item),)


async def is_repeat(sort: str, record: ActorRecord, committed: ActorRecord, partition: str, store: Store) -> bool:
    """Whether the numbered message at this place was applied before.

    ``record`` is the actor's as it is now, ``committed`` the one in the store: what has moved out of the head since is
    in no item yet.
    """
    sender, stamp = sender_of(sort), int(stamp_of(sort))
    known = max(record.marks.get(sender, 0), committed.marks.get(sender, 0))
    if known >= stamp:
        return True
    if sender in record.marks or stamp > record.marked_up_to:
        return False
    async for item in items(store, partition, prefix=MARK_PREFIX, after=f"{MARK_PREFIX}{stamp:020d}"):
        if decode_marks(item.body).get(sender, 0) >= stamp:
            return True
    return False
