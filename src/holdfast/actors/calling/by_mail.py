"""A call by messages: sent to the actor's inbox, answered by a reply that is kept, or taken back.

Of a call that was taken back it is known that it was applied, and its reply is there, or that it never will be (G4).
What was sent lies in the inbox, or with an owner that has run it and not committed it yet. The owner may be slow, or
stopped for an hour: so it loses the actor, and its commit is refused.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from msgspec import UNSET
from msgspec.structs import replace

from holdfast.actors.calling.cycles import find_deadlock
from holdfast.actors.mailbox.post import post, tell, withdraw
from holdfast.actors.record import (
    READY,
    RUNNING,
    Call,
    Reply,
    decode_call,
    describe_partition,
)
from holdfast.actors.turn.commit import GATHERING_SECONDS, begin_commit, commit_under_way
from holdfast.actors.turn.entity import ActorEntity
from holdfast.actors.turn.fenced_caller import refuse_if_overtaken
from holdfast.actors.turn.replies import find_reply
from holdfast.coordination.inbox import INBOX_PREFIX
from holdfast.errors import CallCycle, Refused
from holdfast.items import EpochIs, Update
from holdfast.kernel.entity import Owned
from holdfast.pauses import Pauses
from holdfast.persist import write_for_caller

if TYPE_CHECKING:
    from holdfast.actors.address import Address
    from holdfast.kernel.runtime import Runtime
    from holdfast.kernel.watch import Listening

FIRST_LOOK_SECONDS: Final = 0.2
LOOK_AGAIN_GROWTH: Final = 1.5
LONGEST_LOOK_SECONDS: Final = 5.0
"""When a caller that waits for a reply looks for it without being woken, in case a wake-up was lost."""

REPORT_SECONDS: Final = 1.0
"""A caller that waits longer than this for one look at the reply is told if no worker can be at work."""

LONGEST_BILLED_LOOK_SECONDS: Final = 60.0
"""The same where each look is paid for."""

MOST_CIRCLES: Final = 2
"""How often a caller that is not first by name sees a circle of callers before it gives way."""


async def call_by_mail(address: Address, request: Call, runtime: Runtime) -> Reply:
    """Send a call to the actor's inbox, and wait for the reply. Raises ``CallCycle`` if that would be for ever."""
    listening = runtime.wake_listeners.listen(address.partition)
    try:
        # The message may be sent again when the store gives no answer, so it is one that is known.
        return await _send_and_wait(address, replace(request, known=True), listening, runtime)
    finally:
        listening.close()


async def _send_and_wait(address: Address, request: Call, listening: Listening, runtime: Runtime) -> Reply:
    partition = address.partition
    longest_seconds = LONGEST_BILLED_LOOK_SECONDS if runtime.home.reads_are_paid else LONGEST_LOOK_SECONDS
    looks, circles = Pauses(FIRST_LOOK_SECONDS, longest_seconds, LOOK_AGAIN_GROWTH), 0
    place = await _post(address, request, runtime)
    while (reply := await find_reply(partition, request.id, runtime)) is None:
        await listening.next(looks.take())
        if looks.seconds > REPORT_SECONDS:
            runtime.presence.report(describe_partition(partition), partition, runtime.host)
            if await runtime.home.store.get(partition, place) is None:
                if (reply := await find_reply(partition, request.id, runtime, overdue=True)) is not None:
                    break
                place = await _post(address, request, runtime)
        if request.chain:
            waiters = await find_deadlock(request.chain, partition, runtime)
            circles = circles + 1 if waiters else 0
            # One is enough, and the first by name; who sees that it lasts may be the only one to see it.
            if waiters and (request.chain[-1] == min(waiters) or circles > MOST_CIRCLES):
                return await _give_way(partition, request, runtime)
    return reply


async def _post(address: Address, request: Call, runtime: Runtime) -> str:
    await refuse_if_overtaken(request, runtime)
    return await post(address.kind, address.partition, request, runtime)


async def _give_way(partition: str, request: Call, runtime: Runtime) -> Reply:
    """Take the call back and raise ``CallCycle``, unless it has been applied meanwhile."""
    if (reply := await take_back(partition, request.id, runtime)) is not None:
        return reply
    ours, theirs = describe_partition(request.chain[-1]), describe_partition(partition)
    raise CallCycle(f"{ours} and {theirs} call each other and would wait for ever: this call was taken back")


# ── Taking a call back ──────────────────────────────────────────────────────────────────────────────────────────────


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
    if host is None or not isinstance(actor, ActorEntity):
        return False
    while actor.held and not (actor.settled or actor.redo or actor.lost or actor.broken):
        begin_commit(actor, runtime, host)
        await commit_under_way(actor)
        if not actor.settled:
            await asyncio.sleep(GATHERING_SECONDS)
    hold = actor.hold
    return isinstance(hold, Owned) and not actor.broken and runtime.clock.now_ms() < hold.lease_until


async def _take_from_owner(partition: str, runtime: Runtime) -> None:
    """Have every commit refused that began before this. What else the owner was at begins again."""
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
