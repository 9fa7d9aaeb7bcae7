"""Everything in the table, by name, and places in it as cursors: for moving house, and for listings."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.backends.aws.layout import Attributes, key
from holdfast.backends.aws.transport import Transport
from holdfast.errors import InvalidInput
from holdfast.ports import Partitions


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


def cursor_of(wire: Attributes) -> str:
    """The place of an item, to continue behind it."""
    return msgspec.json.encode((wire["p"]["S"], wire["s"]["S"])).decode()


def place_after(cursor: str) -> Attributes:
    """The key in a cursor. Raises ``InvalidInput``."""
    try:
        return key(*msgspec.json.decode(cursor, type=tuple[str, str]))
    except msgspec.DecodeError:
        raise InvalidInput(f"{cursor!r} is not a cursor of this store; pass the cursor of a page") from None
