"""Creating the table."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from holdfast.backends.aws.connection import Connection
from holdfast.backends.aws.failures import Hopeless, explained
from holdfast.backends.aws.layout import DUE_INDEX, HEADS_INDEX
from holdfast.errors import StoreUnavailable, StoreUnusable

STREAM_VIEW: Final = "NEW_AND_OLD_IMAGES"
"""What the stream of a table shows, if it has one: that there was something to do, and that there is not any more."""

TTL_ATTRIBUTE: Final = "x"
LOOKS: Final = 240
PAUSE_SECONDS: Final = 0.5


def table_definition(table: str, *, listing: bool = False) -> dict[str, Any]:
    """The table, for CreateTable: billed per request, with one index of keys only, and with ``listing`` another one."""
    attributes = {"p": "S", "s": "S", "q": "S", "d": "N"} | ({"h": "S", "c": "N"} if listing else {})
    return {
        "TableName": table,
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": _attributes(attributes),
        "KeySchema": _keys("p", "s"),
        "GlobalSecondaryIndexes": [_index(DUE_INDEX, "q", "d"), *([_index(HEADS_INDEX, "h", "c")] if listing else [])],
    }


def _attributes(kinds: dict[str, str]) -> list[dict[str, str]]:
    return [{"AttributeName": name, "AttributeType": kind} for name, kind in kinds.items()]


def _index(name: str, partition: str, sort: str) -> dict[str, Any]:
    return {"IndexName": name, "KeySchema": _keys(partition, sort), "Projection": {"ProjectionType": "KEYS_ONLY"}}


def _keys(partition: str, sort: str) -> list[dict[str, str]]:
    return [{"AttributeName": partition, "KeyType": "HASH"}, {"AttributeName": sort, "KeyType": "RANGE"}]


async def create_table(connection: Connection, table: str, *, listing: bool = False) -> bool:
    """Create the table unless it exists, with expiry (TTL) and point-in-time recovery switched on, and wait for it.
    With ``listing`` it has the index ``heads``, which an existing table gets.

    Returns whether the table was created.

    Needs more rights than a worker has: dynamodb:CreateTable, DescribeTable, UpdateTimeToLive,
    UpdateContinuousBackups, and UpdateTable to add an index. Raises ``StoreUnusable`` with the reason, also if another
    kind of table has this name.
    """
    definition = table_definition(table, listing=listing)
    made = await _ask(connection, table, "CreateTable", definition, but=("ResourceInUseException",))
    described = await _ready(connection, table)
    _check_is_ours(described, table)
    if listing and not any(each["IndexName"] == HEADS_INDEX for each in described["GlobalSecondaryIndexes"]):
        change = {
            "TableName": table,
            "AttributeDefinitions": definition["AttributeDefinitions"],
            "GlobalSecondaryIndexUpdates": [{"Create": definition["GlobalSecondaryIndexes"][-1]}],
        }
        await _ask(connection, table, "UpdateTable", change)
        await _ready(connection, table)
    expiry = {"TimeToLiveSpecification": {"Enabled": True, "AttributeName": TTL_ATTRIBUTE}, "TableName": table}
    # Refused if it is switched on already.
    await _ask(connection, table, "UpdateTimeToLive", expiry, but=("ValidationException",))
    recovery = {"PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": True}, "TableName": table}
    # DynamoDB Local does not know the operation.
    await _ask(connection, table, "UpdateContinuousBackups", recovery, but=("UnknownOperationException",))
    return bool(made)


async def _ready(connection: Connection, table: str) -> dict[str, Any]:
    """The description of a table, once it and its indexes can be used."""
    for _ in range(LOOKS):
        described: dict[str, Any] = (await _ask(connection, table, "DescribeTable", {"TableName": table}))["Table"]
        indexes = described.get("GlobalSecondaryIndexes", ())
        if all(each == "ACTIVE" for each in (described["TableStatus"], *(index["IndexStatus"] for index in indexes))):
            return described
        await asyncio.sleep(PAUSE_SECONDS)
    raise StoreUnavailable(f"the table {table} is still being created, or an index of it; check again later")


def _check_is_ours(described: dict[str, Any], table: str) -> None:
    wanted = table_definition(table)
    keys = {each["IndexName"]: each["KeySchema"] for each in described.get("GlobalSecondaryIndexes", ())}
    indexes = wanted["GlobalSecondaryIndexes"]
    missing = [each["IndexName"] for each in indexes if each["KeySchema"] != keys.get(each["IndexName"])]
    if described["KeySchema"] != wanted["KeySchema"] or missing:
        lacks = f"it lacks {', '.join(missing)}" if missing else "its key is different"
        raise StoreUnusable(f"the table {table} exists but is not Holdfast's: {lacks}. Use another prefix")


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
