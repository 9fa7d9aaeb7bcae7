"""Children: executions started by an execution. Awaited ones end with their parent, detached ones live on."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from holdfast import ids
from holdfast.codec.typed import codec_for
from holdfast.errors import IdempotencyMismatch, InvalidInput, InvalidState, NotFound, Refused
from holdfast.flow.record import QUEUED, place_delete
from holdfast.items import Update
from holdfast.kernel.host import holds
from holdfast.kernel.outcomes import Conclusion
from holdfast.kernel.wake import wake
from holdfast.replay.delivery import deliver, remind
from holdfast.replay.program import AnyEffect, Arrival, Effect, Timed
from holdfast.workflows.launch import cancel_before_start, gave_up, launch
from holdfast.workflows.live import Live
from holdfast.workflows.named_children import AwaitedChild
from holdfast.workflows.once import MayHaveHappened
from holdfast.workflows.outcome_error import outcome_error
from holdfast.workflows.queueing import as_it_waits, shared_by, tell_left
from holdfast.workflows.record import (
    CANCEL,
    CANCELLED,
    CLOSED,
    DELETED,
    LEAVE,
    NO_LONGER_AWAITED,
    NO_VALUE,
    READY,
    CancelRequest,
    Parent,
    are_same,
    child_id,
    decode_record,
    decode_result,
    describe_partition,
    encode_record,
    partition_of,
    root_of,
)
from holdfast.workflows.retry_execution import Retrier
from holdfast.workflows.undone import Undone

if TYPE_CHECKING:
    from holdfast.items import Item
    from holdfast.replay.activation import Activation
    from holdfast.replay.requests import Operation
    from holdfast.workflows.declared import DeclaredWorkflow
    from holdfast.workflows.launch import Launch
    from holdfast.workflows.options import StartOptions

CHECK_AGAIN_MS: Final = 60_000
CHECK_AGAIN_SHARE: Final = 4
"""When a waiting parent looks at a child by itself, in case the child's word was lost: after a minute, or a quarter of
the child's age if that is more. So a lost word costs little of what was waited anyway, and waiting for long costs
little, where each look is paid for (G14)."""


async def call_child(
    activation: Activation,
    workflow: DeclaredWorkflow,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    options: StartOptions,
) -> Any:
    """The body half of an awaited child."""
    data = workflow.signature.bind(args, kwargs, f"workflow {workflow.name!r}")
    named = b"" if options.id is None else b"\0" + options.id.encode()
    if options.id is not None:
        refuse_itself(activation, partition_of(workflow.name, options.id))
    given = workflow.given(data)
    fingerprint = ids.fingerprint(given + named)
    return await activation.request(
        "child",
        workflow.name,
        CallChild(workflow, data, options),
        fingerprint=fingerprint,
        formerly=fingerprint if given == data else ids.fingerprint(data + named),
        decode=workflow.signature.result.decode_steady,
    )


def refuse_itself(activation: Activation, partition: str) -> None:
    """Raise ``InvalidInput`` for an execution that would wait for its own end: it would never come."""
    if partition == activation.context.partition:
        raise InvalidInput(
            f"{describe_partition(partition)} waits for its own end, which never comes: wait for another one, or return"
        )


async def start_child(
    activation: Activation,
    workflow: DeclaredWorkflow,
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
        fingerprint=ids.fingerprint(workflow.given(data)),
        formerly=ids.fingerprint(data),
        decode=codec_for(str).decode,
    )
    id: str = await operation
    return id


class CallChild(AwaitedChild, frozen=True):
    """Start a child if it is not there yet, and wait for its end.

    Under an id that the user has given there may be an execution that this call has not started. It is awaited as any
    other is, and not ours to stop.
    """

    def effect(self, operation: Operation, live: Live, /) -> AnyEffect:
        return Effect(operation.id, partial(self._start_or_find, operation, live))

    async def _start_or_find(self, operation: Operation, live: Live) -> Arrival | Timed:
        order = self._order(operation, live)
        try:
            head = await launch(live.host.home, live.host, self.workflow, order, live.host.clock)
        except IdempotencyMismatch as error:
            return live.failed(operation, error)
        if gave_up(head.status, head.body):
            reopened = await self._reopened(head, live)
            if reopened is None:
                return Timed(live.now_ms(), operation.id)
            head = reopened
        if head.status in CLOSED:
            return outcome(head, operation, live)
        watch(head.partition, operation, live)
        if head.status == QUEUED and not self._is_anothers(head, order):
            await self._let_in(head, live)
        if self._is_anothers(head, order) and not await live.ask_to_be_told(head.partition):
            head = await live.host.home.store.get(head.partition) or head  # it has ended, or was asked before
            if head.status in CLOSED:
                return outcome(head, operation, live)
        return check_again(head, operation, live)

    async def _let_in(self, head: Item, live: Live) -> None:
        """A child of ours that was retried waits in a queue. If we have a slot there, it shares that: it must not wait
        for a slot that we hold.
        """
        record, shares = decode_record(head.body), shared_by(live.record)
        if record.queued is None or record.queued.gate not in shares:
            return
        goes_on = Update(
            partition=head.partition,
            when=as_it_waits(head),
            status=READY,
            due_at=live.now_ms(),
            body=encode_record(replace(record, queued=None, shares=shares)),
            add_revision=1,
        )
        with suppress(Refused):
            await live.host.home.store.write(live.guard(), goes_on, place_delete(head.partition, record.queued))
            tell_left(head.partition, record.queued, live.host.home, live.host)
        wake(head.partition, live.host.home, live.host)

    async def _reopened(self, head: Item, live: Live) -> Item | None:
        """The child that we cancelled ourselves, when we failed, going on now that we were retried; ``None``: look
        again. One that has undone its work, or cannot be retried for good, is answered as it is. A later owner of ours
        may have cancelled it for good: only the present one retries it.
        """
        host = live.host
        try:
            await Retrier(host.home, host, live.registry, host.clock, (live.guard(),)).retry(head.partition)
        except (Undone, MayHaveHappened):
            return head
        except (InvalidState, NotFound):  # another process was faster
            return None
        return await host.home.store.get(head.partition)

    def awaited(self, operation: Operation, live: Live) -> str:
        """The partition of the child."""
        return partition_of(self.workflow.name, self.options.id or _id_of(operation, live))

    def _order(self, operation: Operation, live: Live) -> Launch:
        options, record = self.options, live.record
        return options.order(
            self.input,
            live.now_ms(),
            new_id=_id_of(operation, live),
            tags=record.tags,
            parent=Parent(
                live.partition, record.run, operation.id, record.nonce, on_end=options.on_parent_end or CANCEL
            ),
            root=root_of(record, live.partition),
            shares=shared_by(record),
            trace=live.traceparent(),
        )

    def _is_anothers(self, there: Item | None, order: Launch) -> bool:
        if self.options.id is None or there is None or order.parent is None:
            return False
        return not are_same(order.parent, decode_record(there.body).parent)

    def withdrawn(self, operation: Operation, live: Live, /) -> Sequence[AnyEffect]:
        if self.options.on_parent_end == LEAVE:
            live.host.watchers.remove(self.awaited(operation, live), (live.partition, operation.id))
            return ()
        return (Effect(f"{operation.id}!cancel", partial(self._cancel, operation, live)),)

    async def _cancel(self, operation: Operation, live: Live) -> None:
        partition, order = self.awaited(operation, live), self._order(operation, live)
        live.host.watchers.remove(partition, (live.partition, operation.id))
        store = live.host.home.store
        if self.options.id is not None and self._is_anothers(await store.get(partition), order):
            return
        request = CancelRequest(NO_LONGER_AWAITED, live.operation_key(f"{operation.id}!cancel"))
        while not await live.send(partition, request):
            head = await store.get(partition)
            if head is not None and (head.status in CLOSED or self._is_anothers(head, order)):
                return
            clock, telemetry = live.host.clock, live.host.telemetry
            if ended := await cancel_before_start(live.host.home, self.workflow, order, NO_LONGER_AWAITED, clock):
                if (tracer := telemetry.tracer) is not None:
                    telemetry.trace(tracer.recorded, partition, ended, ended.tail)
                    telemetry.trace(tracer.ended, partition, ended, CANCELLED)
                return


class StartDetached(Struct, frozen=True):
    """Start an execution that lives on by itself."""

    workflow: DeclaredWorkflow
    input: bytes
    options: StartOptions

    def effect(self, operation: Operation, live: Live, /) -> AnyEffect:
        return Effect(operation.id, partial(self._start, operation, live))

    async def _start(self, operation: Operation, live: Live) -> Arrival:
        order = self.options.order(
            self.input,
            live.now_ms(),
            new_id=_id_of(operation, live),
            tags={},
            starter=Parent(live.partition, live.record.run, operation.id, live.record.nonce),
            trace=live.traceparent(),
        )
        try:
            await launch(live.host.home, live.host, self.workflow, order, live.host.clock)
        except IdempotencyMismatch as error:
            return live.failed(operation, error)
        return live.done(operation, codec_for(str).encode(order.id), copy=order.id)

    def withdrawn(self, _operation: Operation, _live: Live, /) -> Sequence[AnyEffect]:
        return ()


def _id_of(operation: Operation, live: Live) -> str:
    return child_id(live.partition, live.record, live.name_of(operation.id))


def check_again(awaited: Item, operation: Operation, live: Live) -> Timed:
    """Look by oneself after a while."""
    now = live.now_ms()
    age_ms = now - decode_result(awaited.body).created_at
    return Timed(now + max(CHECK_AGAIN_MS, age_ms // CHECK_AGAIN_SHARE), operation.id)


def watch(partition: str, operation: Operation, live: Live) -> None:
    """Learn of an end in this process while it holds the execution that awaits it. Another process writes a message.

    An end that is written by now may have been taken back by a retry since, so then the operation looks again.
    """
    tell = _look_again if live.host.watchers.is_ending(partition) else _told
    live.host.watchers.add(partition, (live.partition, operation.id), partial(tell, partition, operation, live))


def _look_again(partition: str, operation: Operation, live: Live, conclusion: Conclusion | None) -> None:
    if conclusion is None:
        watch(partition, operation, live)
    else:
        remind(live.host, live.partition, operation.id)


def _told(partition: str, operation: Operation, live: Live, conclusion: Conclusion | None) -> None:
    if conclusion is None:  # it is suspended, or went elsewhere; it may come back
        watch(partition, operation, live)
    elif gave_up(conclusion.status, conclusion.body):
        remind(live.host, live.partition, operation.id)
    elif holds(live.host, live.partition):
        deliver(live.host, live.partition, _arrival(conclusion.status, conclusion.body, operation, live))


def outcome(ended: Item, operation: Operation, live: Live) -> Arrival:
    """How an execution that ended looks to the one that awaits it."""
    live.host.watchers.remove(ended.partition, (live.partition, operation.id))
    if ended.status == DELETED:
        return live.failed(operation, NotFound(f"there is no {describe_partition(ended.partition)}: it was deleted"))
    return _arrival(ended.status, ended.body, operation, live)


def _arrival(status: str, body: bytes, operation: Operation, live: Live) -> Arrival:
    recorded = decode_result(body)
    if recorded.result != NO_VALUE:
        return live.done(operation, bytes(recorded.result), began=recorded.created_at)
    error = outcome_error(status, decode_record(body), live.registry.errors)
    return live.failed(operation, error, began=recorded.created_at)
