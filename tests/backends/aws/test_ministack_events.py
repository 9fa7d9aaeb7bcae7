"""EventBridge on ministack: two homes that talk over a bus."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from tests.backends.aws.cloud import event_of
from tests.infra.ministack import wait_until

import holdfast as hf
from holdfast.backends.aws import parse_address
from holdfast.backends.aws.connection import new_client
from holdfast.testing import with_bus

pytestmark = [pytest.mark.aws, pytest.mark.process, pytest.mark.slow]

NUMBERS = itertools.count()


class Account:
    """Clients of the emulator, and the queue and the URL of a home of its own."""

    def __init__(self, endpoint: str) -> None:
        self.prefix = f"events-{os.getpid()}-{next(NUMBERS)}"
        self.url = f"aws://{self.prefix}?region=eu-west-1&endpoint={endpoint}"
        self.sqs, self.events = (new_client("eu-west-1", endpoint, service) for service in ("sqs", "events"))
        self.queue = self.sqs.create_queue(QueueName=f"{self.prefix}-holdfast-doorbell")["QueueUrl"]
        self.arn = self.attributes("QueueArn")["QueueArn"]

    def attributes(self, *names: str) -> dict[str, str]:
        answer: dict[str, Any] = self.sqs.get_queue_attributes(QueueUrl=self.queue, AttributeNames=list(names))
        return answer["Attributes"]

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
        for client in (self.sqs, self.events):
            client.close()


@pytest.fixture
def account(s3: str) -> Iterator[Account]:
    made = Account(s3)
    yield made
    made.close()


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
