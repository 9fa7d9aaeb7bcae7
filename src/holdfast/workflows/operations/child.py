"""Children: executions started by an execution. Awaited ones end with their parent, detached ones live on."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from holdfast import ids
from holdfast.codec.typed import codec_for
from holdfast.errors import IdempotencyMismatch
from holdfast.kernel.host import holds
from holdfast.kernel.program import AnyEffect, Arrival, Conclusion, Effect, Timed
from holdfast.workflows.launch import Launch, forestall, launch, outcome_error
from holdfast.workflows.live import Live
from holdfast.workflows.record import (
    ENDED,
    NO_VALUE,
    CancelRequest,
    Parent,
    child_id,
    decode_record,
    decode_result,
    partition_of,
)

if TYPE_CHECKING:
    from holdfast.items import Item
    from holdfast.kernel.activation import Activation
    from holdfast.kernel.requests import Operation
    from holdfast.workflows.definition import Workflow
    from holdfast.workflows.starting import StartOptions

CHECK_AGAIN_MS: Final = 60_000
CHECK_AGAIN_SHARE: Final = 4
"""When a waiting parent looks at a child by itself, in case the child's word was lost: after a minute, or a quarter of
the child's age if that is more. So a lost word costs little of what was waited anyway, and waiting for long costs
little, where each look is paid for (G14)."""


async def call_child(
    activation: Activation, workflow: Workflow[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """The body half of an awaited child."""
    data = workflow.signature.bind(args, kwargs, f"workflow {workflow.name!r}")
    command = CallChild(workflow, data)
    return await activation.request(
        "child",
        workflow.name,
        command,
        fingerprint=ids.fingerprint(data),
        decode=workflow.signature.result.decode,
    )


async def start_child(
    activation: Activation,
    workflow: Workflow[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    options: StartOptions,
) -> str:
    """The body half of a detached start; answers the new execution's id."""
    data = workflow.signature.bind(args, kwargs, f"workflow {workflow.name!r}")
    operation = activation.request(
        "start",
        workflow.name,
        StartDetached(workflow, data, options),
        fingerprint=ids.fingerprint(data),
        decode=codec_for(str).decode,
    )
    id: str = await operation
    return id


class CallChild(Struct, frozen=True):
    """Start a child if it is not there yet, and wait for its end."""

    workflow: Workflow[..., Any]
    input: bytes

    def effect(self, operation: Operation, live: Live, /) -> AnyEffect:
        return Effect(operation.id, partial(self._start_or_find, operation, live))

    async def _start_or_find(self, operation: Operation, live: Live) -> Arrival | Timed:
        order = self._order(operation, live)
        try:
            head = await launch(live.host.home, live.host, self.workflow, order, live.host.clock)
        except IdempotencyMismatch as error:
            return live.failed(operation, error)
        if head.status in ENDED:
            return outcome(head, operation, live)
        watch(head.partition, operation, live)
        return check_again(head, operation, live)

    def _order(self, operation: Operation, live: Live) -> Launch:
        parent = Parent(live.partition, live.record.run, operation.id, live.record.nonce)
        return Launch(id=_id_of(operation, live), input=self.input, tags=live.record.tags, parent=parent)

    def withdrawn(self, operation: Operation, live: Live, /) -> Sequence[AnyEffect]:
        return (Effect(f"{operation.id}!cancel", partial(self._cancel, operation, live)),)

    async def _cancel(self, operation: Operation, live: Live) -> None:
        partition = partition_of(self.workflow.name, _id_of(operation, live))
        live.host.watchers.remove(partition, (live.partition, operation.id))
        reason = "its parent no longer waits for it"
        while not await live.send(partition, CancelRequest(reason)):
            head = await live.host.home.store.get(partition)
            if head is not None and head.status in ENDED:
                return
            order = self._order(operation, live)
            if await forestall(live.host.home, self.workflow, order, reason, live.host.clock):
                return


class StartDetached(Struct, frozen=True):
    """Start an execution that lives on by itself."""

    workflow: Workflow[..., Any]
    input: bytes
    options: StartOptions

    def effect(self, operation: Operation, live: Live, /) -> AnyEffect:
        return Effect(operation.id, partial(self._start, operation, live))

    async def _start(self, operation: Operation, live: Live) -> Arrival:
        order = Launch(
            id=self.options.id or _id_of(operation, live),
            input=self.input,
            tags=self.options.tags,
            timeout_ms=self.options.timeout_ms,
        )
        try:
            await launch(live.host.home, live.host, self.workflow, order, live.host.clock)
        except IdempotencyMismatch as error:
            return live.failed(operation, error)
        return live.done(operation, codec_for(str).encode(order.id), copy=order.id)

    def withdrawn(self, _operation: Operation, _live: Live, /) -> Sequence[AnyEffect]:
        return ()


def _id_of(operation: Operation, live: Live) -> str:
    return child_id(live.partition, live.record, operation.id)


def check_again(awaited: Item, operation: Operation, live: Live) -> Timed:
    """Look by oneself after a while."""
    now = live.now_ms()
    age_ms = now - decode_result(awaited.body).created_at
    return Timed(now + max(CHECK_AGAIN_MS, age_ms // CHECK_AGAIN_SHARE), operation.id)


def watch(partition: str, operation: Operation, live: Live) -> None:
    """Hear of an end in this process while we hold the one that awaits it; else whoever ends it writes to us."""
    live.host.watchers.add(partition, (live.partition, operation.id), partial(_told, partition, operation, live))


def _told(partition: str, operation: Operation, live: Live, conclusion: Conclusion | None) -> None:
    if conclusion is None:  # it is suspended, or went elsewhere; it may come back
        watch(partition, operation, live)
    elif holds(live.host, live.partition):
        live.host.deliver(live.partition, _arrival(conclusion.status, conclusion.body, operation, live))


def outcome(ended: Item, operation: Operation, live: Live) -> Arrival:
    """How an execution that ended looks to the one that awaits it."""
    live.host.watchers.remove(ended.partition, (live.partition, operation.id))
    return _arrival(ended.status, ended.body, operation, live)


def _arrival(status: str, body: bytes, operation: Operation, live: Live) -> Arrival:
    recorded = decode_result(body)
    if recorded.result != NO_VALUE:
        return live.done(operation, bytes(recorded.result), began=recorded.created_at)
    error = outcome_error(status, decode_record(body), live.registry.errors)
    return live.failed(operation, error, began=recorded.created_at)
