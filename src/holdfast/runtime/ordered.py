"""Messages of FIFO queues of SQS, which are calls of actors: those of a group in order, in one commit if possible.

After a failure the rest of the group is not handled: Lambda is told that the message and all behind it have failed, or
SQS would deliver those behind it as if they came first. "If you're using this feature with a FIFO queue, your function
should stop processing messages after the first failure and return all failed and unprocessed messages in
batchItemFailures. This helps preserve the ordering of messages in your queue"
(https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html).

They come back when the message is to be tried again: the visibility of all of them is changed, because "while messages
with a particular MessageGroupId are invisible, no more messages belonging to the same MessageGroupId are returned until
the visibility timeout expires"
(https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_ReceiveMessage.html).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from itertools import groupby
from random import Random
from typing import TYPE_CHECKING, Any

from msgspec import Raw, Struct

from holdfast import ids
from holdfast.actors.calling.series import call_in_series
from holdfast.actors.kind import ORDERED_RETRY
from holdfast.actors.record import QUEUE_PREFIX, Call, Origin
from holdfast.commands.actor import Call as CallCommand
from holdfast.commands.context import Context
from holdfast.errors import StoreUnavailable, UnknownName
from holdfast.kernel.identity import BY_CONTENT
from holdfast.ports import Postponed
from holdfast.runtime.shapes import OrderedMessage, check_numbers, ordered_call_of
from holdfast.texts import frames_of, printable

if TYPE_CHECKING:
    from holdfast.actors.reference import BoundMethod
    from holdfast.clock import Clock
    from holdfast.messaging.publishing import Publishes
    from holdfast.ports import Home

_logger = logging.getLogger("holdfast")


class Ready(Struct, frozen=True):
    """A message whose call was found, and fits."""

    message: OrderedMessage
    bound: BoundMethod
    call: Call


async def handle_group(
    done: Callable[[str], None], messages: Sequence[OrderedMessage], app: Publishes, clock: Clock
) -> list[Postponed]:
    """Handle the messages of one group in order, up to the first that fails; ``done`` is told of each one that is done.

    Answers when the others are to be delivered again.
    """
    ready: list[Ready] = []
    again_at: int | None = None
    for message in messages:
        try:
            ready.append(_ready(message, app, clock))
        except Exception as error:  # noqa: BLE001 - the error holds up the group of this message only
            report(message.id, error)
            break
    count = 0
    for _, run in groupby(ready, key=lambda each: each.bound.reference.partition):  # a group may be of several classes
        calls = list(run)
        applied = await call_in_series(calls[0].bound.reference, [each.call for each in calls], app.runtime())
        for each in calls[: applied.count]:
            done(each.message.id)
        count += applied.count
        if applied.count < len(calls):
            again_at = applied.again_at
            if applied.error is not None:
                report(calls[applied.count].message.id, applied.error)
            break
    left = messages[count:]
    if not left:
        return []
    now = clock.now_ms()
    seconds = _delay_seconds(left[0]) if again_at is None else max(0.0, (again_at - now) / 1000)
    return [Postponed(each.queue, each.receipt, seconds) for each in left if each.queue and each.receipt]


def _ready(message: OrderedMessage, app: Publishes, clock: Clock) -> Ready:
    """The call that a message asks for. Raises what is wrong with it."""
    check_numbers(message.body)
    asked = ordered_call_of(message.body)
    command = CallCommand(asked.actor, message.group, asked.method, Raw(bytes(asked.args)), asked.id)
    prepared = command.prepared(Context(app))
    method, runtime = prepared.bound.method, app.runtime()
    data = method.signature.bind(prepared.args, prepared.kwargs, limit_bytes=runtime.limit_bytes)
    origin = _origin(message, asked.id)
    call = Call(
        id=origin.id,
        method=method.name,
        args=Raw(data),
        known=origin.requested,
        named=origin.requested,
        sent_at=clock.now_ms(),
        naming=BY_CONTENT,
        origin=origin,
    )
    return Ready(message, prepared.bound, call)


def _origin(message: OrderedMessage, requested: str | None) -> Origin:
    """How a repeat of a message is recognised: by the id in its body, which any caller may use; else by its
    deduplication id, in whichever queue; else by its own id.

    A message that was received before may have been applied under its own id: by code that knew no other, or before it
    was moved to the dead letters, where that id becomes its deduplication id ("the original message's deduplication ID
    will be replaced with the original message's ID",
    https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-configure-dead-letter-queue-redrive.html).
    """
    return Origin(
        queue=ids.fingerprint(message.queue.encode()),
        id=requested or QUEUE_PREFIX + (message.deduplication_id or message.id),
        sequence=message.sequence,
        sent_at=message.sent_at,
        aliases=(QUEUE_PREFIX + message.id,) if message.receives > 1 else (),
        requested=requested is not None,
    )


def _delay_seconds(message: OrderedMessage) -> float:
    """When a message is to be delivered again that reached no actor, or of which it is not known what became."""
    return ORDERED_RETRY.delay_seconds(message.receives, Random(f"{message.id}/{message.receives}"))


async def postpone(messages: Sequence[Postponed], home: Home, emit: Callable[..., Any]) -> None:
    """Have messages delivered again when their time has come. If that cannot be done, they come later: when the time
    is over for which their queue hides what was received.
    """
    if home.redelivery is None or not messages:
        return
    if lost := await home.redelivery.postpone(messages):
        emit("postpone_failed", count=len(messages), error=lost)


def report(id: str, error: BaseException) -> None:
    """Write an error into the function's log, with its stack unless the store did not answer or a name is unknown. Its
    text is left out, because it may quote the message.
    """
    name = type(error).__name__
    told = name if isinstance(error, (StoreUnavailable, UnknownName)) else frames_of(error)
    _logger.error("message %s was not handled, and will be delivered again: %s", printable(id), told)
