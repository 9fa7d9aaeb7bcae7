"""Waiting in a body for the end of an execution that it did not start: ``await handle``.

The one that waits asks the other one to be told: a message in its inbox, which the other notes in its journal, and
answers when it ends. The answer says how: the one that ended may have expired before its answer is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Raw, Struct

from holdfast import ids
from holdfast.coordination.inbox import Sender
from holdfast.errors import NotFound
from holdfast.replay.entries import Done, Entry, Failed, Marked
from holdfast.replay.program import AnyEffect, Arrival, Effect, Timed
from holdfast.replay.requests import Operation
from holdfast.workflows.live import Live
from holdfast.workflows.operations.child import CallChild, check_again, outcome, refuse_itself, watch
from holdfast.workflows.record import (
    AWAITED_MARK,
    CLOSED,
    AwaitedEnded,
    AwaitRequest,
    ChildEnded,
    ExecutionRecord,
    describe_partition,
    post,
    workflow_of,
)

if TYPE_CHECKING:
    from holdfast.failure import ErrorRecord
    from holdfast.kernel.outcomes import Post
    from holdfast.replay.activation import Activation
    from holdfast.replay.requests import Decode, Request


async def await_execution(activation: Activation, partition: str, decode: Decode) -> Any:
    """The body half of waiting for an execution by its handle."""
    refuse_itself(activation, partition)
    command = AwaitExecution(partition)
    return await activation.request(
        "await", workflow_of(partition), command, fingerprint=ids.fingerprint(partition.encode()), decode=decode
    )


class AwaitExecution(Struct, frozen=True):
    """Wait for the end of an execution that the body did not start."""

    partition: str

    def effect(self, operation: Operation, live: Live, /) -> AnyEffect:
        return Effect(operation.id, lambda: self._look(operation, live))

    def awaited(self, _operation: Operation, _live: Live) -> str:
        """The partition of the other one."""
        return self.partition

    async def _look(self, operation: Operation, live: Live) -> Arrival | Timed:
        store = live.host.home.store
        head = await store.get(self.partition)
        if head is not None and head.status not in CLOSED:
            watch(self.partition, operation, live)  # first: it may end in this process before the store has answered
            if await live.ask_to_be_told(self.partition):
                return check_again(head, operation, live)
            head = await store.get(self.partition)
        if head is None:
            return live.failed(operation, NotFound(f"there is no {describe_partition(self.partition)}"))
        if head.status in CLOSED:
            return outcome(head, operation, live)
        return check_again(head, operation, live)  # it had been asked before

    def withdrawn(self, operation: Operation, live: Live, /) -> Sequence[AnyEffect]:
        live.host.watchers.remove(self.partition, (live.partition, operation.id))
        return ()


def note(request: AwaitRequest, now: int) -> Entry:
    """What the awaited execution writes into its journal, so that it knows at its end."""
    return Marked(AWAITED_MARK + request.by, now)


def awaiting(entries: Iterable[Entry]) -> list[str]:
    """The partitions of those who have asked to be told, by the notes in a journal."""
    marks = (entry.id for entry in entries if isinstance(entry, Marked) and entry.id.startswith(AWAITED_MARK))
    return [mark.removeprefix(AWAITED_MARK) for mark in marks]


def waiting_for(partition: str, requests: Iterable[Request], live: Live) -> list[Operation]:
    """The operations that wait for the end of an execution."""
    operations = (each for each in requests if isinstance(each, Operation))
    waiting = (each for each in operations if isinstance(each.command, (AwaitExecution, CallChild)))
    return [each for each in waiting if each.command.awaited(each, live) == partition]


def answers(ended: AwaitedEnded, awaited_by: Iterable[str], sender: Sender, now: int) -> list[Post]:
    """The messages to all who have asked."""
    return [(by, partial(post, by, sender.next_sort(), ended, now)) for by in awaited_by]


def may_be_old(ended: ChildEnded | AwaitedEnded, receiver: ExecutionRecord) -> bool:
    """Whether an error may be that of before a retry of both: it was posted behind the end, and the receiver was
    retried.
    """
    return ended.stays and receiver.timed_from != 0


def told_of(operation: Operation, value: Raw, error: ErrorRecord | None, now: int) -> Done | Failed:
    """The entry for an operation that waits, from a message that says how it ended."""
    if error is not None:
        return Failed(operation.id, now, operation.kind, error, operation.fingerprint)
    return Done(operation.id, now, operation.kind, value, operation.fingerprint)


def arrival_of(waiting: Sequence[Operation], value: Raw, error: ErrorRecord | None, live: Live) -> Arrival | None:
    """The arrival for the first of the operations that wait for the same execution; the others have theirs, too."""
    arrivals = [Arrival(told_of(each, value, error, live.now_ms())) for each in waiting]
    for other in arrivals[1:]:
        live.report(other.entry)
    return arrivals[0] if arrivals else None
