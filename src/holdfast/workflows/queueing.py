"""How an execution comes to wait in a queue: at its start, and whenever it is queued again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from holdfast.errors import InvalidInput
from holdfast.flow.declarations import QueueFull, key_in
from holdfast.flow.gate import Gate
from holdfast.flow.record import QUEUED, Queueing, decode_gate, name_of, place_delete, place_put, waiting_of
from holdfast.items import AllOf, Condition, EpochIs, RevisionIs, StatusIn
from holdfast.kernel.wake import wake
from holdfast.workflows.record import ExecutionRecord, decode_record

if TYPE_CHECKING:
    from holdfast.flow.declarations import Queue, Queued
    from holdfast.items import Item
    from holdfast.kernel.host import Host
    from holdfast.ports import Home
    from holdfast.workflows.declared import DeclaredWorkflow


def queueing_of(
    workflow: DeclaredWorkflow, input: bytes, queued: Queued | None, shares: tuple[str, ...], *, since: int, epoch: int
) -> Queueing | None:
    """How an execution of a workflow waits; ``None`` if it does not, or shares a slot. Raises ``InvalidInput``."""
    queue: Queue | None = workflow.policy.queue
    if queue is None:
        if queued is not None:
            raise InvalidInput(f"workflow {workflow.name!r} has no queue: name one, @app.workflow(queue=...)")
        return None
    if queue.partition in shares:
        return None
    key = None if queued is None else queued.key
    if key is None:
        key = "" if (path := workflow.policy.queue_key) is None else key_in(input, path)
    ahead_ms = 0 if queued is None else queued.ahead_ms
    return Queueing(gate=queue.partition, key=key, ahead_ms=ahead_ms, since=since, epoch=epoch)


def queued_again(
    record: ExecutionRecord, workflow: DeclaredWorkflow | None, *, since: int, epoch: int
) -> Queueing | None:
    """How an execution waits that has begun before: as then, or by its workflow if it has shared a slot."""
    if record.queued is not None:
        return replace(record.queued, since=since, epoch=epoch)
    if workflow is None:
        return None
    return queueing_of(workflow, bytes(record.input), None, (), since=since, epoch=epoch)


def is_waiting(head: Item) -> bool:
    """Whether an execution that is open waits for a slot, though it may be paused: it has not begun since."""
    queued = decode_record(head.body).queued
    return queued is not None and queued.epoch == head.epoch


def as_it_waits(head: Item) -> Condition:
    """It waits still, and was not changed since its head was read."""
    return AllOf((StatusIn((QUEUED,)), RevisionIs(head.revision), EpochIs(head.epoch)))


def shared_by(record: ExecutionRecord) -> tuple[str, ...]:
    """The queues of which what this execution calls shares a slot."""
    return record.shares if record.queued is None else (*record.shares, record.queued.gate)


def tell_gate(partition: str, queued: Queueing, home: Home, host: Host | None) -> None:
    """The place of an execution is written: have the gate of its queue look."""
    gate = None if host is None else host.entities.get(queued.gate)
    if not (isinstance(gate, Gate) and gate.has_come(waiting_of(place_put(partition, queued).item))):
        wake(queued.gate, home, host)


def tell_left(partition: str, queued: Queueing, home: Home, host: Host | None) -> None:
    """The place of an execution is deleted, for it waits no more: have the gate of its queue count it no more."""
    gate = None if host is None else host.entities.get(queued.gate)
    if isinstance(gate, Gate) and gate.books is not None:
        gate.has_left(place_delete(partition, queued).sort)
    else:
        wake(queued.gate, home, host)


async def refuse_if_full(queue: Queue, partition: str, home: Home, host: Host | None) -> None:
    """Raise ``QueueFull`` if too many wait, unless the execution is there already. The count is the gate's last one."""
    if queue.most_waiting is None:
        return
    gate = None if host is None else host.entities.get(queue.partition)
    if isinstance(gate, Gate) and gate.books is not None:
        full = gate.books.waiting_with_news >= queue.most_waiting
    else:
        head = await home.store.get(queue.partition)
        full = head is not None and decode_gate(head.body).full
    if full and await home.store.get(partition) is None:
        queue.connect().telemetry.emit("queue_refused", partition=queue.partition)
        raise QueueFull(
            f"{queue.most_waiting:,} executions wait in queue {name_of(queue.partition)!r}: nothing was started. "
            "Try again later"
        )
