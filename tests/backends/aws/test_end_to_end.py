"""The whole of it on ministack: its queue and its table, environments that are processes, and one that is killed."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.backends.aws.local import CREDENTIALS
from tests.infra.ministack import only_ministack
from tests.torture.die_with_parent import die_with_parent

from holdfast.backends.aws import create_table
from holdfast.backends.aws.connection import new_client

pytestmark = [pytest.mark.aws, pytest.mark.process, pytest.mark.slow]

NUMBERS = itertools.count()
PATIENCE_SECONDS = 60


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an emulator."""
    with only_ministack(tmp_path_factory, **CREDENTIALS) as endpoint:
        yield endpoint


class Environment:
    """A process that serves one event after another."""

    def __init__(self, url: str, folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("environment.py")), str(folder)],
            env=os.environ | {"HOLDFAST_URL": url},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=die_with_parent,  # noqa: PLW1509 - nothing else runs yet that a fork could upset
        )

    def send(self, event: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(event) + "\n")
        self.process.stdin.flush()

    def answer(self) -> Any:
        assert self.process.stdout is not None
        while "_aws" in (told := json.loads(self.process.stdout.readline())):
            pass  # a line of metrics, which go to the log
        assert "answer" in told, told
        return told["answer"]

    def invoke(self, event: Any) -> Any:
        self.send(event)
        return self.answer()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()


class Stage:
    """A home with its queue, what was done to the world, and what Lambda would do: take messages and call."""

    def __init__(self, endpoint: str, folder: Path) -> None:
        prefix = f"e2e-{os.getpid()}-{next(NUMBERS)}"
        self.url = f"aws://{prefix}?region=eu-west-1&endpoint={endpoint}"
        self.folder = folder
        self.sqs = new_client("eu-west-1", endpoint, "sqs")
        asyncio.run(create_table(self.url))
        made = self.sqs.create_queue(QueueName=f"{prefix}-holdfast-doorbell", Attributes={"VisibilityTimeout": "3"})
        self.queue = made["QueueUrl"]
        self.environments: list[Environment] = []
        (folder / "ledger").touch()

    def environment(self) -> Environment:
        made = Environment(self.url, self.folder)
        self.environments.append(made)
        return made

    def put(self, body: Any) -> None:
        text = body if isinstance(body, str) else json.dumps(body)
        self.sqs.send_message(QueueUrl=self.queue, MessageBody=text)

    def receive(self, at_least: int = 0) -> dict[str, Any]:
        """A batch as Lambda hands it on; answers an event without records if none comes for a while."""
        records: list[dict[str, Any]] = []
        for _ in range(10):
            found = self.sqs.receive_message(QueueUrl=self.queue, MaxNumberOfMessages=10, WaitTimeSeconds=1)
            records += [
                {
                    "messageId": each["MessageId"],
                    "receiptHandle": each["ReceiptHandle"],
                    "body": each["Body"],
                    "attributes": {},
                    "eventSource": "aws:sqs",
                    "eventSourceARN": "arn:aws:sqs:eu-west-1:000000000000:doorbell",
                }
                for each in found.get("Messages", ())
            ]
            if len(records) >= at_least:
                break
        return {"Records": records}

    def settle(self, event: dict[str, Any], answer: dict[str, Any]) -> None:
        """Delete what was done, as Lambda does."""
        failed = {each["itemIdentifier"] for each in answer["batchItemFailures"]}
        for record in event["Records"]:
            if record["messageId"] not in failed:
                self.sqs.delete_message(QueueUrl=self.queue, ReceiptHandle=record["receiptHandle"])

    def deliver_until(self, environment: Environment, done: Callable[[], bool]) -> None:
        until = time.monotonic() + PATIENCE_SECONDS
        while not done():
            assert time.monotonic() < until, "nothing came of it"
            event = self.receive()
            self.settle(event, environment.invoke(event))

    def ledger(self) -> Counter[str]:
        return Counter((self.folder / "ledger").read_text().splitlines())

    def close(self) -> None:
        for each in self.environments:
            if each.process.returncode is None:
                each.kill()
        self.sqs.close()


@pytest.fixture
def stage(emulator: str, tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(emulator, tmp_path)
    yield stage
    stage.close()


def start(order: str) -> dict[str, Any]:
    return {"holdfast": "start", "workflow": "checkout", "id": order, "input": [order]}


def approve(order: str) -> dict[str, Any]:
    return {"holdfast": "signal", "workflow": "checkout", "id": order, "name": "approved", "value": True}


def status(order: str) -> dict[str, Any]:
    return {"holdfast": "status", "workflow": "checkout", "id": order}


def test_work_that_came_by_the_queue_survives_a_kill_and_is_done_once(stage: Stage) -> None:
    (stage.folder / "hang").touch()
    stage.put(start("one"))
    event = stage.receive(at_least=1)
    first = stage.environment()
    first.send(event)
    until = time.monotonic() + PATIENCE_SECONDS
    while "begin charge one" not in stage.ledger():
        assert time.monotonic() < until and first.process.poll() is None
        time.sleep(0.05)
    first.kill()  # -9, in the midst of the step
    (stage.folder / "hang").unlink()

    second = stage.environment()
    told: dict[str, Any] = {}

    def has_paid() -> bool:
        return stage.ledger()["charge one"] > 0

    stage.deliver_until(second, has_paid)  # the message comes again, and the lease has run out
    second.invoke(approve("one"))

    def has_ended() -> bool:
        told.update(second.invoke(status("one")))
        return told["status"] == "COMPLETED"

    stage.deliver_until(second, has_ended)  # what is left is a ring, a second after the step
    assert told["result"] == ["charged one", True, 1, "shipped one"]
    assert stage.ledger() == {"begin charge one": 2, "charge one": 1, "ship one": 1}


def test_a_batch_that_is_delivered_twice_with_a_bad_message_in_it(stage: Stage) -> None:
    one, two = stage.environment(), stage.environment()
    orders = [f"order-{n}" for n in range(4)]
    for order in orders:
        stage.put(start(order))
    stage.put("this is no JSON")
    event = stage.receive(at_least=5)
    (bad,) = [each["messageId"] for each in event["Records"] if each["body"] == "this is no JSON"]
    one.send(event)
    two.send(event)  # at the same time
    for answer in (one.answer(), two.answer()):
        assert {"itemIdentifier": bad} in answer["batchItemFailures"]
        assert {each["itemIdentifier"] for each in answer["batchItemFailures"]} == {bad}
    stage.settle(event, {"batchItemFailures": [{"itemIdentifier": bad}]})
    for order in orders:
        two.invoke(approve(order))

    def have_ended() -> bool:
        return all(one.invoke(status(order))["status"] == "COMPLETED" for order in orders)

    def deliver_good() -> None:
        event = stage.receive()
        stage.settle(event, one.invoke(event))

    until = time.monotonic() + PATIENCE_SECONDS
    while not have_ended():
        assert time.monotonic() < until
        deliver_good()
    done = {f"{what} {order}": 1 for what in ("begin charge", "charge", "ship") for order in orders}
    assert stage.ledger() == done
    asked = {"holdfast": "call", "actor": "Till", "key": "main", "method": "all"}
    assert sorted(two.invoke(asked)) == orders
