"""Batches: each message is acknowledged by itself, so that a message that is done is not delivered again.

The response to Lambda lists ``batchItemFailures`` ("Reporting batch item failures for Lambda functions with an
Amazon SQS trigger", developer guide); the event source must be set to ``ReportBatchItemFailures``.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from holdfast.errors import ConfigurationError, UnknownName
from holdfast.kernel.host import quiet
from holdfast.messaging.arrivals import IncomingEvent, take_from_bus
from holdfast.messaging.publishing import Publishes
from holdfast.ports import WakeUp
from holdfast.runtime.lambda_table import CleanUp, Sweep, begin, place_of
from holdfast.runtime.ordered import handle_group, postpone, report
from holdfast.runtime.shapes import (
    Changes,
    Message,
    Messages,
    Ordered,
    OrderedMessage,
    message_of,
)

if TYPE_CHECKING:
    from holdfast.kernel.host import Host
    from holdfast.kernel.wakeups import Invocations
    from holdfast.ports import Home
    from holdfast.runtime.lambda_table import Order


class Batch:
    """The messages of one batch that are not done yet, in their order."""

    def __init__(self, ids: list[str]) -> None:
        self._open = dict.fromkeys(ids)

    def done(self, id: str) -> None:
        """The message is done: it need not be delivered again."""
        self._open.pop(id, None)

    def answer(self) -> dict[str, Any]:
        """The response to Lambda: the messages that are not done."""
        return {"batchItemFailures": [{"itemIdentifier": id} for id in self._open]}


def batch_of(work: Messages | Ordered | Changes) -> Batch:
    """A batch in which no message is done."""
    match work:
        case Messages(messages):
            return Batch([each.id for each in messages])
        case Ordered(ordered):
            return Batch([each.id for each in ordered])
        case Changes():
            return Batch([])


async def handle(
    batch: Batch, work: Messages | Ordered | Changes, app: Publishes, host: Host, calls: Invocations
) -> None:
    """Do the work of a batch. Returns once all work is idle; ``batch`` then tells what is not done."""
    match work:
        case Messages(messages):
            await _handle_messages(batch, messages, app, host, calls)
        case Ordered(ordered):
            groups: dict[str, list[OrderedMessage]] = {}
            for message in ordered:
                groups.setdefault(message.group, []).append(message)
            told = await asyncio.gather(*(handle_group(batch.done, each, app, host.clock) for each in groups.values()))
            await postpone([each for group in told for each in group], host.home, host.telemetry.emit)
            await quiet(host)
        case Changes() as changes:
            await keep_laggards(changes, host.home)


async def _handle_messages(
    batch: Batch, messages: tuple[Message, ...], app: Publishes, host: Host, calls: Invocations
) -> None:
    """Handle messages concurrently. Two wake-ups of one entity lead to one check."""
    began = dict(
        zip(messages, await asyncio.gather(*(_begin(each, app, host, calls) for each in messages)), strict=True)
    )
    await quiet(host)
    for message, command in began.items():
        if isinstance(command, IncomingEvent) or (
            command is not None and place_of(command, message.own_id) not in calls.failures
        ):
            batch.done(message.id)


async def _begin(message: Message, app: Publishes, host: Host, calls: Invocations) -> Order | IncomingEvent | None:
    try:
        command = message_of(message.body)
        match command:
            case IncomingEvent():
                await take_from_bus(app, command)
            case WakeUp():
                take_wake_up(command, host, calls)
            case Sweep() | CleanUp():
                pass
            case _:
                await begin(command, message.own_id, app)
    except Exception as error:  # noqa: BLE001 - the error concerns this message only
        report(message.id, error)
        return None
    return command


async def keep_laggards(changes: Changes, home: Home) -> None:
    """What the stream shows as still to be done comes into the index. An error fails the whole batch, which Lambda
    delivers again: nothing of it may be left out (G1).
    """
    if home.laggards is None:
        raise ConfigurationError(f"records of a stream of DynamoDB came to a function whose home is {home.url}")
    await home.laggards.keep(changes.unfinished)


def take_wake_up(wake_up: WakeUp, host: Host, calls: Invocations) -> None:
    """Check the entity that a wake-up names, or pass the wake-up on to the function that works on it. Raises
    ``UnknownName`` if this app has no code for it.
    """
    if wake_up.due_at > host.clock.now_ms():
        calls.wake(wake_up.partition, wake_up.due_at)  # the last leg of a schedule
        return
    if not host.home.serves(wake_up.partition):
        calls.wake(wake_up.partition, 0)
        return
    calls.called(wake_up.partition)
    if not host.check(wake_up.partition):
        raise UnknownName(f"no code here serves {wake_up.partition}")
