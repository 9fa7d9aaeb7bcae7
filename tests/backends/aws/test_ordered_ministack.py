"""Ordered messages on ministack, over HTTP: its queue, its table, and the handler of a function in this process."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import time
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner
from tests.backends.aws.local import CREDENTIALS
from tests.http.conftest import Api
from tests.infra.ministack import only_ministack

import holdfast as hf
from holdfast.backends.aws import create_table
from holdfast.backends.aws.connection import new_client
from holdfast.cli import main
from holdfast.runtime.lambda_ import LambdaHandler

pytestmark = [pytest.mark.aws, pytest.mark.process, pytest.mark.slow]

NUMBERS = itertools.count()
PATIENCE_SECONDS = 60


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an emulator."""
    with only_ministack(tmp_path_factory, **CREDENTIALS) as endpoint:
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
        self.names = "Till"
        self.broken: set[str] = set()
        self.hidden: list[str] = []
        self.ran: list[str] = []

    def _queue(self, name: str, attributes: dict[str, str]) -> str:
        return str(self.sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"])

    def app(self) -> hf.App:
        app, stage = hf.App("shop", home=self.url), self

        once = hf.Retry(max_attempts=3, initial="1s", jitter=hf.Jitter.NONE)

        class Till(hf.Actor, app=app, name=self.names, ordered_retry=once):
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

    def show_all(self) -> None:
        """Let the queue show what it hides, as when the time of its visibility is over."""
        found = [(self.queue, receipt) for receipt in self.hidden]
        for queue, receipt in found:
            self.sqs.change_message_visibility(QueueUrl=queue, ReceiptHandle=receipt, VisibilityTimeout=0)

    async def deliver(self, handler: LambdaHandler, *, delete: bool = True) -> bool:
        found = await asyncio.to_thread(
            self.sqs.receive_message,
            QueueUrl=self.queue,
            MaxNumberOfMessages=10,
            MessageSystemAttributeNames=["All"],
            MessageAttributeNames=["All"],
            WaitTimeSeconds=1,
        )
        records = [
            {
                "messageId": each["MessageId"],
                "receiptHandle": each["ReceiptHandle"],
                "body": each["Body"],
                "attributes": each["Attributes"],
                "messageAttributes": {
                    name: {"dataType": given["DataType"], "stringValue": given.get("StringValue")}
                    for name, given in each.get("MessageAttributes", {}).items()
                },
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
            if each["messageId"] not in failed and not delete:
                self.hidden.append(each["receiptHandle"])
            elif each["messageId"] not in failed:
                self.sqs.delete_message(QueueUrl=self.queue, ReceiptHandle=each["receiptHandle"])
        return True

    async def deliver_until(self, handler: LambdaHandler, name: str) -> None:
        until = time.monotonic() + PATIENCE_SECONDS
        while name not in await seen(handler):
            assert time.monotonic() < until, "it was not delivered"
            await self.deliver(handler)

    def close(self) -> None:
        self.sqs.close()


async def seen(handler: LambdaHandler, actor: str = "Till") -> list[str]:
    asked = {"holdfast": "call", "actor": actor, "key": "u1", "method": "all"}
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


# ── Dead letters ────────────────────────────────────────────────────────────────────────────────────────────────────


def command(stage: Stage, *arguments: str) -> Any:
    done = CliRunner().invoke(main, ["dlq", *arguments, "--home", stage.url, "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.output)


async def dead(stage: Stage, *arguments: str) -> Any:
    return await asyncio.to_thread(command, stage, *arguments)


async def test_dead_letters_of_a_queue_are_listed_shown_redriven_and_discarded(emulator: str) -> None:
    stage = Stage(emulator, receives=1)
    await create_table(stage.url)
    handler = stage.app().lambda_handler()
    stage.send("m1")
    await stage.deliver(handler)
    for name in ("d1", "d2", "d3"):
        stage.send(name, body=json.dumps({"actor": "Tillage", "method": "add", "args": [name]}))
        await stage.deliver(handler)  # there is no such actor
        await asyncio.sleep(1.1)  # the back-off
    assert not await stage.deliver(handler)
    listed = await dead(stage, "ls")
    found = listed["messages"]
    assert [(each["actor"], each["key"], each["method"]) for each in found] == [("Tillage", "u1", "add")] * 3
    assert "notes" not in listed
    assert await dead(stage, "ls") == listed, "a look hides nothing"
    shown = await dead(stage, "show", found[1]["id"])
    assert shown["message"]["args"] == ["d2"]
    assert shown["message"]["place"] == f"{stage.prefix}-holdfast-ordered.fifo"

    await dead(stage, "discard", found[1]["id"])
    told = await dead(stage, "redrive", "--all")
    assert [each["id"] for each in told["messages"]] == [found[0]["id"], found[2]["id"]]
    assert (await dead(stage, "ls"))["messages"] == []
    stage.names = "Tillage"
    repaired = stage.app().lambda_handler()
    while await stage.deliver(repaired):
        pass
    assert await seen(repaired, "Tillage") == ["d1", "d3"]
    for each in (handler, repaired):
        await each.aclose()
    stage.close()


async def test_a_letter_that_is_sent_back_has_its_id_and_may_have_other_arguments(emulator: str) -> None:
    stage = Stage(emulator, receives=1)
    await create_table(stage.url)
    handler = stage.app().lambda_handler()
    stage.send("m1")
    await stage.deliver(handler, delete=False)  # it is applied, and the queue does not hear of it
    stage.send("m2", body=json.dumps({"actor": "Till", "method": "add", "args": {"wrong": "m2"}}))
    await asyncio.to_thread(stage.show_all)
    await stage.deliver(handler)  # the first is received too often, and the second is not understood
    await asyncio.sleep(1.1)
    assert not await stage.deliver(handler)
    app = stage.app()
    async with app:
        api = Api(app)
        first, second = (await api.get("/v1/dlq"))[1]["messages"]
        assert (first["actor"], first["key"], second["error"]) == ("Till", "u1", "DeadLetter")
        assert (await api.get(f"/v1/dlq/{second['id']}"))[1]["args"] == {"wrong": "m2"}
        assert (await api.post(f"/v1/dlq/{first['id']}/redrive"))[0] == 200
        assert (await api.post(f"/v1/dlq/{second['id']}/redrive", {"args": ["m2"]}))[0] == 200
        assert (await api.get(f"/v1/dlq/{second['id']}"))[0] == 404
        assert (await api.get("/v1/dlq"))[1]["messages"] == []
    while await stage.deliver(handler):
        pass
    assert await seen(handler) == stage.ran == ["m1", "m2"]
    await handler.aclose()
    stage.close()


async def test_a_queue_that_cannot_be_reached_is_told(stage: Stage) -> None:
    await create_table(stage.url)
    stage.url += "&sqs_endpoint=http://127.0.0.1:9"
    listed = await dead(stage, "ls")
    assert listed["messages"] == []
    assert ["cannot be read" in each for each in listed["notes"]] == [True, True]
    done = await asyncio.to_thread(CliRunner().invoke, main, ["dlq", "redrive", "ordered:m1", "--home", stage.url])
    assert done.exit_code != 0
    assert "cannot be read: NotSent: no connection to 127.0.0.1:9" in done.output
