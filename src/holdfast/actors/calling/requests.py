"""Requests: a call and its reply, in memory if the actor lives in this process, by messages if it lives elsewhere."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Literal

from msgspec.structs import replace

from holdfast.actors.calling.cycles import find_deadlock, refuse_cycle, waiting_for
from holdfast.actors.calling.optimistic import call_optimistically
from holdfast.actors.calling.withdrawal import take_back
from holdfast.actors.mailbox.post import post
from holdfast.actors.record import REPLY_PREFIX, Call, Reply, decode_reply, describe_partition
from holdfast.actors.turn.entity import Delivery, Outcome, Replied, Resident
from holdfast.actors.turn.fenced_caller import refuse_if_overtaken
from holdfast.actors.turn.reply import find_reply, replied
from holdfast.errors import CallCycle, WaitTimeout
from holdfast.kernel.unit import Unit

if TYPE_CHECKING:
    from holdfast.actors.address import Address
    from holdfast.kernel.runtime import Runtime

FIRST_LOOK_SECONDS: Final = 0.2
LOOK_AGAIN_GROWTH: Final = 1.5
LONGEST_LOOK_SECONDS: Final = 5.0
"""When a caller that waits for a reply looks for it without being rung, in case a ring was lost."""

REPORT_SECONDS: Final = 1.0
"""A caller that waits longer than this for one look at the reply is told if no worker can be at work."""

LONGEST_BILLED_LOOK_SECONDS: Final = 60.0
"""The same where each look is paid for."""

CIRCLES: Final = 2
"""So often whoever is not first by name sees a circle of callers before he gives way."""


async def request_reply(address: Address, request: Call, unit: Unit | None, runtime: Runtime) -> Replied:
    """Have a call applied, wherever the actor lives, and wait for the reply."""
    if not request.chain:
        return await _in_time(address, request, runtime)
    await refuse_if_overtaken(request, runtime)
    try:
        refuse_cycle(address.partition, request.chain, runtime.host)
    except CallCycle:
        # An actor of this very chain has never applied this call: it was refused in every run of the caller.
        look = find_reply if address.partition in request.chain else take_back
        if (reply := await look(address.partition, request.id, runtime)) is None:
            raise
        return replied(reply, request, address.partition, runtime)  # an earlier run of the caller has got through
    with waiting_for(address.partition, unit, runtime.host):
        return await _in_time(address, request, runtime)


async def _in_time(address: Address, request: Call, runtime: Runtime) -> Replied:
    if address.timeout_seconds is None:
        return await _request_reply(address, request, runtime)
    limit = asyncio.timeout(address.timeout_seconds)
    try:
        async with limit:
            return await _request_reply(address, request, runtime)
    except TimeoutError:
        if not limit.expired():
            raise
        missing = runtime.attendance.missing(address.partition, runtime.host)
        raise WaitTimeout(
            f"{describe_partition(address.partition)} did not answer {request.method} within "
            f"{address.timeout_seconds} s. The call may still be applied; with a request_id it can be sent again"
            + (f". Now {missing}" if missing else "")
        ) from None


async def _request_reply(address: Address, request: Call, runtime: Runtime) -> Replied:
    if address.kind.policy.optimistic and (applied := await call_optimistically(address, request, runtime)):
        return applied
    outcome = await _call_in_memory(address, request, runtime)
    if isinstance(outcome, Replied):
        return outcome
    return await _call_by_mail(address, request, runtime)


async def _call_in_memory(address: Address, request: Call, runtime: Runtime) -> Outcome | None:
    host = runtime.host
    entity = None if host is None else host.summon(address.partition)
    if not isinstance(entity, Resident):
        return None
    answer: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
    delivery = Delivery(request, answer=answer)
    entity.enqueue(delivery)
    try:
        return await answer
    except asyncio.CancelledError:
        entity.withdraw(delivery)  # a worker that runs the caller again may be told that it was refused
        raise


async def _call_by_mail(address: Address, request: Call, runtime: Runtime) -> Replied:
    partition = address.partition
    listening = runtime.rings.listen(partition)
    patience_seconds, circles = FIRST_LOOK_SECONDS, 0
    longest_seconds = LONGEST_BILLED_LOOK_SECONDS if runtime.home.reads_are_paid else LONGEST_LOOK_SECONDS
    try:
        request = replace(request, known=True)  # the message may be sent again when the store gives no answer
        place = await _post(address, request, runtime)
        while True:
            if (reply := await find_reply(partition, request.id, runtime)) is not None:
                return replied(reply, request, partition, runtime)
            await listening.next(patience_seconds)
            patience_seconds = min(patience_seconds * LOOK_AGAIN_GROWTH, longest_seconds)
            if patience_seconds > REPORT_SECONDS:
                runtime.attendance.report(describe_partition(partition), partition, runtime.host)
                match await _what_became_of(place, partition, request, runtime):
                    case "waits":
                        pass
                    case "is gone":
                        place = await _post(address, request, runtime)
                    case Reply() as reply:
                        return replied(reply, request, partition, runtime)
            if request.chain:
                waiters = await find_deadlock(request.chain, partition, runtime)
                circles = circles + 1 if waiters else 0
                # One is enough, and the first by name; who sees that it lasts may be the only one to see it.
                if waiters and (request.chain[-1] == min(waiters) or circles > CIRCLES):
                    return await _give_way(partition, request, runtime)
    finally:
        listening.close()


async def _post(address: Address, request: Call, runtime: Runtime) -> str:
    await refuse_if_overtaken(request, runtime)
    return await post(address.kind, address.partition, request, runtime)


async def _what_became_of(
    place: str, partition: str, request: Call, runtime: Runtime
) -> Reply | Literal["waits", "is gone"]:
    """Whether a message still waits, or what it was answered, also if that is over by our clock.

    One that was answered like an earlier one of the same id may get a reply that ends before we look.
    """
    if await runtime.home.store.get(partition, place) is not None:
        return "waits"
    kept = await runtime.home.store.get(partition, REPLY_PREFIX + request.id)
    return "is gone" if kept is None else decode_reply(kept.body)


async def _give_way(partition: str, request: Call, runtime: Runtime) -> Replied:
    """Take the call back and raise ``CallCycle``, unless it has been applied meanwhile."""
    if (reply := await take_back(partition, request.id, runtime)) is not None:
        return replied(reply, request, partition, runtime)
    ours, theirs = describe_partition(request.chain[-1]), describe_partition(partition)
    raise CallCycle(f"{ours} and {theirs} call each other and would wait for ever: this call was taken back")
