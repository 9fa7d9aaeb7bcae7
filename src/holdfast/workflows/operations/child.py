"""Children: executions started by an execution. Awaited ones end with their parent, detached ones live on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from holdfast import ids
from holdfast.codec.typed import codec_for
from holdfast.errors import IdempotencyMismatch, NotFound
from holdfast.kernel.program import AnyEffect, Arrival, Conclusion, Effect, Timed
from holdfast.workflows.launch import Launch, forestall, launch, outcome_error
from holdfast.workflows.live import Live
from holdfast.workflows.record import (
    ENDED,
    NO_VALUE,
    CancelRequest,
    Parent,
    decode_record,
    describe_partition,
    partition_of,
    workflow_of,
)

if TYPE_CHECKING:
    from holdfast.items import Item
    from holdfast.kernel.activation import Activation
    from holdfast.kernel.requests import Decode, Operation
    from holdfast.workflows.definition import Workflow
    from holdfast.workflows.starting import StartOptions

CHECK_AGAIN_MS: Final = 60_000
"""How often a waiting parent looks at a child by itself, in case the child's word was lost."""


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


def child_id(live: Live, operation: Operation) -> str:
    """A child's id follows from its parent's run and operation, so a repeated start finds the same child."""
    run = f".{live.record.run}" if live.record.run else ""
    return f"{live.record.id}{run}/{operation.id}"


class CallChild(Struct, frozen=True):
    """Start a child if it is not there yet, and wait for its end."""

    workflow: Workflow[..., Any]
    input: bytes

    def effect(self, operation: Operation, live: Live, /) -> AnyEffect:
        return Effect(operation.id, lambda: self._start_or_find(operation, live))

    async def _start_or_find(self, operation: Operation, live: Live) -> Arrival | Timed:
        order = self._order(operation, live)
        try:
            head = await launch(live.host.home, live.host, self.workflow, order, live.host.clock)
        except IdempotencyMismatch as error:
            return live.failed(operation, error)
        return _outcome_or_watch(head, operation, live)

    def _order(self, operation: Operation, live: Live) -> Launch:
        parent = Parent(live.partition, live.record.run, operation.id)
        return Launch(id=child_id(live, operation), input=self.input, tags=live.record.tags, parent=parent)

    def withdrawn(self, operation: Operation, live: Live, /) -> Sequence[AnyEffect]:
        return (Effect(f"{operation.id}!cancel", lambda: self._cancel(operation, live)),)

    async def _cancel(self, operation: Operation, live: Live) -> None:
        partition = partition_of(self.workflow.name, child_id(live, operation))
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
        return Effect(operation.id, lambda: self._start(operation, live))

    async def _start(self, operation: Operation, live: Live) -> Arrival:
        order = Launch(
            id=self.options.id or child_id(live, operation),
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


class AwaitExecution(Struct, frozen=True):
    """Wait for the end of an execution that somebody else started."""

    partition: str

    def effect(self, operation: Operation, live: Live, /) -> AnyEffect:
        return Effect(operation.id, lambda: self._look(operation, live))

    async def _look(self, operation: Operation, live: Live) -> Arrival | Timed:
        head = await live.host.home.store.get(self.partition)
        if head is None:
            return live.failed(operation, NotFound(f"there is no {describe_partition(self.partition)}"))
        return _outcome_or_watch(head, operation, live)

    def withdrawn(self, operation: Operation, live: Live, /) -> Sequence[AnyEffect]:
        live.host.watchers.remove(self.partition, (live.partition, operation.id))
        return ()


def _outcome_or_watch(head: Item, operation: Operation, live: Live) -> Arrival | Timed:
    if head.status in ENDED:
        return child_arrival(head.status, head.body, operation, live)
    _watch(head.partition, operation, live)
    return Timed(live.now_ms() + CHECK_AGAIN_MS, operation.id)


def _watch(child: str, operation: Operation, live: Live) -> None:
    """Hear of the child's end if it ends in this process while we hold its parent; else the host there writes to us."""

    def told(conclusion: Conclusion | None) -> None:
        if conclusion is None:  # it is suspended, or went elsewhere; it may come back
            _watch(child, operation, live)
        elif operation.kind == "await" or live.host.held_by_us(live.partition):
            live.host.deliver(live.partition, child_arrival(conclusion.status, conclusion.body, operation, live))

    live.host.watchers.add(child, (live.partition, operation.id), told)


def child_arrival(status: str, body: bytes, operation: Operation, live: Live) -> Arrival:
    """How an execution that ended looks to the one that awaits it."""
    record = decode_record(body)
    if record.result != NO_VALUE:
        return live.done(operation, bytes(record.result), began=record.created_at)
    error = outcome_error(status, record, live.registry.errors)
    return live.failed(operation, error, began=record.created_at)


async def await_execution(activation: Activation, partition: str, decode: Decode) -> Any:
    """The body half of waiting for an execution by its handle."""
    command = AwaitExecution(partition)
    return await activation.request(
        "await", workflow_of(partition), command, fingerprint=ids.fingerprint(partition.encode()), decode=decode
    )
