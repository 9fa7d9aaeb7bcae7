"""Requests: a call and its reply, in memory if the actor lives in this process, by messages if it lives elsewhere."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from holdfast.actors.calling.by_mail import call_by_mail, take_back
from holdfast.actors.calling.cycles import refuse_cycle, waiting_for
from holdfast.actors.calling.optimistic import call_optimistically
from holdfast.actors.mailbox.queue import Delivery, Outcome, Replied
from holdfast.actors.record import Call, Reply, describe_partition
from holdfast.actors.turn.entity import ActorEntity
from holdfast.actors.turn.fenced_caller import refuse_if_overtaken
from holdfast.actors.turn.replies import find_reply, replied
from holdfast.errors import CallCycle, WaitTimeout
from holdfast.kernel.unit import Unit

if TYPE_CHECKING:
    from holdfast.actors.address import Address
    from holdfast.kernel.runtime import Runtime


async def request_reply(address: Address, request: Call, unit: Unit | None, runtime: Runtime) -> Replied:
    """Have a call applied, wherever the actor lives, and wait for the reply."""
    answer = await (
        _call_in_chain(address, request, unit, runtime) if request.chain else _in_time(address, request, runtime)
    )
    return answer if isinstance(answer, Replied) else replied(answer, request, address.partition, runtime)


async def _call_in_chain(address: Address, request: Call, unit: Unit | None, runtime: Runtime) -> Replied | Reply:
    """Call from an actor that others may wait for. Raises ``CallCycle`` if the actor would wait for itself."""
    await refuse_if_overtaken(request, runtime)
    try:
        refuse_cycle(address.partition, request.chain, runtime.host)
    except CallCycle:
        # An actor of this very chain has never applied this call: it was refused in every run of the caller.
        look = find_reply if address.partition in request.chain else take_back
        if (reply := await look(address.partition, request.id, runtime)) is None:
            raise
        return reply  # an earlier run of the caller has got through
    with waiting_for(address.partition, unit, runtime.host):
        return await _in_time(address, request, runtime)


async def _in_time(address: Address, request: Call, runtime: Runtime) -> Replied | Reply:
    if address.timeout_seconds is None:
        return await _apply(address, request, runtime)
    limit = asyncio.timeout(address.timeout_seconds)
    try:
        async with limit:
            return await _apply(address, request, runtime)
    except TimeoutError:
        if not limit.expired():
            raise
        missing = runtime.presence.missing(address.partition, runtime.host)
        raise WaitTimeout(
            f"{describe_partition(address.partition)} did not answer {request.method} within "
            f"{address.timeout_seconds} s. The call may still be applied; with a request_id it can be sent again"
            + (f". Now {missing}" if missing else "")
        ) from None


async def _apply(address: Address, request: Call, runtime: Runtime) -> Replied | Reply:
    if address.kind.policy.optimistic and (applied := await call_optimistically(address, request, runtime)):
        return applied
    outcome = await _call_in_memory(address, request, runtime)
    return outcome if isinstance(outcome, Replied) else await call_by_mail(address, request, runtime)


async def _call_in_memory(address: Address, request: Call, runtime: Runtime) -> Outcome | None:
    host = runtime.host
    entity = None if host is None else host.open_entity(address.partition)
    if not isinstance(entity, ActorEntity):
        return None
    answer: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
    delivery = Delivery(request, answer=answer)
    entity.enqueue(delivery)
    try:
        return await answer
    except asyncio.CancelledError:
        entity.queue.withdraw(delivery)  # a worker that runs the caller again may be told that it was refused
        raise
