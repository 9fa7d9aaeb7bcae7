"""Replies in the head of an actor: kept by the commit that gives them, without an item of their own.

Where writes are billed, a reply next to the head makes a transaction of the commit: four units, where there was one. So
the reply to a call that is answered where it runs, and is kept only because the call may be made again, rides in the
head while there is room. So does that to an event, whose handler is an actor of its own. When there is none, the
replies that are durable there move out before the next call: each into an item ``r#<id>``, by a write of its own, and
out of the head with the next commit (``make_room``).

| it stops | what is there | what continues it |
|---|---|---|
| before or at the commit of the call | the reply and the state, or neither | the repeat runs, or finds it in the head |
| between two of the writes that move replies | some are in both places, and equal | the next owner moves them again |
| after them, before the commit that takes them out | all are in both places | likewise |
| an hour, and then it still moves one | the same, or a later reply under an id that was used again | the condition |

A reply that moves replaces none that ends later than it: after its window an id may be used again. The item is looked
for whenever the head has no reply, so a reply is found in every state of this table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from holdfast.actors.record import ActorRecord, KeptReply, encode, key_of

if TYPE_CHECKING:
    from holdfast.actors.kind import Kind
    from holdfast.actors.mailbox.queue import Delivery
    from holdfast.ports import Home

MOST_BYTES: Final = 480
"""Half of the kilobyte that a write unit is: with some state the head stays within it."""


def may_be_in_head(delivery: Delivery, partition: str, kind: Kind, home: Home) -> bool:
    """Whether a reply is only kept for a repeat of a call that is answered here, or of a message to an actor that is
    there no longer than its last reply. A caller elsewhere looks for an item, and one that has it kept gives the item
    its end.
    """
    call = delivery.call
    if not (home.writes_are_paid and call.known) or call.kept or call.origin is not None:
        return False
    if kind.passing(key_of(partition)):
        return delivery.sort is not None and call.named and not call.replies
    return delivery.sort is None and call.replies


def with_reply(record: ActorRecord, id: str, kept: KeptReply, now: int) -> ActorRecord | None:
    """The record with a reply in it, and without those that are over; ``None`` if there is no room for it."""
    replies = {each: other for each, other in record.replies.items() if other.until > now} | {id: kept}
    return replace(record, replies=replies) if len(encode(replies)) <= MOST_BYTES else None


def kept_in(record: ActorRecord, id: str, now: int) -> KeptReply | None:
    """The reply to a request, and its end, if it is in the head and not over. One that is over may still lie there, but
    says nothing any more: its id may have been used again, and the new reply may have an item of its own.
    """
    kept = record.replies.get(id)
    return None if kept is None or kept.until <= now else kept
