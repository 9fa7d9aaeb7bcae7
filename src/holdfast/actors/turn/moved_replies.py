"""Moving replies out of the head of an actor, into items of their own. See ``kept_replies``."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from holdfast.actors.record import REPLY_PREFIX, KeptReply, encode
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
    """Move the replies out of a head that has little room left, if all that has run is durable."""
    state = actor.state
    if state is None or not actor.settled or state.version is not state.committed:
        return
    record, now = state.committed.record, runtime.clock.now_ms()
    if not record.replies or len(encode(record.replies)) < MOVED_FROM_BYTES:
        return
    moved = ((id, kept) for id, kept in record.replies.items() if kept.until > now)
    await asyncio.gather(*(_move(actor.partition, id, kept, runtime) for id, kept in moved))
    if actor.state is state and state.version is state.committed and state.committed.record is record:
        state.version = Version(replace(record, replies={}), state.version.state, state.version.deleted)


async def _move(partition: str, id: str, kept: KeptReply, runtime: Runtime) -> None:
    item = Item(partition, REPLY_PREFIX + id, expires_at=kept.until, body=encode(kept.reply))
    try:
        none_later = AnyOf((ABSENT, Expired(kept.until)))
        await write_until_known(runtime.home.store, Put(item, none_later), ours=lambda there: there == item)
    except Refused:
        return  # a reply that ends later has the id now
