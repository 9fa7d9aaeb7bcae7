"""Errors of DynamoDB, sorted by what they mean: try again, read first, refused, or a person must act.

The codes are those of "Error handling with DynamoDB" (developer guide) and of each operation's page in the API
reference. Errors of botocore are distinguished by name, so that nothing here imports it.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from holdfast.backends.aws.layout import Attributes
from holdfast.errors import HoldfastError, PayloadTooLarge, StoreUnusable

THROTTLED: Final = frozenset(
    {
        "ProvisionedThroughputExceeded",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "Throttling",
        "ThrottlingError",
        "ThrottlingException",
    }
)
CONFLICTED: Final = frozenset({"TransactionConflict", "TransactionConflictException", "TransactionInProgressException"})
FORBIDDEN: Final = frozenset(
    {
        "AccessDenied",
        "AccessDeniedException",
        "ExpiredToken",
        "ExpiredTokenException",
        "IncompleteSignatureException",
        "InvalidSignatureException",
        "MissingAuthenticationTokenException",
        "UnrecognizedClientException",
    }
)
NOT_SENT: Final = frozenset({"ConnectTimeoutError", "EndpointConnectionError", "NotSent", "ProxyConnectionError"})
NO_CREDENTIALS: Final = frozenset(
    {
        "CredentialRetrievalError",
        "InvalidRegionError",
        "NoCredentialsError",
        "NoRegionError",
        "PartialCredentialsError",
        "ProfileNotFound",
    }
)


class NotApplied(Struct, frozen=True):
    """The request was turned away: it may work in a moment, and nothing of it was applied."""

    reason: str


class AnswerLost(Struct, frozen=True):
    """It is unknown whether the request was applied."""

    reason: str


class ConditionFailed(Struct, frozen=True):
    """A single write was refused; ``there`` is the item that the table holds."""

    there: Attributes | None


class Reason(Struct, frozen=True):
    """Why a transaction was cancelled, for one of its items."""

    code: str
    there: Attributes | None


class Cancelled(Struct, frozen=True):
    """A transaction was cancelled because of a condition of at least one item."""

    reasons: tuple[Reason, ...]


class Hopeless(Struct, frozen=True):
    """Sending it again would change nothing: a person must act, or the caller was wrong."""

    error: HoldfastError


Failure = NotApplied | AnswerLost | ConditionFailed | Cancelled | Hopeless


def explained(error: Exception, table: str) -> Failure:
    """What an error of botocore, or of ours, means for its request."""
    if isinstance(error, HoldfastError):
        return Hopeless(error)
    response: Any = getattr(error, "response", None)
    if response and "Error" in response:
        return _refused(response, table)
    name = type(error).__name__
    if name in NOT_SENT:
        return NotApplied(f"{name}: {error}")
    if name in NO_CREDENTIALS:
        return Hopeless(
            StoreUnusable(
                f"the table {table} cannot be reached: {str(error).rstrip('.')}. Give credentials and a region, by the "
                "environment (AWS_REGION, AWS_ACCESS_KEY_ID …), a profile, or the role of the machine; the region may "
                "also be in the home's URL (?region=…)"
            )
        )
    if name == "ParamValidationError":
        return Hopeless(StoreUnusable(f"a request for the table {table} is not well formed: {error}"))
    return AnswerLost(f"{name}: {error}")


def _refused(response: dict[str, Any], table: str) -> Failure:
    code, message = response["Error"].get("Code", ""), response["Error"].get("Message", "")
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    told = f"{code}: {message}"
    if code == "ConditionalCheckFailedException":
        return ConditionFailed(response.get("Item"))
    if code == "TransactionCanceledException":
        return _cancelled(response, told, table)
    if code in THROTTLED or code in CONFLICTED:
        return NotApplied(told)
    if status >= 500:
        return AnswerLost(told)
    if code in FORBIDDEN:
        return Hopeless(
            StoreUnusable(
                f"AWS refuses this process at the table {table} ({told}). Its role needs dynamodb:GetItem, "
                "BatchGetItem, PutItem, UpdateItem, DeleteItem, Query and Scan on the table, and Query and Scan on its "
                "index"
            )
        )
    if code == "ResourceNotFoundException":
        return Hopeless(
            StoreUnusable(
                f"there is no table {table}, or it lacks an index ({told}). Check the prefix and the region of the "
                "home's URL, and create the table: holdfast aws create-table, or holdfast.backends.aws.create_table"
            )
        )
    if code == "ValidationException" and "size" in message and "exceeded" in message:
        return Hopeless(PayloadTooLarge(f"the item is too large for DynamoDB: {message}. Nothing was written"))
    return Hopeless(StoreUnusable(f"the table {table} refuses a request of Holdfast ({told})"))


def _cancelled(response: dict[str, Any], told: str, table: str) -> Failure:
    reasons = tuple(
        Reason(each.get("Code", "None"), each.get("Item") or None) for each in response.get("CancellationReasons", ())
    )
    codes = {each.code for each in reasons}
    if "ConditionalCheckFailed" in codes:
        return Cancelled(reasons)
    if codes & (THROTTLED | CONFLICTED):
        return NotApplied(told)
    if any("size" in each.get("Message", "") for each in response.get("CancellationReasons", ())):
        return Hopeless(PayloadTooLarge(f"the item is too large for DynamoDB ({told}). Nothing was written"))
    return Hopeless(StoreUnusable(f"the table {table} refuses a transaction of Holdfast ({told})"))
