"""AWS in virtual time: queues and Lambda environments, as far as their guides say how they behave.

Messages are delivered at least once, in batches, to environments that serve one invocation at a time. Everything that
would be paid for is counted.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, Self

from msgspec.structs import replace

import holdfast as hf
from holdfast.backends.aws import Bells, SqsDoorbell, parse_address
from holdfast.backends.aws.connection import Connection
from holdfast.bus import EventBus
from holdfast.errors import StoreUnavailable
from holdfast.ports import Home
from holdfast.runtime.lambda_ import LambdaHandler
from holdfast.testing.virtual_time import VirtualClock, run_virtual
from holdfast.testing.world import swift

URL = "aws://test?region=eu-west-1"
TIMEOUT_SECONDS = 60
VISIBILITY_SECONDS = 6 * TIMEOUT_SECONDS
SWEEP_SECONDS = 60
LATEST_SECONDS = 40


class Context:
    def __init__(self, seconds: float, request_id: str) -> None:
        self.aws_request_id = request_id
        self._loop = asyncio.get_running_loop()
        self._until = self._loop.time() + seconds

    def get_remaining_time_in_millis(self) -> int:
        return int((self._until - self._loop.time()) * 1000)


class Refusal(Exception):
    def __init__(self, code: str, status: int = 400) -> None:
        super().__init__(code)
        self.response = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}


class Sqs:
    """A queue. ``broken`` names what is to go wrong with each next request."""

    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud
        self.broken: list[Exception | str] = []
        self.requests: Counter[str] = Counter()
        self.sent: list[dict[str, Any]] = []
        self.delays: list[int] = []

    async def send(self, operation: str, parameters: dict[str, Any]) -> dict[str, Any]:
        self.requests[operation] += 1
        await asyncio.sleep(0.01)
        fault = self.broken.pop(0) if self.broken else None
        if isinstance(fault, Exception):
            raise fault
        match operation:
            case "GetQueueUrl":
                return {"QueueUrl": f"queue:{parameters['QueueName']}"}
        assert operation == "SendMessageBatch" and parameters["QueueUrl"] == "queue:test-holdfast-doorbell"
        entries = parameters["Entries"]
        assert 1 <= len(entries) <= 10 and len({each["Id"] for each in entries}) == len(entries)
        failed = [{"Id": entries[0]["Id"], "Code": fault, "SenderFault": False}] if fault else []
        for each in entries[len(failed) :]:
            assert 0 <= each["DelaySeconds"] <= 900
            self.sent.append(json.loads(each["MessageBody"]))
            self.delays.append(each["DelaySeconds"])
            self.cloud.put(each["MessageBody"], each["DelaySeconds"])
        return {"Successful": [{"Id": each["Id"]} for each in entries[len(failed) :]], "Failed": failed}

    def close(self) -> None:
        pass


class Outage:
    """A store that may be out of reach."""

    def __init__(self, store: Any, cloud: Cloud) -> None:
        self._store = store
        self._cloud = cloud

    def __getattr__(self, name: str) -> Any:
        if self._cloud.is_down and name in {"write", "get", "query"}:
            raise StoreUnavailable("nobody answers")
        return getattr(self._store, name)


class Cloud:
    """``build(app)`` registers what an environment runs; without, messages stay where they are. Within ``async with``
    the queue delivers.
    """

    def __init__(self, open_store: Callable[[str], Awaitable[Home]], build: Callable[[hf.App], Any] | None) -> None:
        self.clock = VirtualClock()
        self.sqs = Sqs(self)
        self.told: Counter[str] = Counter()
        self.dead: list[str] = []
        self.invocations: Counter[str] = Counter()
        self.environments: list[LambdaHandler] = []
        self.doubles = 0
        self.is_down = False
        self.bus: EventBus | None = None
        self.way_to_queue: Connection | None = None
        self.disorder: Random | None = None
        """Draws which messages come late, so that others overtake them, and which come again."""
        self.mishaps: Counter[str] = Counter()
        self.timeout_seconds: float = TIMEOUT_SECONDS
        self._open_store = open_store
        self._build = build
        self._idle: list[LambdaHandler] = []
        self._numbers = itertools.count()
        self._queue: list[tuple[str, str, int]] = []
        self._news = asyncio.Event()
        self._tasks: set[asyncio.Task[Any]] = set()

    # ── Environments ────────────────────────────────────────────────────────────────────────────────────────────────

    def app(self) -> hf.App:
        async def open_home() -> Home:
            owner = f"env-{next(self._numbers)}"
            home = await self._open_store(owner)
            ringer = parse_address(URL).bells(self.way_to_queue or self.sqs)
            doorbell = SqsDoorbell(Bells(), owner, ringer, self.clock, self._tell)
            return replace(
                home, store=Outage(home.store, self), doorbell=doorbell, invoker=doorbell, bus=self.bus or home.bus
            )

        app = hf.App("shop", home=open_home, clock=self.clock, limits=swift())
        assert self._build is not None
        self._build(app)
        return app

    def _tell(self, event: str, **fields: Any) -> None:
        self.told[event] += fields.get("count", 1)

    def environment(self) -> LambdaHandler:
        handler = self.app().lambda_handler()
        self.environments.append(handler)
        return handler

    async def invoke(self, event: Any, handler: LambdaHandler | None = None) -> Any:
        """In an environment that is idle, else in a new one."""
        self.invocations["holdfast" if "holdfast" in event else "batch"] += 1
        chosen = handler or (self._idle.pop() if self._idle else self.environment())
        answer = await chosen.invoke(event, Context(self.timeout_seconds, f"request-{next(self._numbers)}"))
        worker = chosen._worker
        assert worker is not None
        assert not [each.partition for each in worker.host.entities.values() if each.held], "a lease was kept"
        bell = worker.host.home.doorbell
        assert not isinstance(bell, SqsDoorbell) or not (bell._waiting or bell._sending), "a ring was frozen on its way"
        json.dumps(answer)
        if handler is None:
            self._idle.append(chosen)
        return answer

    async def kill(self, handler: LambdaHandler, invocation: asyncio.Task[Any]) -> None:
        """The environment is gone, in the midst of what it does."""
        worker = handler._worker
        assert worker is not None
        worker.worker.abandon()
        invocation.cancel()
        await asyncio.wait((invocation,))
        handler._worker = None

    # ── The queue ───────────────────────────────────────────────────────────────────────────────────────────────────

    def put(self, body: str, delay_seconds: float, *, id: str | None = None, received: int = 0) -> None:
        message = (id or f"message-{next(self._numbers)}", body, received + 1)

        def visible() -> None:
            self._queue.append(message)
            self._news.set()

        loop = asyncio.get_running_loop()
        if self.disorder is not None and self.disorder.random() < 0.4:
            self.mishaps["late"] += 1
            delay_seconds += self.disorder.random() * LATEST_SECONDS
        if self.disorder is not None and self.disorder.random() < 0.3:
            self.mishaps["again"] += 1
            loop.call_later(delay_seconds + self.disorder.random() * LATEST_SECONDS, visible)
        loop.call_later(delay_seconds, visible)

    async def _poll(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            while self._queue:
                batch, self._queue = self._queue[:10], self._queue[10:]
                for _ in range(1 + self.doubles):
                    self._spawn(self._deliver(batch))

    async def _deliver(self, batch: list[tuple[str, str, int]]) -> None:
        event = event_of(*((id, body) for id, body, _ in batch))
        try:
            answer = await self.invoke(event)
            failed = {each["itemIdentifier"] for each in answer["batchItemFailures"]}
        except Exception:
            failed = {id for id, _, _ in batch}
        for id, body, received in batch:
            if id in failed and received >= 10:
                self.dead.append(body)
            elif id in failed:
                self.put(body, VISIBILITY_SECONDS, id=id, received=received)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            await self.invoke({"holdfast": "sweep"})

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def __aenter__(self) -> Self:
        if self._build is not None:
            self._spawn(self._poll())
        return self

    def begin_sweeping(self) -> None:
        self._spawn(self._sweep())

    async def __aexit__(self, *_: object) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for each in self.environments:
            await each.aclose()


def event_of(*messages: tuple[str, str], group: str | None = None) -> dict[str, Any]:
    """What Lambda makes of messages of a queue."""
    attributes = {} if group is None else {"MessageGroupId": group}
    arn = "arn:aws:sqs:eu-west-1:000000000000:queue" + ("" if group is None else ".fifo")
    return {
        "Records": [
            {"messageId": id, "body": body, "attributes": attributes, "eventSource": "aws:sqs", "eventSourceARN": arn}
            for id, body in messages
        ]
    }


def in_cloud(make: Callable[[], Any], story: Callable[[Cloud, Any], Awaitable[None]]) -> None:
    """Play a story, in virtual time, on a cloud of what is made: it opens homes, and declares what runs."""

    async def main() -> None:
        shop = make()
        async with Cloud(shop.open, shop) as cloud:
            await story(cloud, shop)

    run_virtual(main)
