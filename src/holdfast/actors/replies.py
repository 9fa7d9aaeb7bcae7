"""Replies: what a request was answered, kept so that whoever repeats it, or waits for it elsewhere, gets the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast import ids
from holdfast.actors.record import REPLY_PREFIX, Call, Reply, decode_reply, describe_partition
from holdfast.actors.resident import Replied
from holdfast.errors import IdempotencyMismatch

if TYPE_CHECKING:
    from holdfast.actors.access import ActorAccess


def fingerprint_of(call: Call) -> str:
    """What tells two requests under one id apart (G11)."""
    return ids.fingerprint(f"{call.method}\0".encode() + bytes(call.args))


async def find_reply(partition: str, request_id: str, access: ActorAccess) -> Reply | None:
    """The reply a request was given, if it is known and not too old."""
    item = await access.home.store.get(partition, REPLY_PREFIX + request_id)
    if item is None or (item.expires_at is not None and item.expires_at <= access.clock.now_ms()):
        return None
    return decode_reply(item.body)


def replied(reply: Reply, call: Call, partition: str, access: ActorAccess) -> Replied:
    """What a stored reply says to a request: an error if it is that of another one under the same id (G11)."""
    if reply.fingerprint != fingerprint_of(call):
        told = f"request {call.id!r} of {describe_partition(partition)} was made with another method or arguments"
        return Replied(error=IdempotencyMismatch(f"{told}. Use another request_id, or the same arguments"))
    if reply.error is not None:
        return Replied(error=access.rebuilt(reply.error))
    return Replied(bytes(reply.value))
