"""Calling an actor's method, from anywhere: from plain code, from another actor, from a workflow body."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from msgspec import Raw

from holdfast import ids
from holdfast.actors.operation import call_from_body
from holdfast.actors.reading import read_now
from holdfast.actors.record import Call
from holdfast.actors.requests import request_reply
from holdfast.actors.scope import Turn
from holdfast.kernel.loop import running_activation
from holdfast.kernel.unit import current_unit

if TYPE_CHECKING:
    from holdfast.actors.reference import BoundMethod


async def call(bound: BoundMethod, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a method of an actor and answer its result, or raise what it raised."""
    reference, method = bound.reference, bound.method
    activation = running_activation()
    if activation is not None:
        return await call_from_body(activation, bound, args, kwargs)
    access = reference.kind.registrar.actor_access()
    data = method.signature.bind(args, kwargs, limit_bytes=access.limit_bytes)
    unit = current_unit.get()
    id = reference.request_id or (unit.derive_id() if unit is not None else None)
    if isinstance(unit, Turn) and not method.reads:
        unit.refuse_if_reading()
    if method.reads:
        chain = () if unit is None else unit.chain
        return method.signature.result.decode(await read_now(reference, method, data, chain, access))
    request = Call(
        id=id or ids.new_ordered_id(access.clock.now_ms()),
        method=method.name,
        args=Raw(data),
        known=id is not None,
        named=id is not None,
        replies=True,
        chain=() if unit is None else unit.chain,
        sent_at=access.clock.now_ms(),
    )
    with unit.waiting_for_another() if isinstance(unit, Turn) else nullcontext():
        replied = await request_reply(reference, request, unit, access)
    if replied.error is not None:
        raise replied.error
    return method.signature.result.decode(replied.data)
