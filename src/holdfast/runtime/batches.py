"""Batches: each message is answered for by itself, so that those that are done do not come again.

Lambda takes an answer that lists ``batchItemFailures`` ("Reporting batch item failures for Lambda functions with an
Amazon SQS trigger", developer guide); the event source must be set to ``ReportBatchItemFailures``.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from msgspec import Raw

from holdfast.commands import perform
from holdfast.commands.actor import Call
from holdfast.errors import StoreUnavailable, UnknownName
from holdfast.kernel.host import quiet
from holdfast.messaging.arrivals import IncomingEvent
from holdfast.messaging.declarations import Publishes, take_from_bus
from holdfast.ports import WakeUp
from holdfast.runtime.lambda_table import Sweep, begin, place_of
from holdfast.runtime.shapes import (
    Changes,
    Message,
    Messages,
    Ordered,
    OrderedMessage,
    check_numbers,
    message_of,
    ordered_call_of,
)
from holdfast.texts import frames_of, printable

if TYPE_CHECKING:
    from holdfast.kernel.host import Host
    from holdfast.kernel.wakeups import Invocations
    from holdfast.runtime.lambda_table import Order

_logger = logging.getLogger("holdfast")


class Batch:
    """The messages of one batch that are not done yet, in their order."""

    def __init__(self, ids: list[str]) -> None:
        self._open = dict.fromkeys(ids)

    def done(self, id: str) -> None:
        """It need not come again."""
        self._open.pop(id, None)

    def answer(self) -> dict[str, Any]:
        """What to answer to Lambda now."""
        return {"batchItemFailures": [{"itemIdentifier": id} for id in self._open]}


def batch_of(work: Messages | Ordered | Changes) -> Batch:
    """A batch none of which is done."""
    match work:
        case Messages(messages):
            return Batch([each.id for each in messages])
        case Ordered(ordered):
            return Batch([each.id for each in ordered])
        case Changes(changes):
            return Batch([id for id, _ in changes])


async def handle(
    batch: Batch, work: Messages | Ordered | Changes, app: Publishes, host: Host, calls: Invocations
) -> None:
    """Do all that a batch asks for; returns when nothing is under way any more."""
    match work:
        case Messages(messages):
            await _handle_messages(batch, messages, app, host, calls)
        case Ordered(ordered):
            groups: dict[str, list[OrderedMessage]] = {}
            for message in ordered:
                groups.setdefault(message.group, []).append(message)
            await asyncio.gather(*(_handle_group(batch, each, app) for each in groups.values()))
            await quiet(host)
        case Changes(changes):
            for _, partition in changes:
                if partition is not None:
                    host.check(partition)  # what others serve is in the same stream
            await quiet(host)
            for id, partition in changes:
                if partition in calls.failures:
                    return  # Lambda goes on from the first one that failed
                batch.done(id)


async def _handle_messages(
    batch: Batch, messages: tuple[Message, ...], app: Publishes, host: Host, calls: Invocations
) -> None:
    """Beside each other. Two rings for one entity are one look."""
    began = dict(
        zip(messages, await asyncio.gather(*(_begin(each, app, host, calls) for each in messages)), strict=True)
    )
    await quiet(host)
    for message, command in began.items():
        if isinstance(command, IncomingEvent) or (
            command is not None and place_of(command, message.id) not in calls.failures
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
            case Sweep():
                pass
            case _:
                await begin(command, message.id, app)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is this message's alone
        _report(message.id, error)
        return None
    return command


def take_wake_up(wake_up: WakeUp, host: Host, calls: Invocations) -> None:
    """Look at what somebody rang for. Raises ``UnknownName`` if there is no code for it here."""
    if wake_up.due_at > host.clock.now_ms():
        calls.wake(wake_up.partition, wake_up.due_at)  # the last leg of a schedule
        return
    calls.called(wake_up.partition)
    if not host.check(wake_up.partition):
        raise UnknownName(f"nobody here serves {wake_up.partition}")


async def _handle_group(batch: Batch, messages: list[OrderedMessage], app: Publishes) -> None:
    """One after another, up to the first that fails."""
    for message in messages:
        try:
            check_numbers(message.body)
            asked = ordered_call_of(message.body)
            call = Call(asked.actor, message.group, asked.method, Raw(bytes(asked.args)), asked.id)
            await perform(call, app, own_id=message.id)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is this message's, and holds up its group alone
            _report(message.id, error)
            return
        batch.done(message.id)


def _report(id: str, error: Exception) -> None:
    """Into the function's log, with where it was raised; but the store's silence is not its fault. Never with what the
    error says: that may be what the message held.
    """
    name = type(error).__name__
    told = name if isinstance(error, (StoreUnavailable, UnknownName)) else frames_of(error)
    _logger.error("message %s was not handled, and comes again: %s", printable(id), told)
