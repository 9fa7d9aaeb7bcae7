"""The permissions: exact actions on exact resources, as policies for roles.

===========  ========================================================================================================
worker       receives messages and does the work
client       everything that a process without a worker may do: starts, documents, sessions, lists
caller       starts, calls, sends, signals, publishes, and waits for results; nothing else
idempotency  keeps the records of idempotent handlers; nothing else
reader       reads: for dashboards, and for people who should change nothing
===========  ========================================================================================================

A test compares them with the requests that the code sends: none is refused, and no right is without use.
"""

from __future__ import annotations

from typing import Any, Final

from holdfast.actors.record import PARTITION_PREFIX as ACTORS
from holdfast.backends.aws.names import base, function
from holdfast.coordination.idempotency.record import PARTITION_PREFIX as IDEMPOTENCY_KEYS
from holdfast.infra.intrinsics import Resources, arn, resource
from holdfast.infra.options import Fabric
from holdfast.infra.queues import queue_arn, which
from holdfast.infra.storage import bucket_arn, index_arn, indexes, stream_arn, table_arn
from holdfast.keys import SEPARATOR
from holdfast.messaging.outbox import PARTITION_PREFIX as OUTBOX
from holdfast.ports import SALT_PARTITION
from holdfast.workflows.record import PARTITION_PREFIX as WORKFLOWS

Statement = dict[str, Any]

READ: Final = ("dynamodb:BatchGetItem", "dynamodb:GetItem", "dynamodb:Query", "dynamodb:Scan")
READ_ROWS: Final = tuple(action for action in READ if action != "dynamodb:Scan")
WRITE: Final = ("dynamodb:DeleteItem", "dynamodb:PutItem", "dynamodb:UpdateItem")
"""In transactions too, where each write carries its own condition ("Using IAM with DynamoDB transactions", developer
guide)."""

CLEAN: Final = ("dynamodb:BatchWriteItem",)
"""Deletes what is left over, without conditions."""

MEASURE: Final = "dynamodb:DescribeTable"
"""How large the table is, for an alarm."""

KEEP: Final = ("dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem")
"""A record of a key is never deleted by its handler."""

FOLLOW: Final = (
    "dynamodb:DescribeStream",
    "dynamodb:GetRecords",
    "dynamodb:GetShardIterator",
    "dynamodb:ListStreams",
)
"""What Lambda requests in the function's name ("IAM policy to allow a Lambda function to access DynamoDB stream
records", DynamoDB developer guide)."""

SEND: Final = ("sqs:GetQueueUrl", "sqs:SendMessage")
RECEIVE: Final = ("sqs:ChangeMessageVisibility", "sqs:DeleteMessage", "sqs:ReceiveMessage")
LOOK: Final = ("sqs:GetQueueAttributes", "sqs:GetQueueUrl")
ANNOUNCE: Final = ("events:DescribeEventBus", "events:PutEvents")
SEAL: Final = ("kms:Decrypt", "kms:GenerateDataKey")
"""The actions on the key for sending to an encrypted queue, or writing into an encrypted bucket."""

SEAL_ROWS: Final = (*SEAL, "kms:DescribeKey", "kms:Encrypt")
"""And those of DynamoDB, in the name of the writer ("Authorizing use of your KMS key", DynamoDB developer guide)."""

BROAD: Final = {
    "BucketPolicy": "refuses whatever anybody does without TLS: a denial must name everybody and everything",
    "DoorbellPolicy": "the same",
    "DoorbellDeadPolicy": "the same",
    "OrderedPolicy": "the same",
    "OrderedDeadPolicy": "the same",
    "FunctionRole": "in a VPC, or with tracing: Lambda's own requests for these name no resource",
}
"""The resources of the template whose policies say ``*``, and why. A test checks that there are no others. What is said
of the doorbell and of the function is true of those of further functions."""


def policies(fabric: Fabric) -> Resources:
    """The policies, and one for each tenant. Attach them to the roles of functions and people of your own."""
    return {
        "WorkerPolicy": _policy(f"Does the work of {base(fabric.prefix)}", worker(fabric)),
        "ClientPolicy": _policy(f"Starts and calls what {base(fabric.prefix)} runs", client(fabric)),
        "CallerPolicy": _policy(f"Calls what {base(fabric.prefix)} runs, and no more", caller(fabric)),
        "IdempotencyPolicy": _policy(f"Keeps idempotency keys in {base(fabric.prefix)}", idempotency(fabric)),
        "ReaderPolicy": _policy(f"Looks into {base(fabric.prefix)}, and changes nothing", reader(fabric)),
        **{
            f"Tenant{number}ReaderPolicy": _policy(
                f"Looks into what is {tenant}'s in {base(fabric.prefix)}", tenant_reader(fabric, tenant)
            )
            for number, tenant in enumerate(fabric.tenants, start=1)
        },
    }


def worker(fabric: Fabric) -> list[Statement]:
    """What the worker may do."""
    queues = [queue_arn(fabric, name) for name in which(fabric)]
    return [
        *_table(fabric, (*READ, *WRITE, *CLEAN, MEASURE)),
        *([allow("Stream", FOLLOW, stream_arn(fabric))] if fabric.stream else []),
        allow("Queues", (*SEND, *RECEIVE), *queues),
        allow("DeadLetters", (*LOOK, *RECEIVE), *(queue_arn(fabric, name, dead=True) for name in which(fabric))),
        *_versions(fabric),
        allow("Events", ANNOUNCE, arn("events", f"event-bus/{base(fabric.prefix)}")),
        allow("Blobs", ("s3:DeleteObject", "s3:GetObject", "s3:PutObject"), bucket_arn(fabric, "/*")),
        allow("ListBlobs", ("s3:ListBucket",), bucket_arn(fabric)),
        *_key(fabric, *SEAL_ROWS),
    ]


def client(fabric: Fabric) -> list[Statement]:
    """What a client may do."""
    queues = [queue_arn(fabric, name) for name in which(fabric)]
    return [
        *_table(fabric, (*READ, *WRITE)),
        allow("Queues", SEND, *queues),
        *_blobs(fabric),
        *_key(fabric, *SEAL_ROWS),
    ]


def caller(fabric: Fabric) -> list[Statement]:
    """What a process may do that only starts, calls, sends, signals, publishes and waits. It can list nothing."""
    queues = [queue_arn(fabric, name) for name in which(fabric)]
    own = [f"{kind}*" for kind in (ACTORS, OUTBOX, WORKFLOWS)]
    return [
        allow("Rows", ("dynamodb:GetItem", "dynamodb:Query", *WRITE), table_arn(fabric), condition=_keys(*own)),
        *_settings(fabric),
        allow("Queues", SEND, *queues),
        *_blobs(fabric),
        *_key(fabric, *SEAL_ROWS),
    ]


def idempotency(fabric: Fabric) -> list[Statement]:
    """What a process may do that only has idempotent handlers."""
    return [
        allow("Rows", KEEP, table_arn(fabric), condition=_keys(f"{IDEMPOTENCY_KEYS}*")),
        *_settings(fabric),
        *_blobs(fabric),
        *_key(fabric, *SEAL_ROWS),
    ]


def reader(fabric: Fabric) -> list[Statement]:
    """What a reader may do."""
    queues = [queue_arn(fabric, name, dead=dead) for name in which(fabric) for dead in (False, True)]
    return [
        *_table(fabric, READ),
        allow("Queues", LOOK, *queues),
        allow("Events", ("events:DescribeEventBus",), arn("events", f"event-bus/{base(fabric.prefix)}")),
        allow("Blobs", ("s3:GetObject",), bucket_arn(fabric, "/*")),
        allow("ListBlobs", ("s3:ListBucket",), bucket_arn(fabric)),
        *_key(fabric, "kms:Decrypt"),
    ]


def tenant_reader(fabric: Fabric, tenant: str) -> list[Statement]:
    """What a reader of one tenant's executions and actors may do ("Using IAM policy conditions for fine-grained access
    control", DynamoDB developer guide). Scans and indexes cover all tenants, so they are left out; so is the bucket of
    large values, whose objects are named by their content.
    """
    own = [f"{WORKFLOWS}*{SEPARATOR}{tenant}*", f"{ACTORS}*{SEPARATOR}{tenant}*"]
    return [
        allow("Rows", READ_ROWS, table_arn(fabric), condition=_keys(*own)),
        *_key(fabric, "kms:Decrypt"),
    ]


def allow(sid: str, actions: tuple[str, ...], *resources: Any, condition: dict[str, Any] | None = None) -> Statement:
    """One statement of a policy."""
    statement = {"Sid": sid, "Effect": "Allow", "Action": list(actions), "Resource": list(resources)}
    return statement if condition is None else statement | {"Condition": condition}


def role(service: str, *, condition: dict[str, Any] | None = None, **properties: Any) -> dict[str, Any]:
    """A role that a service of AWS may assume."""
    trust: Statement = {"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"}
    if condition is not None:
        trust["Condition"] = condition
    document = {"Version": "2012-10-17", "Statement": [trust]}
    return resource("AWS::IAM::Role", {"AssumeRolePolicyDocument": document, **properties})


def inline(name: str, statements: list[Statement]) -> list[dict[str, Any]]:
    """The ``Policies`` of a role that no other principal shares."""
    return [{"PolicyName": name, "PolicyDocument": {"Version": "2012-10-17", "Statement": statements}}]


def _policy(description: str, statements: list[Statement]) -> dict[str, Any]:
    document = {"Version": "2012-10-17", "Statement": statements}
    return resource("AWS::IAM::ManagedPolicy", {"Description": description, "PolicyDocument": document})


def _table(fabric: Fabric, actions: tuple[str, ...]) -> list[Statement]:
    found = [index_arn(fabric, index) for index in indexes(fabric)]
    return [allow("Table", actions, table_arn(fabric)), allow("Indexes", ("dynamodb:Query", "dynamodb:Scan"), *found)]


def _keys(*patterns: str) -> dict[str, Any]:
    """Only items whose partitions match, and no request without a partition ("Using IAM policy conditions for
    fine-grained access control", DynamoDB developer guide).
    """
    return {
        "ForAllValues:StringLike": {"dynamodb:LeadingKeys": list(patterns)},
        "Null": {"dynamodb:LeadingKeys": "false"},
    }


def _settings(fabric: Fabric) -> list[Statement]:
    """What every process reads about the home itself."""
    return [
        allow("Settings", ("dynamodb:GetItem",), table_arn(fabric), condition=_keys(SALT_PARTITION)),
    ]


def _blobs(fabric: Fabric) -> list[Statement]:
    """Large values. Without the right to list, S3 says "forbidden" where "missing" is meant
    (https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html).
    """
    return [
        allow("Blobs", ("s3:GetObject", "s3:PutObject"), bucket_arn(fabric, "/*")),
        allow("ListBlobs", ("s3:ListBucket",), bucket_arn(fabric)),
    ]


def _versions(fabric: Fabric) -> list[Statement]:
    """Invoking old versions of the functions, for the executions that are pinned to them.

    Their numbers are assigned later, hence the star behind the last colon: it does not match the function without a
    qualifier. A function that is created elsewhere gets this there: here the reference would be circular.
    """
    versions = [arn("lambda", f"function:{function(fabric.prefix, name)}:*") for name in fabric.made]
    return [allow("Versions", ("lambda:InvokeFunction",), *versions)] if versions else []


def _key(fabric: Fabric, *actions: str) -> list[Statement]:
    return [] if fabric.key_arn is None else [allow("Key", actions, fabric.key_arn)]
