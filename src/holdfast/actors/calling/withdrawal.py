"""Taking a request back: from then on it was applied, and its reply is there, or it never will be (G4).

What was sent lies in the inbox, or with an owner that has run it and not committed it yet. The owner may be slow, or
stopped for an hour: so it loses the actor, and its commit is refused.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from msgspec import UNSET

from holdfast.actors.mailbox.post import tell, withdraw
from holdfast.actors.record import READY, RUNNING, decode_call
from holdfast.actors.turn.commit import GATHERING_SECONDS, begin_commit, commit_under_way
from holdfast.actors.turn.entity import Resident
from holdfast.actors.turn.reply import find_reply
from holdfast.coordination.inbox import INBOX_PREFIX
from holdfast.errors import Refused
from holdfast.items import EpochIs, Update
from holdfast.persist import write_for_caller

if TYPE_CHECKING:
    from holdfast.actors.record import Reply
    from holdfast.kernel.runtime import Runtime


async def take_back(partition: str, request_id: str, runtime: Runtime) -> Reply | None:
    """Take a request back, so that it is not applied any more; what it was answered, if it was applied."""
    await _withdraw(partition, request_id, runtime)
    if not await _is_settled_here(partition, runtime):
        await _take_from_owner(partition, runtime)
    return await find_reply(partition, request_id, runtime)


async def _withdraw(partition: str, request_id: str, runtime: Runtime) -> None:
    """Take every message of it out of the inbox.

    There may be several: of an earlier run of the caller, or sent again because the store gave no answer. A message
    leaves the inbox with the commit that brings its reply: an owner that has run it is refused now.
    """
    after: str | None = None
    while True:
        page = await runtime.home.store.query(partition, prefix=INBOX_PREFIX, after=after)
        for item in page.items:
            if decode_call(item.body).id == request_id:
                await withdraw(partition, item.sort, runtime)
        if (after := page.cursor) is None:
            return


async def _is_settled_here(partition: str, runtime: Runtime) -> bool:
    """Whether the actor is ours, and what has run is durable, or is not to be. It is waited for, if it is ours."""
    host = runtime.host
    actor = None if host is None else host.entities.get(partition)
    if host is None or not isinstance(actor, Resident):
        return False
    while actor.held and not (actor.settled or actor.redo or actor.lost or actor.broken):
        begin_commit(actor, runtime, host)
        await commit_under_way(actor)
        if not actor.settled:
            await asyncio.sleep(GATHERING_SECONDS)
    return actor.held and not (actor.lost or actor.broken) and runtime.clock.now_ms() < actor.lease_until


async def _take_from_owner(partition: str, runtime: Runtime) -> None:
    """Have every commit refused that began before this. What else the owner was at begins anew."""
    while (head := await runtime.home.store.get(partition)) is not None:
        owned = head.owner is not None and head.status == RUNNING
        update = Update(
            partition=partition,
            when=EpochIs(head.epoch),
            status=READY if owned else UNSET,
            owner=None,
            lease_until=None,
            due_at=runtime.clock.now_ms() if owned else UNSET,
            add_revision=1,
            add_epoch=1,
        )
        try:
            await write_for_caller(runtime.home.store, update, ours=lambda _there: False)
        except Refused:
            continue  # it has moved on: look again
        if owned:
            tell(partition, runtime)
        return
