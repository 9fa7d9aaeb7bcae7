"""Creating the table."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from holdfast.backends.aws.connection import Connection
from holdfast.backends.aws.failures import Hopeless, explained
from holdfast.backends.aws.layout import DUE_INDEX
from holdfast.errors import StoreUnavailable, StoreUnusable

STREAM_VIEW: Final = "NEW_AND_OLD_IMAGES"
"""What the stream of a table shows, if it has one: that there was something to do, and that there is not any more."""

TTL_ATTRIBUTE: Final = "x"
LOOKS: Final = 240
PAUSE_SECONDS: Final = 0.5


def table_definition(table: str) -> dict[str, Any]:
    """The table, for CreateTable: billed per request, with one index of keys only."""
    attributes = {"p": "S", "s": "S", "q": "S", "d": "N"}
    return {
        "TableName": table,
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": [{"AttributeName": name, "AttributeType": kind} for name, kind in attributes.items()],
        "KeySchema": _keys("p", "s"),
        "GlobalSecondaryIndexes": [
            {"IndexName": DUE_INDEX, "KeySchema": _keys("q", "d"), "Projection": {"ProjectionType": "KEYS_ONLY"}},
        ],
    }


def _keys(partition: str, sort: str) -> list[dict[str, str]]:
    return [{"AttributeName": partition, "KeyType": "HASH"}, {"AttributeName": sort, "KeyType": "RANGE"}]


async def create_table(connection: Connection, table: str) -> bool:
    """Create the table unless it exists, with expiry (TTL) and point-in-time recovery switched on, and wait for it.

    Returns whether it was created.

    Needs more rights than a worker has: dynamodb:CreateTable, DescribeTable, UpdateTimeToLive,
    UpdateContinuousBackups. Raises ``StoreUnusable`` with the reason, also if another kind of table has this name.
    """
    made = await _ask(connection, table, "CreateTable", table_definition(table), but=("ResourceInUseException",))
    for _ in range(LOOKS):
        described = await _ask(connection, table, "DescribeTable", {"TableName": table})
        _check_is_ours(described["Table"], table)
        if described["Table"]["TableStatus"] == "ACTIVE":
            break
        await asyncio.sleep(PAUSE_SECONDS)
    else:
        raise StoreUnavailable(f"the table {table} is still being created; check again later")
    expiry = {"TimeToLiveSpecification": {"Enabled": True, "AttributeName": TTL_ATTRIBUTE}, "TableName": table}
    # Refused if it is switched on already.
    await _ask(connection, table, "UpdateTimeToLive", expiry, but=("ValidationException",))
    recovery = {"PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": True}, "TableName": table}
    # DynamoDB Local does not know the operation.
    await _ask(connection, table, "UpdateContinuousBackups", recovery, but=("UnknownOperationException",))
    return bool(made)


def _check_is_ours(described: dict[str, Any], table: str) -> None:
    wanted = table_definition(table)
    keys = {each["IndexName"]: each["KeySchema"] for each in described.get("GlobalSecondaryIndexes", ())}
    missing = [each["IndexName"] for each in wanted["GlobalSecondaryIndexes"] if each != _index(each, keys)]
    if described["KeySchema"] != wanted["KeySchema"] or missing:
        lacks = f"it lacks {', '.join(missing)}" if missing else "its key is different"
        raise StoreUnusable(f"the table {table} exists but is not Holdfast's: {lacks}. Use another prefix")


def _index(wanted: dict[str, Any], keys: dict[str, Any]) -> dict[str, Any]:
    """The existing index of that name."""
    return wanted | {"KeySchema": keys.get(wanted["IndexName"])}


async def _ask(
    connection: Connection, table: str, operation: str, parameters: dict[str, Any], but: tuple[str, ...] = ()
) -> dict[str, Any]:
    try:
        return await connection.send(operation, parameters)
    except Exception as error:
        response: Any = getattr(error, "response", None) or {}  # in botocore's errors of connections it is None
        if response.get("Error", {}).get("Code") in but:
            return {}
        failure = explained(error, table)
        if isinstance(failure, Hopeless):
            raise failure.error from error
        raise StoreUnavailable(f"{operation} of the table {table} failed: {error}") from error
