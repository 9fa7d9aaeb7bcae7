"""The bodies of requests and answers: JSON, with the base64 of binary values ("DynamoDB low-level API", developer
guide: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Programming.LowLevelAPI.html).

SQS speaks the same protocol ("Making Query API requests using AWS JSON protocol", SQS developer guide:
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-making-api-requests-json.html).

Answers come out as botocore gives them, so that a caller cannot tell the difference. Only the operations of which there
are many are known here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypedDict

import msgspec
from msgspec import Struct, field


class Value(TypedDict, total=False):
    """``AttributeValue`` of the API reference."""

    S: str
    N: str
    B: bytes
    BOOL: bool
    NULL: bool
    L: list[Value]
    M: dict[str, Value]
    SS: list[str]
    NS: list[str]
    BS: list[bytes]


Attributes = dict[str, Value]


class Answer(TypedDict, total=False):
    """The fields of the answers to all these operations."""

    Item: Attributes
    Attributes: Attributes
    Items: list[Attributes]
    Count: int
    ScannedCount: int
    LastEvaluatedKey: Attributes
    Responses: dict[str, list[Attributes]]
    UnprocessedKeys: dict[str, Any]
    UnprocessedItems: dict[str, list[dict[str, dict[str, Attributes]]]]
    ConsumedCapacity: Any


class Cause(TypedDict, total=False):
    """Why a transaction was cancelled, for one of its items."""

    Code: str
    Message: str | None
    Item: Attributes | None


class Refusal(Struct):
    """The fields of errors. Some write ``Message``."""

    type: str = field(name="__type", default="")
    message: str | None = None
    other: str | None = field(name="Message", default=None)
    item: Attributes | None = field(name="Item", default=None)
    causes: list[Cause] | None = field(name="CancellationReasons", default=None)


class Refused(Exception):
    """The service has refused a request. ``response`` is as in botocore's ``ClientError``."""

    def __init__(self, operation: str, response: dict[str, Any]) -> None:
        told = response["Error"]
        super().__init__(f"{operation}: {told['Code']}: {told['Message']}")
        self.response = response


class Service(Struct, frozen=True, eq=False):
    """A service, its operations that are known here, and what reads their answers or raises ``msgspec.DecodeError``."""

    name: str
    target: str
    operations: frozenset[str]
    decode: Callable[[bytes], Any]


DYNAMODB: Final = Service(
    "dynamodb",
    "DynamoDB_20120810.",
    frozenset(
        {
            "BatchGetItem",
            "BatchWriteItem",
            "DeleteItem",
            "GetItem",
            "PutItem",
            "Query",
            "Scan",
            "TransactWriteItems",
            "UpdateItem",
        }
    ),
    msgspec.json.Decoder(Answer).decode,
)
SQS: Final = Service(
    "sqs", "AmazonSQS.", frozenset({"GetQueueUrl", "SendMessageBatch"}), msgspec.json.Decoder(dict[str, Any]).decode
)

encode = msgspec.json.Encoder().encode
_refusal = msgspec.json.Decoder(Refusal).decode


def refused(operation: str, status: int, body: bytes) -> Refused:
    """The error in a body; one that is not of the service itself, but of something before it, has only a status."""
    try:
        told = _refusal(body)
    except msgspec.DecodeError:
        told = Refusal()
    code = told.type.rpartition("#")[2] or str(status)
    response: dict[str, Any] = {
        "Error": {"Code": code, "Message": told.message or told.other or ""},
        "ResponseMetadata": {"HTTPStatusCode": status},
    }
    if told.item is not None:
        response["Item"] = told.item
    if told.causes is not None:
        response["CancellationReasons"] = [
            {name: value for name, value in cause.items() if value is not None} for cause in told.causes
        ]
    return Refused(operation, response)
