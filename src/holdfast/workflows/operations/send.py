"""Sending from a workflow body to another execution: recorded, once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Raw, Struct

from holdfast import ids
from holdfast.codec.typed import codec_for
from holdfast.errors import InvalidState, NotFound
from holdfast.replay.program import AnyEffect, Arrival, Effect
from holdfast.workflows.live import Live
from holdfast.workflows.messages import was_received
from holdfast.workflows.record import (
    ENDED,
    CancelRequest,
    Signal,
    describe_partition,
    is_there,
    workflow_of,
)

if TYPE_CHECKING:
    from holdfast.replay.activation import Activation
    from holdfast.replay.requests import Operation


class SendSignal(Struct, frozen=True):
    """Send a signal; unless it has an id, that follows from the operation, so a repeat is recognised."""

    partition: str
    name: str
    value: bytes
    id: str | None = None

    def effect(self, operation: Operation, live: Live, /) -> AnyEffect:
        id = live.operation_key(operation.id) if self.id is None else self.id
        message = Signal(id, self.name, Raw(self.value), live.traceparent())
        return Effect(operation.id, lambda: _send(self.partition, message, operation, live))

    def withdrawn(self, _operation: Operation, _live: Live, /) -> Sequence[AnyEffect]:
        return ()


class SendCancel(Struct, frozen=True):
    """Ask another execution to stop."""

    partition: str
    reason: str

    def effect(self, operation: Operation, live: Live, /) -> AnyEffect:
        message = CancelRequest(self.reason, live.operation_key(operation.id))
        return Effect(operation.id, lambda: _send(self.partition, message, operation, live))

    def withdrawn(self, _operation: Operation, _live: Live, /) -> Sequence[AnyEffect]:
        return ()


async def _send(partition: str, message: Signal | CancelRequest, operation: Operation, live: Live) -> Arrival:
    store = live.host.home.store
    while not await live.send(partition, message) and not await was_received(store, partition, message):
        head = await store.get(partition)
        if not is_there(head, live.now_ms()):
            return live.failed(operation, NotFound(f"there is no {describe_partition(partition)}"))
        if head.status in ENDED:
            return live.failed(operation, InvalidState(f"{describe_partition(partition)} has ended as {head.status}"))
    return live.done(operation, b"null", copy=None)


async def send_from_body(activation: Activation, command: SendSignal | SendCancel) -> None:
    """The body half of both."""
    kind = "signal" if isinstance(command, SendSignal) else "cancel"
    sent = f"{command.name}\0".encode() + command.value if isinstance(command, SendSignal) else command.reason.encode()
    await activation.request(
        kind,
        f"{kind}:{workflow_of(command.partition)}",
        command,
        fingerprint=ids.fingerprint(command.partition.encode() + sent),
        decode=codec_for(type(None)).decode,
    )
