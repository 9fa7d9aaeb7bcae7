"""Calling an actor's method, from anywhere: from plain code, from another actor, from a workflow body."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Raw

from holdfast import ids
from holdfast.actors.calling.dispatch import request_reply
from holdfast.actors.calling.from_workflow import call_from_body
from holdfast.actors.calling.read import read_now
from holdfast.actors.record import REPLY_PREFIX, Call
from holdfast.actors.scope import Turn
from holdfast.kernel.identity import BY_CONTENT
from holdfast.kernel.unit import current_unit
from holdfast.replay.loop import running_activation
from holdfast.tracing import here

if TYPE_CHECKING:
    from holdfast.actors.address import Address
    from holdfast.actors.kind import Method


async def call(address: Address, method: Method, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a method of an actor and answer its result, or raise what it raised."""
    activation = running_activation()
    if activation is not None:
        return await call_from_body(activation, address, method, args, kwargs)
    runtime = address.kind.connect()
    data = method.signature.bind(args, kwargs, limit_bytes=runtime.limit_bytes)
    unit = current_unit.get()
    chain, identity = ((), None) if unit is None else (unit.chain, unit.identity)
    if method.reads:
        if identity is not None:
            identity.note_read()
        return method.signature.result.decode(await read_now(address, method, data, chain, runtime))
    if isinstance(unit, Turn):
        unit.refuse_if_reading()
        unit.refuse_without_lease()
    id = address.request_id
    if id is None and identity is not None:
        id = identity.derive(address.partition, method.name, data)
    now = runtime.clock.now_ms()
    request = Call(
        id=id or ids.new_ordered_id(now),
        method=method.name,
        args=Raw(data),
        known=id is not None,
        named=id is not None,
        replies=True,
        chain=chain,
        sent_at=now,
        naming=BY_CONTENT,
        kept=isinstance(unit, Turn) and unit.keeps,
        trace=here(),
    )
    if unit is None:
        replied = await request_reply(address, request, runtime)
    else:
        with unit.waiting():
            replied = await request_reply(address, request, runtime)
    if replied.error is not None:
        raise replied.error
    if isinstance(unit, Turn):
        unit.note_call(address.partition, REPLY_PREFIX + request.id)
    return method.signature.result.decode(replied.data)
