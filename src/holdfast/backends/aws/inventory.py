"""Everything that the table holds, by name, and places in it as cursors: for moving house, and for listings."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.backends.aws.layout import Attributes, key
from holdfast.backends.aws.transport import Transport
from holdfast.errors import InvalidInput
from holdfast.ports import Partitions


async def list_partitions(transport: Transport, table: str, after: str | None, limit: int) -> Partitions:
    """See ``Inventory.partitions``: one request.

    A scan meets the items of a partition one after another, because they are stored together ("Core components of
    Amazon DynamoDB", developer guide). So the first one of a page may belong to what the page before has named last.
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
    """The place of an item, to go on behind it."""
    return msgspec.json.encode((wire["p"]["S"], wire["s"]["S"])).decode()


def place_after(cursor: str) -> Attributes:
    """The key that a cursor names. Raises ``InvalidInput``."""
    try:
        return key(*msgspec.json.decode(cursor, type=tuple[str, str]))
    except msgspec.DecodeError:
        raise InvalidInput(f"{cursor!r} is not a cursor of this store; pass on what a page answered") from None
