"""The roles, tried: what each may do is done, and what it must be refused is refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any, Final

from msgspec import Struct

from holdfast.backends.aws import names
from holdfast.backends.aws.connection import ThreadedConnection, new_client
from holdfast.backends.aws.layout import DUE_INDEX, key, text
from holdfast.coordination.idempotency.record import PARTITION_PREFIX as IDEMPOTENCY_KEYS
from holdfast.ports import SALT_PARTITION
from holdfast.verify.bench import Bench
from holdfast.verify.cloud import code_of
from holdfast.verify.finding import Finding, differences
from holdfast.verify.stack import ROLE
from holdfast.workflows.record import PARTITION_PREFIX as WORKFLOWS

RIGHTS: Final = "rights"

WORKER, CLIENT, CALLER = "WorkerPolicy", "ClientPolicy", "CallerPolicy"
IDEMPOTENCY, READER = "IdempotencyPolicy", "ReaderPolicy"
ROLES: Final = (WORKER, CLIENT, CALLER, IDEMPOTENCY, READER)

ASSUMED_WITHIN_SECONDS: Final = 90.0
"""A new role can be assumed after some seconds ("Changes that I make are not always immediately visible",
https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot.html)."""

PROBE: Final = "verify-probe"


class Probe(Struct, frozen=True):
    """A request, and the roles that may make it; all others must be refused."""

    name: str
    service: str
    operation: str
    parameters: dict[str, Any]
    allowed: frozenset[str]


async def rights(bench: Bench) -> Finding:
    """Every role with every probe."""
    wrong: list[str] = []
    tried = 0
    for role, found in zip(ROLES, await asyncio.gather(*(_of_role(bench, role) for role in ROLES)), strict=True):
        tried += len(found)
        for probe, may in found:
            if may != (role in probe.allowed):
                wrong.append(f"{role} {'may' if may else 'may not'}: {probe.name}")
    return differences(RIGHTS, wrong, told=f"{tried} attempts of {len(ROLES)} roles ended as the policies say")


async def _of_role(bench: Bench, role: str) -> list[tuple[Probe, bool]]:
    session = await _assumed(bench, bench.outputs[ROLE + role])
    probes = list(_probes(bench, await _queues(bench)))
    clients = {
        service: new_client(bench.record.region, bench.cloud.address.endpoint, service, session=session)
        for service in sorted({probe.service for probe in probes})
    }
    try:
        return [(probe, await _may(clients[probe.service], probe)) for probe in probes]
    finally:
        for each in clients.values():
            each.close()


async def _assumed(bench: Bench, arn: str) -> tuple[str, str, str]:
    """Credentials of the role, once it can be assumed."""

    async def assume() -> dict[str, Any] | None:
        try:
            answer = await bench.cloud.send(
                "sts", "AssumeRole", RoleArn=arn, RoleSessionName=PROBE, ExternalId=bench.record.mark
            )
        except Exception as error:
            if "AccessDenied" in code_of(error):
                return None
            raise
        found: dict[str, Any] = answer["Credentials"]
        return found

    found = await bench.cloud.until(assume, f"to assume the role {arn}", seconds=ASSUMED_WITHIN_SECONDS)
    return found["AccessKeyId"], found["SecretAccessKey"], found["SessionToken"]


async def _may(client: Any, probe: Probe) -> bool:
    """Whether it was not refused; any other error shows that the right was there."""
    connection = ThreadedConnection(None, None, client=client)
    try:
        await connection.send(probe.operation, probe.parameters)
    except Exception as error:
        if not code_of(error):
            raise
        return "AccessDenied" not in code_of(error)
    finally:
        connection.close()
    return True


async def _queues(bench: Bench) -> tuple[str, str]:
    urls = [
        (
            await bench.cloud.send(
                "sqs", "GetQueueUrl", QueueName=names.queue(bench.record.prefix, names.DOORBELL, dead=d)
            )
        )
        for d in (False, True)
    ]
    return urls[0]["QueueUrl"], urls[1]["QueueUrl"]


def _probes(bench: Bench, queues: tuple[str, str]) -> Iterator[Probe]:
    doorbell, dead = queues
    of_workflow, of_key = key(f"{WORKFLOWS}{PROBE}", PROBE), key(f"{IDEMPOTENCY_KEYS}{PROBE}", PROBE)
    on_table = {"TableName": bench.table}

    def probe(name: str, service: str, operation: str, allowed: tuple[str, ...], **parameters: Any) -> Probe:
        shared = on_table if service == "dynamodb" else {}
        return Probe(name, service, operation, shared | parameters, frozenset(allowed))

    yield probe("read an execution", "dynamodb", "GetItem", (WORKER, CLIENT, CALLER, READER), Key=of_workflow)
    yield probe("write an execution", "dynamodb", "PutItem", (WORKER, CLIENT, CALLER), Item=of_workflow)
    yield probe("write an idempotency key", "dynamodb", "PutItem", (WORKER, CLIENT, IDEMPOTENCY), Item=of_key)
    yield probe("read an idempotency key", "dynamodb", "GetItem", (WORKER, CLIENT, IDEMPOTENCY, READER), Key=of_key)
    yield probe("delete an idempotency key", "dynamodb", "DeleteItem", (WORKER, CLIENT), Key=of_key)
    yield probe("read the settings", "dynamodb", "GetItem", ROLES, Key=key(SALT_PARTITION, "settings"))
    yield probe("list the table", "dynamodb", "Scan", (WORKER, CLIENT, READER), Limit=1)
    yield probe(
        "look into the index",
        "dynamodb",
        "Query",
        (WORKER, CLIENT, READER),
        IndexName=DUE_INDEX,
        KeyConditionExpression="q = :q",
        ExpressionAttributeValues={":q": text("0")},
        Limit=1,
    )
    yield probe("describe the table", "dynamodb", "DescribeTable", (WORKER,))
    yield probe("describe the expiry of the table", "dynamodb", "DescribeTimeToLive", ())
    yield probe(
        "send a wake-up", "sqs", "SendMessage", (WORKER, CLIENT, CALLER), QueueUrl=doorbell, MessageBody=_wake_up()
    )
    yield probe("receive dead letters", "sqs", "ReceiveMessage", (WORKER,), QueueUrl=dead)
    yield probe("count dead letters", "sqs", "GetQueueAttributes", (WORKER, READER), QueueUrl=dead)
    yield probe("look at the bus", "events", "DescribeEventBus", (WORKER, READER), Name=bench.table)
    stored = {"Bucket": bench.bucket, "Key": f"{bench.record.prefix}/{PROBE}"}
    yield probe("store a large value", "s3", "PutObject", (WORKER, CLIENT, CALLER, IDEMPOTENCY), **stored, Body=b"{}")
    yield probe("read a large value", "s3", "GetObject", ROLES, **stored)
    yield probe("delete a large value", "s3", "DeleteObject", (WORKER,), **stored)


def _wake_up() -> str:
    """For an entity that is not there: nothing follows from it."""
    return json.dumps({"holdfast": "ring", "partition": f"{WORKFLOWS}{PROBE}"})
