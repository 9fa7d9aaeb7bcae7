"""The Scheduler and EventBridge on ministack: a ring far away, and two homes that talk over a bus.

Its schedules and rules fire on a tick of its own, some seconds late: nothing here says when, only "not before".
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from msgspec.structs import replace
from tests.backends.aws.cloud import event_of
from tests.infra.ministack import wait_until

import holdfast as hf
from holdfast.backends.aws import Bells, SqsDoorbell, parse_address
from holdfast.backends.aws.connection import new_client
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.clock import SystemClock
from holdfast.ports import Home, WakeUp
from holdfast.testing import with_bus

pytestmark = [pytest.mark.aws, pytest.mark.process, pytest.mark.slow]

NUMBERS = itertools.count()
ROLE = "arn:aws:iam::000000000000:role/ring"
QUARTER_MS = 15 * 60_000
LAST_LEG_MS = 2 * 60_000


class Account:
    """Clients of the emulator, and the queue and the URL of a home of its own."""

    def __init__(self, endpoint: str) -> None:
        self.prefix = f"events-{os.getpid()}-{next(NUMBERS)}"
        self.url = f"aws://{self.prefix}?region=eu-west-1&endpoint={endpoint}"
        self.sqs, self.scheduler, self.events = (
            new_client("eu-west-1", endpoint, service) for service in ("sqs", "scheduler", "events")
        )
        self.queue = self.sqs.create_queue(QueueName=f"{self.prefix}-holdfast-doorbell")["QueueUrl"]
        self.arn = self.attributes("QueueArn")["QueueArn"]
        self.scheduler.create_schedule_group(Name=f"{self.prefix}-holdfast")

    def attributes(self, *names: str) -> dict[str, str]:
        answer: dict[str, Any] = self.sqs.get_queue_attributes(QueueUrl=self.queue, AttributeNames=list(names))
        return answer["Attributes"]

    def schedules(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.scheduler.list_schedules(GroupName=f"{self.prefix}-holdfast")["Schedules"]
        return found

    def receive(self, count: int) -> list[dict[str, Any]]:
        """So many messages, which are deleted."""
        found: list[dict[str, Any]] = []

        def enough() -> bool:
            answer = self.sqs.receive_message(QueueUrl=self.queue, MaxNumberOfMessages=10)
            for each in answer.get("Messages", ()):
                self.sqs.delete_message(QueueUrl=self.queue, ReceiptHandle=each["ReceiptHandle"])
                found.append(each)
            return len(found) >= count

        wait_until(enough)
        return found

    def close(self) -> None:
        for client in (self.sqs, self.scheduler, self.events):
            client.close()


@pytest.fixture
def account(s3: str) -> Iterator[Account]:
    made = Account(s3)
    yield made
    made.close()


def test_a_far_ring_is_a_schedule_that_fires_and_its_last_leg_is_a_delay(account: Account) -> None:
    fires_at = (int(time.time()) + 2) * 1000
    ring = WakeUp("wf#checkout#order-17", fires_at + LAST_LEG_MS)

    async def set_twice() -> None:
        bells = parse_address(f"{account.url}&scheduler_role={ROLE}").bells(None, None)
        for _ in range(2):  # whoever rings it again, does no harm
            assert await bells.send([ring], ring.due_at - QUARTER_MS - 1) == []
        bells.close()

    asyncio.run(set_twice())
    assert len(account.schedules()) == 1
    (message,) = account.receive(1)
    assert time.time() * 1000 >= fires_at
    wait_until(lambda: not account.schedules())  # and it is gone then

    data = MemoryData()

    async def open_home() -> Home:
        home = open_memory_home(data=data)
        ringer = parse_address(account.url).bells(None, None)
        bell = SqsDoorbell(Bells(), home.owner, ringer, SystemClock(), lambda *_, **__: None)
        return replace(home, doorbell=bell, invoker=bell)

    app = hf.App("shop", home=open_home)
    handler = app.lambda_handler()
    assert handler(event_of(("m", message["Body"]))) == {"batchItemFailures": []}
    handler.close()
    names = ("ApproximateNumberOfMessages", "ApproximateNumberOfMessagesDelayed")
    assert account.attributes(*names) == {names[0]: "0", names[1]: "1"}, "what is left is the delay of a message"


@dataclass
class Placed:
    order: str


def test_two_homes_talk_over_a_bus(account: Account) -> None:
    bus = f"{account.prefix}-holdfast"
    account.events.create_event_bus(Name=bus)
    pattern = json.dumps({"source": [{"prefix": "holdfast."}]})
    account.events.put_rule(Name="tell", EventBusName=bus, EventPattern=pattern)
    account.events.put_targets(Rule="tell", EventBusName=bus, Targets=[{"Id": "queue", "Arn": account.arn}])

    async def publish() -> None:
        made = parse_address(f"{account.url}&bus={bus}").open_bus()
        assert made is not None
        seller = hf.App("seller", home=with_bus("memory://", made))
        seller.to_bus(Placed)
        async with seller.worker():
            for n in range(12):
                await seller.publish(Placed(f"{n}"), id=f"order-{n}")
            while (await seller.outbox.waiting()).items:
                await asyncio.sleep(0.01)
        made.close()

    asyncio.run(publish())
    packer, packed = hf.App("packer", home="memory://"), list[str]()

    @packer.consumer(Placed)
    async def pack(event: Placed) -> None:
        packed.append(event.order)

    handler = packer.lambda_handler()
    messages = account.receive(12)
    for _ in range(2):
        batch = event_of(*((each["MessageId"], each["Body"]) for each in messages))
        assert handler(batch) == {"batchItemFailures": []}
    handler.close()
    assert sorted(packed, key=int) == [f"{n}" for n in range(12)]


def test_a_bus_that_is_not_there_is_told_of_and_nothing_is_lost(account: Account) -> None:
    async def publish() -> tuple[list[tuple[str, ...]], int]:
        made = parse_address(f"{account.url}&bus=nobody-made-it").open_bus()
        assert made is not None
        seller = hf.App("seller", home=with_bus("memory://", made))
        seller.to_bus(Placed)
        async with seller.worker():
            await seller.publish(Placed("1"), id="one")
            while not seller.telemetry.counts["bus_failed"]:
                await asyncio.sleep(0.01)
            waiting = (await seller.outbox.waiting()).items
        made.close()
        return [each.consumers for each in waiting], seller.telemetry.counts["bus_failed"]

    waiting, failures = asyncio.run(publish())
    assert waiting == [("(bus)",)]
    assert failures >= 1
