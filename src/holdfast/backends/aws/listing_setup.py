"""Having heads listed by the index ``heads``, or by a scan of the table again, while processes work.

Each new head has its key of the index, whether the table has the index or not. Heads of releases that did not write it
get it here: those come last in listings, as it is not known when they were created.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from msgspec.structs import replace

from holdfast.backends.aws.layout import HEADS_INDEX, listed_part, number, text
from holdfast.backends.aws.parts import write_settings
from holdfast.backends.aws.settings import SETTINGS_SORT, Listing, settings_in
from holdfast.backends.aws.store import DynamoStore
from holdfast.backends.aws.transport import Transport
from holdfast.errors import ConfigurationError
from holdfast.items import HEAD
from holdfast.ports import SALT_PARTITION

AT_ONCE: Final = 16

UNKNOWN_MS: Final = 0
"""When a head was created of which that is not known."""


async def change_listing(store: DynamoStore, transport: Transport, listing: Listing) -> None:
    """Have heads listed by the index, once all of them are in it, or by a scan of the table. Processes learn of it
    within five minutes.

    The first time it reads the whole table, a read unit for each 4 KB, and writes each head that has no key of the
    index, two units. It may be stopped anywhere and begun again. Every process must run a release that knows the index.
    Raises ``ConfigurationError`` if the table has no such index.
    """
    item = await store.get(SALT_PARTITION, SETTINGS_SORT)
    there = settings_in(item)
    if there.listing == listing:
        return
    if listing == "index":
        await _check_is_there(store.table, transport)
        await _fill(store.table, transport)
    await write_settings(store, item, replace(there, listing=listing))


async def _check_is_there(table: str, transport: Transport) -> None:
    found = (await transport.call("DescribeTable", {"TableName": table}))["Table"]
    states = {each["IndexName"]: each["IndexStatus"] for each in found.get("GlobalSecondaryIndexes", ())}
    if HEADS_INDEX not in states:
        raise ConfigurationError(
            f"the table {table} has no index {HEADS_INDEX!r}: deploy with listing=True (--listing) first, or where you "
            "created the table yourself, holdfast aws create-table --listing"
        )
    if states[HEADS_INDEX] != "ACTIVE":
        raise ConfigurationError(
            f"the index {HEADS_INDEX!r} of the table {table} is still being made ({states[HEADS_INDEX]}): try again "
            "later"
        )


async def _fill(table: str, transport: Transport) -> None:
    """Put every head that is to be listed into the index."""
    parameters: dict[str, Any] = {
        "TableName": table,
        "FilterExpression": "#s = :head AND attribute_not_exists(#h)",
        "ProjectionExpression": "#p",
        "ExpressionAttributeNames": {"#p": "p", "#s": "s", "#h": "h"},
        "ExpressionAttributeValues": {":head": text(HEAD)},
        "ConsistentRead": True,
        "ReturnConsumedCapacity": "TOTAL",
    }
    while True:
        answer = await transport.call("Scan", parameters)
        found = [each["p"]["S"] for each in answer["Items"]]
        for start in range(0, len(found), AT_ONCE):
            await asyncio.gather(*(_enter(each, transport) for each in found[start : start + AT_ONCE]))
        if "LastEvaluatedKey" not in answer:
            return
        parameters["ExclusiveStartKey"] = answer["LastEvaluatedKey"]


async def _enter(partition: str, transport: Transport) -> None:
    """Nothing is written to a head that is gone, or was created again meanwhile."""
    if (part := listed_part(partition)) is None:
        return
    names, values = {"#p": "p", "#h": "h", "#c": "c"}, {":h": text(part), ":c": number(UNKNOWN_MS)}
    left = "attribute_exists(#p) AND attribute_not_exists(#h)"
    await transport.amend(partition, "SET #h = :h, #c = :c", left, names, values)
