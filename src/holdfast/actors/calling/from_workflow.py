"""Actors from workflow bodies: a call or a send is an operation, recorded once, under an id that follows from it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Raw, Struct

from holdfast import ids
from holdfast.actors.calling.dispatch import request_reply
from holdfast.actors.mailbox.post import post
from holdfast.actors.record import Call
from holdfast.codec.typed import codec_for
from holdfast.kernel.identity import BY_CONTENT
from holdfast.replay.program import AnyEffect, Arrival, Effect

if TYPE_CHECKING:
    from holdfast.actors.address import Address
    from holdfast.actors.kind import Method
    from holdfast.replay.activation import Activation
    from holdfast.replay.requests import Operation


class Performer(Protocol):
    """What performs an operation for a body: the execution that the body belongs to."""

    def operation_key(self, op: str) -> str: ...
    def traceparent(self) -> str: ...
    def done(self, operation: Operation, value: bytes) -> Arrival: ...
    def failed(self, operation: Operation, error: BaseException) -> Arrival: ...


async def call_from_body(
    activation: Activation, address: Address, method: Method, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """The body half of a call."""
    data = method.signature.bind(args, kwargs)
    return await _request(activation, "call", CallActor(address, method, data), method.signature.result.decode_steady)


async def send_from_body(activation: Activation, address: Address, method: Method, data: bytes, delay_ms: int) -> None:
    """The body half of a send."""
    operation = CallActor(address, method, data, waits=False, delay_ms=delay_ms)
    await _request(activation, "send", operation, codec_for(type(None)).decode)


async def _request(activation: Activation, verb: str, operation: CallActor, decode: Callable[[bytes], Any]) -> Any:
    address = operation.address
    return await activation.request(
        verb,
        f"{address.kind.name}.{operation.method.name}",
        operation,
        fingerprint=ids.fingerprint(address.partition.encode() + b"\0" + operation.args),
        decode=decode,
    )


class CallActor(Struct, frozen=True):
    """Call an actor, and wait for the reply or not."""

    address: Address
    method: Method
    args: bytes
    waits: bool = True
    delay_ms: int = 0

    def effect(self, operation: Operation, live: Performer, /) -> AnyEffect:
        return Effect(operation.id, lambda: self._perform(operation, live))

    def withdrawn(self, _operation: Operation, _live: Performer, /) -> Sequence[AnyEffect]:
        return ()

    async def _perform(self, operation: Operation, live: Performer) -> Arrival:
        address, method = self.address, self.method
        runtime = address.kind.connect()
        now = runtime.clock.now_ms()
        request = Call(
            id=address.request_id or live.operation_key(operation.id),
            method=method.name,
            args=Raw(self.args),
            known=True,
            named=True,
            replies=self.waits,
            not_before=now + self.delay_ms if self.delay_ms else 0,
            sent_at=now,
            naming=BY_CONTENT,
            trace=live.traceparent(),
        )
        if not self.waits:
            await post(address.kind, address.partition, request, runtime)
            return live.done(operation, b"null")
        replied = await request_reply(address, request, runtime)
        if replied.error is not None:
            return live.failed(operation, replied.error)
        return live.done(operation, replied.data)
