"""Ordered messages on ministack, over HTTP: its queue, its table, and the handler of a function in this process."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import time
from collections.abc import Iterator

import pytest
from tests.backends.aws.local import CREDENTIALS
from tests.infra.ministack import ministack
from tests.infra.tools import environment_or_skip

import holdfast as hf
from holdfast.backends.aws import create_table
from holdfast.backends.aws.connection import new_client
from holdfast.runtime.lambda_ import LambdaHandler

pytestmark = [pytest.mark.aws, pytest.mark.process, pytest.mark.slow]

NUMBERS = itertools.count()
PATIENCE_SECONDS = 60


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an emulator."""
    programs = environment_or_skip("ministack")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (CREDENTIALS | {"NO_PROXY": "127.0.0.1"}).items():
            patch.setenv(name, value)
        with ministack(programs, tmp_path_factory.mktemp("ministack")) as endpoint:
            yield endpoint


class Stage:
    """A home, its ordered queue with dead letters, and Lambda's poller."""

    def __init__(self, endpoint: str, receives: int = 100) -> None:
        self.prefix = f"ordered-{os.getpid()}-{next(NUMBERS)}"
        self.url = f"aws://{self.prefix}?region=eu-west-1&endpoint={endpoint}"
        self.sqs = new_client("eu-west-1", endpoint, "sqs")
        fifo = {"FifoQueue": "true", "DeduplicationScope": "messageGroup", "FifoThroughputLimit": "perMessageGroupId"}
        self.dead = self._queue(f"{self.prefix}-holdfast-ordered-dead.fifo", fifo)
        arn = self.sqs.get_queue_attributes(QueueUrl=self.dead, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        redrive = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": receives})
        fifo |= {"VisibilityTimeout": "360", "RedrivePolicy": redrive}
        self.queue = self._queue(f"{self.prefix}-holdfast-ordered.fifo", fifo)
        self.arn = arn.replace("-dead", "")
        self.broken: set[str] = set()
        self.ran: list[str] = []

    def _queue(self, name: str, attributes: dict[str, str]) -> str:
        return str(self.sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"])

    def app(self) -> hf.App:
        app, stage = hf.App("shop", home=self.url), self

        class Till(hf.Actor, app=app, ordered_retry=hf.Retry(max_attempts=3, initial="1s", jitter=hf.Jitter.NONE)):
            seen: list[str] = hf.field(default_factory=list)

            async def add(self, what: str) -> None:
                stage.ran.append(what)
                if what in stage.broken:
                    raise ConnectionError("no way to the bank")
                self.seen = [*self.seen, what]

            @hf.read
            async def all(self) -> list[str]:
                return self.seen

        return app

    def send(self, *names: str, body: str = "") -> None:
        for name in names:
            call = {"actor": "Till", "method": "add", "args": [name]}
            self.sqs.send_message(
                QueueUrl=self.queue,
                MessageBody=body or json.dumps(call),
                MessageGroupId="u1",
                MessageDeduplicationId=name,
            )

    async def deliver(self, handler: LambdaHandler) -> bool:
        found = await asyncio.to_thread(
            self.sqs.receive_message,
            QueueUrl=self.queue,
            MaxNumberOfMessages=10,
            MessageSystemAttributeNames=["All"],
            WaitTimeSeconds=1,
        )
        records = [
            {
                "messageId": each["MessageId"],
                "receiptHandle": each["ReceiptHandle"],
                "body": each["Body"],
                "attributes": each["Attributes"],
                "eventSource": "aws:sqs",
                "eventSourceARN": self.arn,
            }
            for each in found.get("Messages", ())
        ]
        if not records:
            return False
        answer = await handler.invoke({"Records": records})
        failed = {each["itemIdentifier"] for each in answer["batchItemFailures"]}
        for each in records:
            if each["messageId"] not in failed:
                self.sqs.delete_message(QueueUrl=self.queue, ReceiptHandle=each["receiptHandle"])
        return True

    async def deliver_until(self, handler: LambdaHandler, name: str) -> None:
        until = time.monotonic() + PATIENCE_SECONDS
        while name not in await seen(handler):
            assert time.monotonic() < until, "it was not delivered"
            await self.deliver(handler)

    def close(self) -> None:
        self.sqs.close()


async def seen(handler: LambdaHandler) -> list[str]:
    asked = {"holdfast": "call", "actor": "Till", "key": "u1", "method": "all"}
    found: list[str] = await handler.invoke(asked)
    return found


@pytest.fixture
def stage(emulator: str) -> Iterator[Stage]:
    stage = Stage(emulator)
    yield stage
    stage.close()


async def test_one_that_fails_comes_back_in_seconds_and_in_order(stage: Stage) -> None:
    await create_table(stage.url)
    handler = stage.app().lambda_handler()
    stage.send("m1")
    await stage.deliver(handler)
    stage.broken = {"m2"}
    stage.send("m2", "m3")
    began = time.monotonic()
    while stage.ran.count("m2") < 2:
        await stage.deliver(handler)
        assert time.monotonic() < began + PATIENCE_SECONDS, "it was hidden for six minutes"
    stage.broken.clear()
    await stage.deliver_until(handler, "m3")
    assert await seen(handler) == ["m1", "m2", "m3"]
    assert stage.ran == ["m1", "m2", "m2", "m2", "m3"]
    await handler.aclose()
