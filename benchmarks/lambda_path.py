"""What work costs on the path of a function: on DynamoDB Local, as it reports units, in virtual time.

A client in one process starts and sends; the queue, the function and its sweep are those of ``tests.backends.aws``.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from tests.backends.aws.cloud import Cloud
from tests.backends.aws.fifo import Fifo
from tests.backends.aws.streamed import StreamedDatabase
from tests.backends.aws.world import DynamoDatabase
from tests.cost.workloads import WITHIN_A_UNIT, noise

import holdfast as hf
from holdfast.actors.reference import method_named
from holdfast.backends.aws import Usage
from holdfast.cost.ours import Used, bill_of
from holdfast.cost.queue import Requests
from holdfast.testing.virtual_time import run_virtual

PAUSE_SECONDS = 61.0
BATCHES_PER_RUN = 4

INDEX = frozenset({"Scan", "BatchGetItem"})
"""What sweeps ask with; they depend on time, and not on work."""


class Shop:
    """What the function runs, and how often."""

    def __init__(self) -> None:
        self.done: Counter[str] = Counter()

    def __call__(self, app: hf.App) -> None:
        """Declare it in the app of a process."""
        done, result = self.done, noise(WITHIN_A_UNIT)

        @app.step
        async def step(_number: int) -> str:
            return result

        @app.workflow
        async def work(wait: str) -> None:
            for number in range(5):
                await step(number)
            if wait:
                await hf.sleep(wait)
            done["work"] += 1

        class Log(hf.Actor, app=app):
            lines: int = 0

            async def append(self) -> None:
                self.lines += 1
                done["append"] += 1

        class Sender(hf.Actor, app=app):
            async def pass_on(self) -> None:
                await hf.send(Log.at("two").append)


@dataclass
class Path:
    """A table, the function on it, and a client."""

    database: DynamoDatabase
    cloud: Cloud
    runs: int

    def usage(self) -> Usage:
        """What all processes have asked of the table so far, without sweeps."""
        found = Usage()
        for store in self.database.stores:
            for operation, each in store.meter.usage.items():
                if operation not in INDEX:
                    found.requests += each.requests
                    found.write_units += each.write_units
                    found.read_units += each.read_units
        return found

    async def used(self, work: Callable[[int], Awaitable[object]], times: int = 1) -> Used:
        """What a piece of work uses; the first is not counted, since it finds nothing warm."""
        runs = self.runs * times
        await work(0)
        await asyncio.sleep(PAUSE_SECONDS)
        before, queue, sent = self.usage(), self.cloud.invocations["batch"], len(self.swept)
        sends = self.cloud.sqs.requests["SendMessageBatch"]
        for number in range(1, runs + 1):
            await work(number)
            await asyncio.sleep(PAUSE_SECONDS)
        after, swept = self.usage(), len(self.swept) - sent
        return Used(
            runs=runs,
            usage=Usage(
                after.requests - before.requests,
                after.write_units - before.write_units,
                after.read_units - before.read_units,
            ),
            queue=Requests(
                self.cloud.sqs.requests["SendMessageBatch"] - sends - swept,
                self.cloud.invocations["batch"] - queue - swept,
            ),
            swept=Requests(swept, swept),
            invocations=self.cloud.invocations["batch"] - queue,
        )

    @property
    def swept(self) -> list[int]:
        """The delays of what sweeps have sent: they see ends of long waits ahead."""
        return [each for each in self.cloud.sqs.delays if each > 0]

    async def workflows(self, wait: str) -> Used:
        """Five steps, with a wait."""
        client = self.cloud.app()
        work: Any = client.registry.workflow("work")
        async with client:

            async def run(number: int) -> None:
                await work.start(wait, id=f"{wait}-{number}")
                await asyncio.sleep(3_700 if wait else 5)

            return await self.used(run)

    async def invoked(self, wait: str) -> Used:
        """The same, started by an invocation of the function, which then does the work."""

        async def run(number: int) -> None:
            id = f"{wait}-invoked-{number}"
            await self.cloud.invoke({"holdfast": "start", "workflow": "work", "id": id, "input": [wait]})
            await asyncio.sleep(3_700 if wait else 5)

        return await self.used(run)

    async def commanded(self, wait: str) -> Used:
        """The same, started by a message of the queue that says what to start, with no write of the client's own."""

        async def run(number: int) -> None:
            start = {"holdfast": "start", "workflow": "work", "id": f"{wait}-commanded-{number}", "input": [wait]}
            entry = {"Id": "start", "MessageBody": json.dumps(start), "DelaySeconds": 0}
            await self.cloud.sqs.send(
                "SendMessageBatch", {"QueueUrl": "queue:test-holdfast-doorbell", "Entries": [entry]}
            )
            await asyncio.sleep(3_700 if wait else 5)

        return await self.used(run)

    async def messages(self, *, between_actors: bool = False) -> Used:
        """A message to an actor that sleeps: of a client, or of another actor besides the one to that."""
        client = self.cloud.app()
        actor, method = ("Sender", "pass_on") if between_actors else ("Log", "append")
        bound = method_named(client.registry.actors[actor], "one", method)
        async with client:
            return await self.used(lambda _: hf.send(bound))

    async def batches(self) -> Used:
        """Ten ordered messages of SQS to one actor, in one batch."""
        handler, queue = self.cloud.environment(), Fifo(self.cloud.clock.now_ms)

        async def deliver(_number: int) -> None:
            for _ in range(10):
                assert queue.send("one", {"actor": "Log", "method": "append", "args": []})
            await queue.deliver(handler)
            assert not queue.kept

        return await self.used(deliver, BATCHES_PER_RUN)


def measured(client: Any, runs: int = 6, *, streamed: bool = False) -> dict[str, Used]:
    """The rows, from a client of DynamoDB Local; ``streamed``: with ``holdfast aws settings --cover stream``."""

    async def main() -> dict[str, Used]:
        database, shop = StreamedDatabase(client) if streamed else DynamoDatabase(client), Shop()
        async with Cloud(database.open, shop) as cloud:
            cloud.begin_sweeping()
            path = Path(database, cloud, runs)
            found = {
                "5 steps": await path.workflows(""),
                "5 steps and an hour": await path.workflows("1h"),
                "5 steps, invoked": await path.invoked(""),
                "5 steps and an hour, invoked": await path.invoked("1h"),
                "5 steps, commanded": await path.commanded(""),
                "5 steps and an hour, commanded": await path.commanded("1h"),
                "message": await path.messages(),
                "two messages": await path.messages(between_actors=True),
                "ordered batch of ten": await path.batches(),
            }
            appended = 2 * (runs + 1) + 10 * (BATCHES_PER_RUN * runs + 1)
            assert shop.done == {"work": 6 * (runs + 1), "append": appended}, shop.done
        await database.close()
        return found

    return run_virtual(main)


def dollars(used: Used) -> float:
    """Dollars per million, without the time in functions."""
    return float(bill_of("", used).usd_per_million)
