"""The policies against the requests that the code makes: no request of a role is missing, and no right is unused."""

from __future__ import annotations

import ast
import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final
from unittest.mock import patch

import pytest
from click.testing import CliRunner
from tests.backends.aws.local import CREDENTIALS
from tests.infra.fabrics import PLAIN
from tests.infra.ministack import only_ministack
from tests.infra.rights import ACCOUNT, REGION, Asked, asked_by, is_allowed, leading, policy_of, recorded, table_arn

import holdfast as hf
from holdfast.backends import aws as backend
from holdfast.backends.aws import clean_up, create_table, due, open_aws_home
from holdfast.backends.aws.connection import new_client
from holdfast.cli import main
from holdfast.cli.checks import executions
from holdfast.commands import perform
from holdfast.commands.message import DropParked, ListParked, Redrive
from holdfast.items import Item, Put

NOISE: Final = Random(7)


def large() -> str:
    """A value for the bucket, which no packing makes small: another one each time."""
    return NOISE.randbytes(200_000).hex()


@dataclass
class Sold:
    order: str


def app_of(url: str) -> hf.App:
    """An app that uses everything for which a right is needed."""
    app = hf.App("shop", home=url)
    app.to_bus(Sold)

    class Till(hf.Actor, app=app):
        orders: list[str] = hf.field(default_factory=list)

        async def add(self, order: str) -> int:
            self.orders = [*self.orders, order]
            return len(self.orders)

    @app.step
    async def charge(order: str) -> str:
        return f"charged {order[:10]}"

    @app.workflow
    async def checkout(order: str) -> str:
        await charge(order)
        await app.publish(Sold(order[:10]))
        await Till.at("main").add(order[:10])
        return await hf.signal("approved", str)

    @app.workflow
    async def patient(how_long: str) -> None:
        await hf.sleep(how_long)

    @app.workflow(retention="1s")
    async def brief(text: str) -> None:
        await charge("first")
        await charge("second")

    @app.idempotent(key="order", window="1h", wait="30s")
    async def pay(order: str) -> str:
        await asyncio.sleep(0.5)
        return large()

    app.checkout, app.Till, app.patient, app.pay = checkout, Till, patient, pay
    return app


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with only_ministack(tmp_path_factory, **CREDENTIALS) as endpoint:
        yield prepared(endpoint)


def prepared(endpoint: str) -> str:
    bucket = f"shop-holdfast-blobs-{ACCOUNT}-{REGION}"
    made = {name: new_client(REGION, endpoint, name) for name in ("s3", "sqs", "events")}
    made["s3"].create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": REGION})
    made["sqs"].create_queue(QueueName="shop-holdfast-doorbell")
    dead = made["sqs"].create_queue(QueueName="shop-holdfast-doorbell-dead")["QueueUrl"]
    for _ in range(2):
        made["sqs"].send_message(QueueUrl=dead, MessageBody="{}")
    made["events"].create_event_bus(Name="shop-holdfast")
    for client in made.values():
        client.close()
    # What is recorded is what botocore is asked for.
    url = f"aws://shop?region={REGION}&bucket={bucket}&bus=shop-holdfast&endpoint={endpoint}&client=botocore"
    asyncio.run(create_table(url))
    return url


async def works(url: str) -> None:
    """As the function does, the sweeps and the clean-up too."""
    handler = app_of(url).lambda_handler()
    command = {"workflow": "checkout", "id": "one"}
    await handler.invoke({"holdfast": "start", **command, "input": [large()]})
    await handler.invoke({"holdfast": "start", "workflow": "brief", "id": "b", "input": [large()]})
    await handler.invoke({"holdfast": "start", "workflow": "patient", "id": "for a month", "input": ["30d"]})
    await handler.invoke({"holdfast": "start", "workflow": "patient", "id": "for a minute", "input": ["60s"]})
    await handler.invoke({"holdfast": "sweep"})
    await handler.invoke({"holdfast": "clean-up"})
    with patch.object(due, "FEW", 1):  # as if there were many
        await handler.invoke({"holdfast": "sweep"})
    await handler.invoke({"holdfast": "signal", **command, "name": "approved", "value": large()})
    assert (await handler.invoke({"holdfast": "status", **command}))["status"] == "COMPLETED"
    await handler.aclose()
    await repairs(url)
    await meets_older_version(url)
    await leaves_a_mark(url)
    for _ in range(2):  # the second time, what the first one has deleted refers to no large value any more
        await clean_up(url, clock=InAMonth())


async def repairs(url: str) -> None:
    """As the dashboard of a function does."""
    app = app_of(url)
    async with app:
        first, second = (await perform(ListParked(), app)).items
        await perform(Redrive(first.id), app)
        await perform(DropParked(second.id), app)


async def leaves_a_mark(url: str) -> None:
    """What is left of an execution that has expired, and no owner of it has written: it is deleted on a condition."""
    home = await open_aws_home(url)
    await home.store.write(Put(Item("wf#brief#gone", "c#000000#callback#0")))
    await home.store.write(Put(Item("wf#brief#gone", status="COMPLETED", expires_at=1)))
    await home.store.close()


class InAMonth:
    def now_ms(self) -> int:
        return int(time.time() * 1000) + 30 * 86_400_000


async def meets_older_version(url: str) -> None:
    """An execution is pinned to another version of the function, which is called for it."""
    command = {"workflow": "pinned", "id": "p"}
    for version, event in (("1", {"holdfast": "start"}), ("2", {"holdfast": "signal", "name": "go", "value": "x"})):
        app = app_of(url)

        @app.workflow(versions="pinned", version=version)
        async def pinned() -> str:
            return await hf.signal("go", str)

        handler = app.lambda_handler()
        app.published = f"shop-holdfast:{version}"
        await handler.invoke(command | event)
        await handler.aclose()


async def calls(url: str) -> None:
    app = app_of(url)
    async with app:
        execution = await app.checkout.start(text := large(), id="two")
        await app.checkout.start(text, id="two")
        await execution.signal("approved", large())
        await execution.status()
        await execution.history()
        await execution.cancel()
        await app.checkout.start("x", id="three", delay="1h")
        for text in ("x", NOISE.randbytes(5_000).hex()):  # kept in the head of the actor, and as an item of its own
            sent = await hf.send(app.Till.at("main").add, text, delay="1h")
            await sent.cancel()
        await app.publish(Sold("x"))
        with pytest.raises(hf.WaitTimeout):
            await app.Till.at("main", timeout="1s").add("x")
        assert len(await app.checkout.handle("one")) == 400_000


async def keeps_keys(url: str) -> None:
    app = app_of(url)
    async with app:
        first, second = await asyncio.gather(app.pay("1"), app.pay("1"))
        assert first == second == await app.pay("1")


def looks(url: str) -> None:
    with patch.object(executions, "OVERDUE_MS", 0):  # as if what is due now had been for long
        for command in LOOKS:
            done = CliRunner().invoke(main, [*command.split(), "--home", url])
            assert done.exit_code == 0, done.output
    assert "ok    bucket        it answers" in done.output


LOOKS: Final = (
    "ls --scan",
    "show checkout one",
    "actor ls --scan",
    "actor show Till main",
    "dlq ls",
    "outbox ls shop",
    "outbox ls --scan",
    "schedules --scan",
    "leases --scan",
    "workers --scan",
    "doctor",
)


# ── The comparison ──────────────────────────────────────────────────────────────────────────────────────────────────

ROLES: Final = {
    "WorkerPolicy": works,
    "CallerPolicy": calls,
    "IdempotencyPolicy": keeps_keys,
    "ReaderPolicy": looks,
}


def asked_during(act: Callable[[str], Any], url: str) -> set[Asked]:
    with recorded() as asked:
        if (doing := act(url)) is not None:
            asyncio.run(doing)
    assert len(asked) > 1
    return set(asked)


@pytest.mark.aws
@pytest.mark.process
@pytest.mark.slow
def test_each_role_may_send_its_requests_and_nothing_else(url: str) -> None:
    for policy, act in ROLES.items():
        statements = policy_of(PLAIN, policy)
        granted = {action for each in statements for action in each["Action"]}
        asked = asked_during(act, url)
        assert not {each for each in asked if not is_allowed(each, statements)}, f"{policy} lacks a right"
        unused = granted - {each.action for each in asked}
        assert not unused, f"{policy} has too many rights"


def test_a_client_may_do_what_all_without_a_worker_do_and_its_rights_are_a_workers() -> None:
    """It has the calls, the keys, documents, sessions and lists: each is compared as part of the others."""
    client = {action for each in policy_of(PLAIN, "ClientPolicy") for action in each["Action"]}
    parts = ("CallerPolicy", "IdempotencyPolicy")
    assert client >= {action for name in parts for each in policy_of(PLAIN, name) for action in each["Action"]}
    assert client < {action for each in policy_of(PLAIN, "WorkerPolicy") for action in each["Action"]}


OPERATOR: Final = {"CreateTable", "UpdateContinuousBackups", "UpdateTable", "UpdateTimeToLive"}
"""Sent by ``holdfast aws create-table``, for which no policy is made."""


def test_every_operation_in_the_code_is_allowed_to_a_role() -> None:
    """Those too that no act above leads to: they are found by their names in the source."""
    known = {
        operation
        for service in ("dynamodb", "events", "lambda", "s3", "sqs")
        for operation in new_client(REGION, "http://127.0.0.1:9", service).meta.service_model.operation_names
    }
    said = {
        node.value
        for path in Path(backend.__file__).parent.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and node.value in known
    }
    assert {"GetItem", "SendMessageBatch", "PutEvents", "GetObject"} < said
    granted = {
        action.partition(":")[2] for policy in ROLES for each in policy_of(PLAIN, policy) for action in each["Action"]
    }
    actions = {SAME_RIGHT.get(operation, operation.removesuffix("Batch")) for operation in said - OPERATOR}
    assert actions - granted == set()


SAME_RIGHT: Final = {
    "HeadBucket": "ListBucket",
    "HeadObject": "GetObject",
    "Invoke": "InvokeFunction",
    "ListObjectsV2": "ListBucket",
    "TransactGetItems": "GetItem",
    "TransactWriteItems": "UpdateItem",
}
"""The actions of operations with another name."""


# ── The evaluation itself ───────────────────────────────────────────────────────────────────────────────────────────

TABLE: Final = table_arn("shop-holdfast")


@pytest.mark.parametrize(
    ("policy", "partition", "allowed"),
    [
        ("CallerPolicy", "wf#checkout#1", True),
        ("CallerPolicy", "actor#Till#1", True),
        ("CallerPolicy", "key#pay/7e", False),
        ("CallerPolicy", "doc#carts#1", False),
        ("IdempotencyPolicy", "key#pay/7e", True),
        ("IdempotencyPolicy", "wf#checkout#1", False),
        ("IdempotencyPolicy", "home#", False),
    ],
)
def test_a_narrow_policy_writes_items_of_its_kind(policy: str, partition: str, allowed: bool) -> None:
    statements = policy_of(PLAIN, policy)
    assert is_allowed(Asked("dynamodb:UpdateItem", TABLE, leading(partition)), statements) is allowed
    assert not is_allowed(Asked("dynamodb:UpdateItem", TABLE, leading(partition, "lease#x")), statements)
    assert not is_allowed(Asked("dynamodb:UpdateItem", TABLE), statements)
    assert not is_allowed(Asked("dynamodb:UpdateItem", table_arn("other"), leading(partition)), statements)
    assert not is_allowed(Asked("dynamodb:Scan", TABLE), statements)


def test_a_transaction_is_its_items() -> None:
    items = [
        {"Put": {"TableName": "t", "Item": {"p": {"S": "a"}}}},
        {"Delete": {"TableName": "t", "Key": {"p": {"S": "b"}}}},
    ]
    assert asked_by("dynamodb", "TransactWriteItems", {"TransactItems": items}) == [
        Asked("dynamodb:PutItem", table_arn("t"), leading("a")),
        Asked("dynamodb:DeleteItem", table_arn("t"), leading("b")),
    ]
