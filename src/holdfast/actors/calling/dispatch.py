"""A request and its reply: in memory if the actor lives in this process, by messages if it lives elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable
from contextlib import asynccontextmanager, closing
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from holdfast.actors.calling.chain import find_deadlock, give_way, refuse_cycle, waiting_for
from holdfast.actors.calling.optimistic import call_optimistically
from holdfast.actors.mailbox.post import post
from holdfast.actors.mailbox.queue import Replied
from holdfast.actors.record import Call, Reply, describe_partition
from holdfast.actors.turn.commit import GATHERING_SECONDS, begin_commit, commit_under_way
from holdfast.actors.turn.entity import REFUSED, ActorEntity, actor_in_memory, refuse_overtaken_caller
from holdfast.actors.turn.replies import find_reply, replied
from holdfast.backoff import Pauses
from holdfast.errors import WaitTimeout

if TYPE_CHECKING:
    from holdfast.actors.address import Address
    from holdfast.kernel.runtime import Runtime

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


async def request_reply(address: Address, request: Call, runtime: Runtime) -> Replied:
    """Have a call applied, wherever the actor lives, and wait for the reply.

    Raises ``CallCycle`` if the actor would wait for itself, and ``Fenced`` if the actor that calls has a newer owner.
    """
    apply = _apply_of_actor if request.chain else _apply
    answer = await apply(address, request, runtime)
    return answer if isinstance(answer, Replied) else replied(answer, request, address.partition, runtime)


async def _apply_of_actor(address: Address, request: Call, runtime: Runtime) -> Replied | Reply:
    """Apply a call that an actor makes: it must not wait for itself."""
    await refuse_overtaken_caller(request, runtime)
    if (reply := await refuse_cycle(address.partition, request, runtime)) is not None:
        return reply
    with waiting_for(address.partition, request, runtime.host):
        return await _apply(address, request, runtime)


def _apply(address: Address, request: Call, runtime: Runtime) -> Awaitable[Replied | Reply]:
    apply = _dispatch if address.timeout_seconds is None else _dispatch_in_time
    return apply(address, request, runtime)


async def _dispatch_in_time(address: Address, request: Call, runtime: Runtime) -> Replied | Reply:
    async with _time_limit(address, request.method, runtime):
        return await _dispatch(address, request, runtime)


async def _dispatch(address: Address, request: Call, runtime: Runtime) -> Replied | Reply:
    if request.chain and runtime.home.writes_are_paid:
        await come_behind_sent(address.partition, request, runtime)
    host = runtime.host
    if address.kind.policy.optimistic and (applied := await call_optimistically(address, request, runtime)):
        return applied
    entity = None if host is None else host.open_entity(address.partition)
    if isinstance(entity, ActorEntity) and isinstance(outcome := await entity.call(request), Replied):
        return outcome
    # The message may be sent again when the store gives no answer, so it is one that is known.
    return await _call_by_mail(address, replace(request, known=True), runtime)


async def come_behind_sent(partition: str, request: Call, runtime: Runtime) -> None:
    """Wait until what earlier runs of the caller have sent to the actor is delivered: a call comes behind it (G6)."""
    host = runtime.host
    caller = actor_in_memory(request.chain[-1], host)
    while host is not None and caller is not None and caller.held and caller.sends_to(partition):
        if caller.uncommitted.phase is REFUSED or caller.broken is not None:
            return  # it will run again
        begin_commit(caller, runtime, host)
        await commit_under_way(caller)
        await caller.departures.settled(partition)
        if caller.sends_to(partition):
            await asyncio.sleep(GATHERING_SECONDS)


@asynccontextmanager
async def _time_limit(address: Address, method: str, runtime: Runtime) -> AsyncGenerator[None]:
    """Raise ``WaitTimeout`` if the block takes longer than its caller waits."""
    limit = asyncio.timeout(address.timeout_seconds)
    try:
        async with limit:
            yield
    except TimeoutError:
        if not limit.expired():
            raise
        missing = runtime.presence.missing(address.partition, runtime.host)
        raise WaitTimeout(
            f"{describe_partition(address.partition)} did not answer {method} within "
            f"{address.timeout_seconds} s. The call may still be applied; with a request_id it can be sent again"
            + (f". Now {missing}" if missing else "")
        ) from None


# ── By messages ─────────────────────────────────────────────────────────────────────────────────────────────────────


async def request_by_mail(address: Address, request: Call, runtime: Runtime) -> Replied:
    """Have a call that is known by its id applied by the process that has the actor, and wait for the reply."""
    return replied(await _call_by_mail(address, request, runtime), request, address.partition, runtime)


async def _call_by_mail(address: Address, request: Call, runtime: Runtime) -> Reply:
    """Send a call to the actor's inbox, and wait for the reply. Raises ``CallCycle`` if that would be for ever."""
    partition = address.partition
    longest_seconds = LONGEST_BILLED_LOOK_SECONDS if runtime.home.reads_are_paid else LONGEST_LOOK_SECONDS
    looks, circles = Pauses(FIRST_LOOK_SECONDS, longest_seconds, LOOK_AGAIN_GROWTH), 0
    with closing(runtime.wake_listeners.listen(partition)) as listening:
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
                    return await give_way(partition, request, runtime)
        return reply


async def _post(address: Address, request: Call, runtime: Runtime) -> str:
    await refuse_overtaken_caller(request, runtime)
    return await post(address.kind, address.partition, request, runtime)
