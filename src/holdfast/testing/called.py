"""Processes that exist only when they are invoked, like functions of Lambda, and the queue that invokes them.

Wake-ups of a world with an ``Exchange`` are messages: delivered at least once, in batches and in no order, to processes
that serve one batch after another. Unfinished work is redelivered; the sweep finds the rest.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.errors import StoreUnavailable
from holdfast.hints import Hint, News
from holdfast.ports import WakeUp
from holdfast.testing.faults import DelayRing, DoubleRing, EarlyRing, LoseRing
from holdfast.testing.process import Process, ProcessDied
from holdfast.testing.virtual_time import outside

if TYPE_CHECKING:
    from holdfast.app import App
    from holdfast.clock import Clock
    from holdfast.runtime.lambda_ import LambdaHandler
    from holdfast.testing.wire import Wire

BATCH: Final = 10
VISIBILITY_SECONDS: Final = 30.0
SWEEP_SECONDS: Final = 15.0
INVOCATION_SECONDS: Final = 25.0
RECEIVES: Final = 5
SWEEP: Final = {"holdfast": "sweep"}


class Message:
    """A message of the queue: its content, and how often it was received."""

    __slots__ = ("body", "deleted", "id", "received")

    def __init__(self, id: str, body: str) -> None:
        self.id = id
        self.body = body
        self.received = 0
        self.deleted = False


class Context:
    """The context of an invocation."""

    def __init__(self, request_id: str) -> None:
        self.aws_request_id = request_id
        self._loop = asyncio.get_running_loop()
        self._until = self._loop.time() + INVOCATION_SECONDS

    def get_remaining_time_in_millis(self) -> int:
        """How much time is left."""
        return max(0, int((self._until - self._loop.time()) * 1000))


class Exchange:
    """The queue of a world, its sweeps, and the processes that it invokes."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._loop = asyncio.get_running_loop()
        self._visible: list[Message] = []
        self._news = asyncio.Event()
        self._count = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self.invocations = 0

    def send(self, partition: str, due_at: int, delay_seconds: float) -> None:
        """Accept a wake-up as a message, which is not delivered before the delay is over."""
        self._count += 1
        message = Message(f"m{self._count}", json.dumps(msgspec.to_builtins(WakeUp(partition, due_at))))
        self._loop.call_later(delay_seconds, self._show, message, context=outside())

    def _show(self, message: Message) -> None:
        if not message.deleted:
            self._visible.append(message)
            self._news.set()

    def employ(self, process: Process, handler: LambdaHandler) -> None:
        """Invoke this process from now on, until it is gone."""
        for work in (self._deliver(process, handler), self._sweep(process, handler)):
            task = self._loop.create_task(work, context=outside())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _deliver(self, process: Process, handler: LambdaHandler) -> None:
        while not (process.dead or process.leaving):
            if not self._visible:
                self._news.clear()
                news = asyncio.ensure_future(self._news.wait())
                either: set[asyncio.Future[Any]] = {news, process.died}
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED, timeout=SWEEP_SECONDS)
                news.cancel()
                continue
            self._random.shuffle(self._visible)
            batch, self._visible = self._visible[:BATCH], self._visible[BATCH:]
            for each in batch:
                each.received += 1
                if each.received < RECEIVES:
                    self._loop.call_later(VISIBILITY_SECONDS, self._show, each, context=outside())
            answer = await self._invoke(process, handler, event_of(batch))
            failed = {each["itemIdentifier"] for each in answer["batchItemFailures"]} if answer is not None else None
            for each in batch:
                each.deleted = failed is not None and each.id not in failed

    async def _sweep(self, process: Process, handler: LambdaHandler) -> None:
        while not (process.dead or process.leaving):
            await self._invoke(process, handler, SWEEP)
            await asyncio.sleep(SWEEP_SECONDS)

    async def _invoke(self, process: Process, handler: LambdaHandler, event: Any) -> Any:
        """The answer; ``None`` if there was none."""
        self.invocations += 1
        context = Context(f"request-{self.invocations}")

        async def handled() -> Any:
            if process.leaving:  # it was stopped while this call waited, and its app is closed
                raise ProcessDied(f"process {process.name} shuts down")
            return await handler.invoke(event, context)

        try:
            return await process.call(lambda: process.serve(handled))
        except (ProcessDied, StoreUnavailable, TimeoutError):
            return None

    def close(self) -> None:
        """Invoke nothing any more."""
        for task in self._tasks:
            task.cancel()


class Environment:
    """An open app, in a process that is invoked. It is entered and left inside that process."""

    def __init__(self, app: App, process: Process, exchange: Exchange) -> None:
        self._app = app
        self._process = process
        self._exchange = exchange
        self._handler: LambdaHandler = app.lambda_handler()

    async def __aenter__(self) -> None:
        await self._app.__aenter__()
        self._exchange.employ(self._process, self._handler)

    async def __aexit__(self, *_: object) -> None:
        await self._process.serve(self._handler.aclose)
        await self._app.__aexit__(None, None, None)


class FaultyCalls:
    """The doorbell and the invoker of one process, behind a ``Wire``: wake-ups get lost, come late, twice, or early. It
    receives none: a process that is not invoked polls.
    """

    def __init__(self, exchange: Exchange, wire: Wire, clock: Clock) -> None:
        self._exchange = exchange
        self._wire = wire
        self._clock = clock  # the sender gives the time until then, by its own clock

    def ring(self, hint: str | News) -> None:
        """See ``Doorbell.ring``."""
        if isinstance(hint, str):
            self.wake_at(hint, 0)

    def wake_at(self, partition: str, due_at: int) -> None:
        """See ``Invoker.wake_at``."""
        self._wire.victim.when_awake(lambda: self._leave(partition, due_at))

    def _leave(self, partition: str, due_at: int) -> None:
        fault = self._wire.plan.on_ring()
        if fault is not None and (due_at or not isinstance(fault, EarlyRing)):
            self._wire.suffer(fault)
        send, left_seconds = self._exchange.send, max(0.0, (due_at - self._clock.now_ms()) / 1000)
        match fault:
            case LoseRing():
                return
            case EarlyRing():
                send(partition, 0, 0.0)
            case DelayRing(seconds):
                send(partition, due_at, left_seconds + seconds)
            case DoubleRing(seconds):
                send(partition, due_at, left_seconds)
                send(partition, due_at, left_seconds + seconds)
            case None:
                send(partition, due_at, left_seconds)

    async def call(self, wake_ups: Sequence[WakeUp]) -> Sequence[WakeUp]:
        """See ``Invoker.call``."""
        for each in wake_ups:
            self.wake_at(each.partition, each.due_at)
        return ()

    async def sent(self) -> None:
        """See ``Invoker.sent``: they have left, each when it was sent."""

    def listen(self, heard: Callable[[Hint], None]) -> None:
        """See ``Doorbell.listen``."""

    def alive(self, owner: str) -> bool:  # noqa: ARG002 - the signature of Doorbell
        """See ``Doorbell.alive``."""
        return True

    def peers(self) -> frozenset[str]:
        """See ``Doorbell.peers``."""
        return frozenset()

    async def close(self) -> None:
        """See ``Doorbell.close``."""


def event_of(batch: list[Message]) -> dict[str, Any]:
    """The event that Lambda makes of messages of a queue."""
    return {"Records": [{"messageId": each.id, "body": each.body, "eventSource": "aws:sqs"} for each in batch]}
