"""Answers as the service words them.

Codes and messages: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Programming.Errors.html and, for
transactions, https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TransactWriteItems.html
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

SERVICE: Final = "com.amazonaws.dynamodb.v20120810#"
TOO_FAST: Final = (
    "Throughput exceeds the current capacity of your table or index. DynamoDB is automatically scaling your table or "
    "index so please try again shortly. If exceptions persist, check if you have a hot key."
)
PHRASES: Final = {200: "OK", 400: "Bad Request", 500: "Internal Server Error", 503: "Service Unavailable"}

encode: Final = msgspec.json.Encoder().encode


class Answer(Struct, frozen=True):
    """A status, and a body of JSON."""

    status: int
    body: bytes

    def as_bytes(self) -> bytes:
        """The same in HTTP/1.1, with the checksum that clients may verify."""
        head = (
            f"HTTP/1.1 {self.status} {PHRASES.get(self.status, 'Unknown')}\r\n"
            f"Content-Type: application/x-amz-json-1.0\r\n"
            f"x-amz-crc32: {zlib.crc32(self.body)}\r\n"
            f"Content-Length: {len(self.body)}\r\n\r\n"
        )
        return head.encode() + self.body


def succeeded(content: dict[str, Any]) -> Answer:
    """A success."""
    return Answer(200, encode(content))


def refused(code: str, message: str, more: dict[str, Any] | None = None, *, status: int = 400) -> Answer:
    """A refusal with a code of the API."""
    return Answer(status, encode({"__type": SERVICE + code, "message": message} | (more or {})))


def cancelled(codes: Sequence[str]) -> Answer:
    """A cancelled transaction, with the code of each item, ``None`` for those that were not the reason."""
    reasons = [{"Code": code} | ({} if code == "None" else {"Message": MESSAGES[code]}) for code in codes]
    told = f"Transaction cancelled, please refer cancellation reasons for specific reasons [{', '.join(codes)}]"
    return Answer(
        400,
        encode({"__type": SERVICE + "TransactionCanceledException", "Message": told, "CancellationReasons": reasons}),
    )


CONFLICTED: Final = "TransactionConflict"
MESSAGES: Final = {
    CONFLICTED: "Transaction is ongoing for the item",
    "ThrottlingError": TOO_FAST,
    "ProvisionedThroughputExceeded": TOO_FAST,
}


def throttled(code: str, reason: str, resource: str) -> Answer:
    """A request whose rate is too high, for a reason such as ``TableWriteKeyRangeThroughputExceeded``.

    https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_ThrottlingReason.html
    """
    reasons = "throttlingReasons" if code == "ThrottlingException" else "ThrottlingReasons"
    return refused(code, TOO_FAST, {reasons: [{"reason": reason, "resource": resource}]})


def failed(status: int) -> Answer:
    """A failure of the service itself."""
    if status == 503:
        return refused("ServiceUnavailable", "The service is temporarily unavailable", status=status)
    return refused("InternalServerError", "The request processing has failed because of an unknown error", status=500)
