"""Functions as Lambda runs them: its own runtime client, under the runtime interface emulator, on DynamoDB Local."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import shutil
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.backends.aws.cloud import event_of
from tests.backends.aws.emulator import Environment, RuntimeDiedError, environments, missing
from tests.backends.aws.fake_sqs import FakeSqs
from tests.infra.ministack import wait_until
from tests.infra.tools import lacking

from holdfast.backends.aws import create_table

pytestmark = [pytest.mark.aws, pytest.mark.process, pytest.mark.slow]

NUMBERS = itertools.count()
HANDLER = Path(__file__).with_name("shop_handler.py")
TOKEN = "7" * 64
HURRY_SECONDS = 8


class Function:
    """A function on a home of its own: its code, its environments, its queue."""

    def __init__(self, url: str, folder: Path, sqs: FakeSqs, made: list[Environment]) -> None:
        self.url = url
        self.folder = folder
        self.sqs = sqs
        self._made = made
        shutil.copy(HANDLER, folder / "handler.py")
        (folder / "ledger").touch()

    def environment(self, timeout_seconds: int = 60, code: str = "handler.handler") -> Environment:
        made = Environment(code, self.folder, timeout_seconds=timeout_seconds, HOLDFAST_URL=self.url)
        self._made.append(made)
        return made

    def hurried(self) -> Environment:
        """One whose invocations have little time, and that has started, which may take longer."""
        made = self.environment(timeout_seconds=HURRY_SECONDS)

        def has_rung() -> bool:
            """So its clients of DynamoDB and of SQS are made."""
            made.invoke_raw(request("POST", f"/v1/workflows/checkout/warm-{next(NUMBERS)}", body='["warm"]'))
            return bool(self.sqs.taken())

        wait_until(has_rung)
        return made

    def ledger(self, order: str | None = None) -> list[list[str]]:
        """What was done (for one order), and under which idempotency key."""
        lines = [line.split() for line in (self.folder / "ledger").read_text().splitlines()]
        return [line for line in lines if order is None or line[1] == order]

    def lines(self, what: str) -> int:
        return sum(line[0] == what for line in self.ledger())


@pytest.fixture
def function(dynamodb: str, tmp_path: Path) -> Iterator[Function]:
    if (lack := missing()) is not None:
        lacking("Lambda's own runtime", lack)
    with environments() as made, FakeSqs() as sqs:
        prefix = f"rie-{os.getpid()}-{next(NUMBERS)}"
        url = f"aws://{prefix}?region=eu-west-1&endpoint={dynamodb}&sqs_endpoint={sqs.endpoint}"
        asyncio.run(create_table(url))
        yield Function(url, tmp_path, sqs, made)


def start(order: str, workflow: str = "checkout") -> dict[str, Any]:
    return {"holdfast": "start", "workflow": workflow, "id": order, "input": [order]}


def status(order: str, workflow: str = "checkout") -> dict[str, Any]:
    return {"holdfast": "status", "workflow": workflow, "id": order}


def call(method: str, *args: Any, key: str = "main") -> dict[str, Any]:
    return {"holdfast": "call", "actor": "Till", "key": key, "method": method, "args": list(args)}


def request(method: str, path: str, **more: Any) -> dict[str, Any]:
    return {
        "version": "2.0",
        "rawPath": path,
        "rawQueryString": "",
        "headers": {"authorization": f"Bearer {TOKEN}"},
        "cookies": ["a=1", "b=2"],
        "requestContext": {"domainName": "x.lambda-url.eu-west-1.on.aws", "http": {"method": method, "path": path}},
        "isBase64Encoded": False,
    } | more


def as_rings(rings: list[dict[str, Any]]) -> dict[str, Any]:
    """What was rung, as Lambda hands it on."""
    return event_of(*((f"m-{n}", json.dumps(ring)) for n, ring in enumerate(rings)))


def in_the_background(environment: Environment, event: Any) -> tuple[threading.Thread, list[Any]]:
    answers: list[Any] = []

    def invoke() -> None:
        try:
            answers.append(environment.invoke(event))
        except RuntimeDiedError as death:
            answers.append(death)

    thread = threading.Thread(target=invoke)
    thread.start()
    return thread, answers


# ── Every shape ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_shape_of_event_gets_the_answer_that_its_sender_understands(function: Function) -> None:
    one = function.environment()
    done = {"workflow": "checkout", "id": "a", "status": "COMPLETED", "error": None, "result": "charged a"}
    assert one.invoke(start("a")) == done
    assert one.invoke(status("a")) == done
    assert one.invoke(call("add", "x")) == 1
    assert one.invoke({"holdfast": "send", "actor": "Till", "key": "main", "method": "add", "args": ["y"]}).keys() == {
        "id"
    }
    assert one.invoke(call("all")) == ["x", "y"]
    assert one.invoke({"holdfast": "sweep"}) is None
    assert one.invoke({"version": "0", "source": "aws.events", "detail-type": "Scheduled Event", "detail": {}}) is None

    batch = event_of(
        ("good", json.dumps(start("b"))),
        ("no json", "{"),
        ("raises", json.dumps(call("add", "bad"))),
        ("twice", json.dumps(start("a"))),
    )
    failed = [{"itemIdentifier": "no json"}, {"itemIdentifier": "raises"}]
    assert json.loads(one.invoke_raw(batch)) == {"batchItemFailures": failed}
    assert one.invoke(batch) == {"batchItemFailures": failed}, "and once more, as SQS does"

    def ordered(*orders: str, group: str) -> dict[str, Any]:
        bodies = [
            (f"{group}-{each}", json.dumps({"actor": "Till", "method": "add", "args": [each]})) for each in orders
        ]
        return event_of(*bodies, group=group)

    fifo = ordered("1", "bad", "3", group="k")
    fifo["Records"] += ordered("9", group="l")["Records"]
    assert one.invoke(fifo) == {"batchItemFailures": [{"itemIdentifier": "k-bad"}, {"itemIdentifier": "k-3"}]}
    assert one.invoke(call("all", key="k")) == ["1"]
    assert one.invoke(call("all", key="l")) == ["9"]

    keys = {"p": {"S": "wf#checkout#a"}, "s": {"S": "@"}}
    change = {"eventSource": "aws:dynamodb", "eventName": "MODIFY", "dynamodb": {"Keys": keys, "SequenceNumber": "7"}}
    due = {"d": {"N": "1"}, "w": {"S": "1"}}
    waits = {"NewImage": due, "Keys": keys | {"p": {"S": "wf#checkout#c"}}, "SequenceNumber": "8"}
    assert one.invoke(request("POST", "/v1/workflows/checkout/c", body='["c"]'))["statusCode"] == 202
    assert function.lines("charge") == 2
    assert one.invoke({"Records": [change, change | {"eventName": "INSERT", "dynamodb": waits}]}) == {
        "batchItemFailures": []
    }
    assert one.invoke(as_rings(function.sqs.taken())) == {"batchItemFailures": []}
    assert sorted(line[1] for line in function.ledger() if line[0] == "charge") == ["a", "b", "c"]


def test_errors_of_the_function_are_told_as_lambda_tells_them(function: Function) -> None:
    one = function.environment()
    told = one.invoke({"detail": {}, "Service": "something else"})
    assert told.keys() == {"errorType", "errorMessage", "requestId", "stackTrace"}
    assert told["errorType"] == "InvalidInput"
    assert "Service, detail" in told["errorMessage"]
    assert one.invoke([1])["errorType"] == "InvalidInput"
    assert one.invoke({"Records": [{"eventSource": "aws:s3"}]})["errorType"] == "InvalidInput"
    assert one.invoke(call("dance"))["errorType"] == "UnknownName"
    raised = one.invoke(call("add", "bad"))
    assert "the till is stuck" in raised["errorMessage"]
    assert len(one.runtimes()) == 1
    assert one.invoke(start("a"))["status"] == "COMPLETED", "the environment goes on"


def test_http_in_and_out(function: Function) -> None:
    one = function.environment()

    encoded = {"body": "WyLDvCJd", "isBase64Encoded": True}  # ["ü"]
    answer = one.invoke(request("POST", "/v1/workflows/checkout/%C3%BC", rawQueryString="wait=20s", **encoded))
    assert (answer["statusCode"], answer["isBase64Encoded"]) == (200, False)
    assert json.loads(answer["body"])["result"] == "charged ü"
    assert answer["headers"]["content-type"] == "application/json"
    assert one.invoke(request("POST", "/v1/actors/Till/h/add", body='["x"]'))["body"] == '{"result":1}'
    left = one.invoke(request("POST", "/v1/workflows/checkout/later", body='["later"]'))
    assert (left["statusCode"], json.loads(left["body"])["status"]) == (202, "READY")
    rings = function.sqs.taken()
    assert rings == [{"holdfast": "ring", "partition": "wf#checkout#later"}]
    assert one.invoke(as_rings(rings)) == {"batchItemFailures": []}
    assert one.invoke(status("later"))["status"] == "COMPLETED"
    assert one.invoke(request("GET", "/v1/workflows", headers={}))["statusCode"] == 401
    refused = one.invoke(request("POST", "/v1/callbacks/forged", headers={}, body="1"))
    assert (refused["statusCode"], json.loads(refused["body"])["code"]) == (404, "invalid_token")


# ── Time ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_near_the_deadline_a_turn_lets_go_and_rings_for_another_invocation(function: Function) -> None:
    one, two = function.hurried(), function.environment()
    (function.folder / "hang").touch()
    told = one.invoke(start("a"))
    ended_by_itself = told.get("status") == "SUSPENDED" or told.get("errorType") == "WaitTimeout"
    assert ended_by_itself, "no time-out of Lambda; on a busy machine there may be no time to ask how it stands"
    (ring,) = function.sqs.taken()
    assert ring["partition"] == "wf#checkout#a"
    (function.folder / "hang").unlink()
    assert two.invoke(as_rings([ring])) == {"batchItemFailures": []}
    assert two.invoke(status("a"))["result"] == "charged a", "at once: the lease was let go of"
    assert one.invoke(start("b"))["status"] == "COMPLETED", "the environment goes on"
    assert Counter(line[0] for line in function.ledger("a")) == {"begin": 2, "charge": 1}
    assert len({line[2] for line in function.ledger("a")}) == 1, "begun twice, under one idempotency key"


def test_a_call_that_waits_too_long_is_a_wait_timeout_before_lambda_loses_patience(function: Function) -> None:
    one = function.hurried()
    told = one.invoke(call("wait"))
    assert told["errorType"] == "WaitTimeout"
    assert one.invoke(start("a"))["status"] == "COMPLETED"


def test_a_step_that_blocks_is_killed_by_lambda_and_the_next_invocation_takes_its_work_over(function: Function) -> None:
    one = function.hurried()
    (function.folder / "hang").touch()
    before = one.runtimes()
    assert one.invoke_raw(start("a", "jam")) == b"Task timed out after %.2f seconds" % HURRY_SECONDS
    (function.folder / "hang").unlink()

    def has_ended() -> bool:
        one.invoke_raw({"holdfast": "sweep"})
        if rings := function.sqs.taken():
            one.invoke_raw(as_rings(rings))
        return b'"COMPLETED"' in one.invoke_raw(status("a", "jam"))  # the new process, too, has little time to start

    wait_until(has_ended)
    assert one.runtimes() != before, "a new process"
    assert len({line[2] for line in function.ledger("a")}) == 1
    assert Counter(line[0] for line in function.ledger("a")) == {"begin": 2, "charge": 1}


def test_a_runtime_that_is_killed_in_a_step_is_followed_by_another_environment(function: Function) -> None:
    (function.folder / "hang").touch()
    one, two = function.environment(), function.environment()
    message = event_of(("m-1", json.dumps(start("a"))))
    thread, answers = in_the_background(one, message)
    wait_until(lambda: function.lines("begin"))
    one.kill_runtime()
    thread.join()
    assert isinstance(answers[0], RuntimeDiedError), "so the message is not deleted, and comes again"
    (function.folder / "hang").unlink()

    def has_ended() -> bool:
        assert two.invoke(message) == {"batchItemFailures": []}
        two.invoke({"holdfast": "sweep"})
        if rings := function.sqs.taken():
            assert two.invoke(as_rings(rings)) == {"batchItemFailures": []}
        return bool(two.invoke(status("a"))["status"] == "COMPLETED")

    wait_until(has_ended)
    assert Counter(line[0] for line in function.ledger("a")) == {"begin": 2, "charge": 1}
    assert len({line[2] for line in function.ledger("a")}) == 1


# ── Cold start ──────────────────────────────────────────────────────────────────────────────────────────────────────

REPORTED = """
import sys
import handler as shop

def handler(event, context):
    before = sorted(sys.modules)
    answer = shop.handler(event, context)
    return {"answer": answer, "before": before, "after": sorted(sys.modules)}
"""

NEVER_LOADED = {"apsw", "aws_cdk", "boto3", "click", "jinja2", "redis", "sqlite3", "starlette", "uvicorn"}
PARTS_NEVER_LOADED = {"cli", "dashboard", "demo", "infra", "testing", "chaos", "cost", "moving"}


def parts(modules: list[str]) -> set[str]:
    """The parts of Holdfast that are among the modules."""
    return {name.split(".")[1] for name in modules if name.startswith("holdfast.")}


def test_a_cold_start_loads_what_it_needs_and_when_it_needs_it(function: Function) -> None:
    (function.folder / "reported.py").write_text(REPORTED)
    told = function.environment(code="reported.handler").invoke(start("a"))
    assert told["answer"]["status"] == "COMPLETED"
    before, after = told["before"], told["after"]
    assert not [name for name in before if name.split(".")[0] == "botocore" or name.startswith("holdfast.backends.")]
    assert "botocore" not in after, "the variables of a function say where requests go, and with whose credentials"
    assert not NEVER_LOADED & {name.split(".")[0] for name in after}
    assert not PARTS_NEVER_LOADED & parts(after)
    backends = {name.split(".")[2] for name in after if name.startswith("holdfast.backends.")}
    assert backends == {"aws"}
    late = [name for name in set(after) - set(before) if name.startswith("holdfast.") and ".backends." not in name]
    assert late in ([], ["holdfast.backends"]), "what every invocation needs is loaded in the init phase, which is not"


# ── What invocations share ──────────────────────────────────────────────────────────────────────────────────────────

COUNTED = """
from holdfast.backends.aws import connection
from holdfast.runtime import lambda_
import handler as shop

counts = {"clients": 0, "opens": 0}
new_client, worker_of = connection.new_client, lambda_.worker_of

def counted_client(*args, **options):
    counts["clients"] += 1
    return new_client(*args, **options)

async def counted_crew(*args):
    counts["opens"] += 1
    return await worker_of(*args)

connection.new_client, lambda_.worker_of = counted_client, counted_crew

def handler(event, context):
    answer = shop.handler(event, context)
    return {"answer": answer, **counts}
"""


def test_warm_invocations_use_the_clients_of_the_first(function: Function) -> None:
    (function.folder / "counted.py").write_text(COUNTED)
    one = function.environment(code="counted.handler")
    for n in range(5):
        told = one.invoke(start(f"order-{n}"))
        assert told["answer"]["status"] == "COMPLETED"
        assert (told["opens"], told["clients"]) == (1, 0), "there was nothing to ring for, and DynamoDB needs none"


def test_the_messages_of_a_batch_wait_for_their_io_at_the_same_time(function: Function) -> None:
    (function.folder / "gate").write_text("8")
    one = function.environment()
    event = event_of(*((f"m-{n}", json.dumps(start(f"o-{n}", "gathering"))) for n in range(8)))
    assert one.invoke(event) == {"batchItemFailures": []}
    told = [one.invoke(status(f"o-{n}", "gathering")) for n in range(8)]
    assert [each["result"] for each in told] == [8] * 8, "none ended before all had begun"
