"""Moving out of the head of an actor what it has no room for: replies, each into an item of its own (``kept_replies``),
and the ids of messages that were applied, together into a page (``applied``).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from holdfast.actors.record import REPLY_PREFIX, ActorRecord, KeptReply, encode
from holdfast.actors.turn.applied import paged
from holdfast.actors.turn.performed import Version
from holdfast.errors import Refused
from holdfast.items import ABSENT, AnyOf, Expired, Item, Put
from holdfast.persist import write_until_known

if TYPE_CHECKING:
    from holdfast.actors.turn.entity import ActorEntity
    from holdfast.kernel.runtime import Runtime

MOVED_FROM_BYTES: Final = 240
"""From this size on they move: in a head with less there is room for a reply of the same size."""


async def make_room(actor: ActorEntity, runtime: Runtime) -> None:
    """Move out of a head that has little room left, if all that has run is durable."""
    state = actor.state
    if state is None or state.version is not state.committed:
        return
    record = state.committed.record
    if not (record.replies or record.recent) or not actor.settled:
        return
    left = await _without_ids(await _without_replies(record, actor.partition, runtime), actor.partition, runtime)
    is_as_before = actor.state is state and state.version is state.committed and state.committed.record is record
    if left is not record and is_as_before:
        state.version = Version(left, state.version.state, state.version.deleted)


async def _without_replies(record: ActorRecord, partition: str, runtime: Runtime) -> ActorRecord:
    if not record.replies or len(encode(record.replies)) < MOVED_FROM_BYTES:
        return record
    now = runtime.clock.now_ms()
    moved = ((id, kept) for id, kept in record.replies.items() if kept.until > now)
    await asyncio.gather(*(_move(partition, id, kept, runtime) for id, kept in moved))
    return replace(record, replies={})


async def _without_ids(record: ActorRecord, partition: str, runtime: Runtime) -> ActorRecord:
    left, page = paged(record, partition, runtime.clock.now_ms())
    if page is not None:
        await write_until_known(runtime.home.store, page, ours=lambda _there: True)
    return left


async def _move(partition: str, id: str, kept: KeptReply, runtime: Runtime) -> None:
    item = Item(partition, REPLY_PREFIX + id, expires_at=kept.until, body=encode(kept.reply))
    try:
        none_later = AnyOf((ABSENT, Expired(kept.until)))
        await write_until_known(runtime.home.store, Put(item, none_later), ours=lambda there: there == item)
    except Refused:
        return  # a reply that ends later has the id now
