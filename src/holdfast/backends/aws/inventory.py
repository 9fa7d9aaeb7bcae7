"""Everything in the table, by name, and places in it as cursors: for moving house, and for listings."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from holdfast.backends.aws.layout import Attributes, decode, key, text
from holdfast.backends.aws.transport import Transport
from holdfast.errors import InvalidInput
from holdfast.items import HEAD
from holdfast.ports import Page, Partitions

SCAN_REQUESTS: Final = 50
"""The most megabytes of the table that one page of heads reads; the page may then be shorter than requested."""


async def list_partitions(transport: Transport, table: str, after: str | None, limit: int) -> Partitions:
    """See ``Inventory.partitions``: one request.

    A scan returns the items of a partition one after another, because they are stored together ("Core components of
    Amazon DynamoDB", developer guide). So the first one of a page may belong to the last partition of the page before.
    """
    parameters: dict[str, Any] = {
        "TableName": table,
        "ProjectionExpression": "#p",
        "ExpressionAttributeNames": {"#p": "p"},
        "ConsistentRead": True,
        "Limit": limit,
        "ReturnConsumedCapacity": "TOTAL",
    }
    named: str | None = None
    if after is not None:
        parameters["ExclusiveStartKey"] = place_after(after)
        named = parameters["ExclusiveStartKey"]["p"]["S"]
    answer = await transport.call("Scan", parameters)
    names: list[str] = []
    for wire in answer["Items"]:
        partition: str = wire["p"]["S"]
        if partition != named:
            names.append(partition)
        named = partition
    last = answer.get("LastEvaluatedKey")
    return Partitions(tuple(names), None if last is None else cursor_of(last))


async def scan_heads(
    transport: Transport, table: str, prefix: str, status: str | None, after: str | None, limit: int
) -> Page:
    """See ``Store.scan``: heads in no order. Reads everything that lies between them."""
    found: list[Attributes] = []
    for _ in range(SCAN_REQUESTS):
        parameters = _scan_parameters(table, prefix, status)
        if after is not None:
            parameters["ExclusiveStartKey"] = place_after(after)
        answer = await transport.call("Scan", parameters)
        found += answer["Items"]
        last = answer.get("LastEvaluatedKey")
        after = None if last is None else cursor_of(last)
        if (len(found) >= limit and after is not None) or len(found) > limit:
            # Not where DynamoDB has stopped: that may be at an item that was not requested.
            found, after = found[:limit], cursor_of(found[limit - 1])
        if len(found) == limit or after is None:
            break
    return Page(tuple(decode(wire) for wire in found), after)


def _scan_parameters(table: str, prefix: str, status: str | None) -> dict[str, Any]:
    filters, names, values = ["#s = :head"], {"#s": "s"}, {":head": text(HEAD)}
    if prefix:
        filters.append("begins_with(#p, :prefix)")
        names["#p"], values[":prefix"] = "p", text(prefix)
    if status is not None:
        names["#st"] = "st"
        filters.append("#st = :status" if status else "attribute_not_exists(#st)")
        values |= {":status": text(status)} if status else {}
    return {
        "TableName": table,
        "FilterExpression": " AND ".join(filters),
        "ExpressionAttributeNames": names,
        "ExpressionAttributeValues": values,
        "ConsistentRead": True,
        "ReturnConsumedCapacity": "TOTAL",
    }


def cursor_of(wire: Attributes) -> str:
    """The place of an item, to continue behind it."""
    return msgspec.json.encode((wire["p"]["S"], wire["s"]["S"])).decode()


def place_after(cursor: str) -> Attributes:
    """The key in a cursor. Raises ``InvalidInput``."""
    try:
        return key(*msgspec.json.decode(cursor, type=tuple[str, str]))
    except msgspec.DecodeError:
        raise InvalidInput(f"{cursor!r} is not a cursor of this store; pass the cursor of a page") from None
