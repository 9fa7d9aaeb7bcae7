"""Reading many heads at once.

DynamoDB may leave keys of a batch unprocessed, for their size or because of their rate. They are asked for again after
a pause, as its API reference recommends (``BatchGetItem``,
https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_BatchGetItem.html).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from holdfast.backends.aws.layout import Attributes, decode, key
from holdfast.backends.aws.sending import FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS, PATIENCE_SECONDS
from holdfast.backends.aws.transport import Transport
from holdfast.backoff import Pauses
from holdfast.errors import StoreUnavailable
from holdfast.items import HEAD, Item

BATCH_KEYS: Final = 100
"""The most items that one BatchGetItem reads."""

HEADER: Final[dict[str, Any]] = {
    "ProjectionExpression": "#p, #s, #r, #st, #o, #lu, #e, #d, #xm",
    "ExpressionAttributeNames": {f"#{name}": name for name in ("p", "s", "r", "st", "o", "lu", "e", "d", "xm")},
}
"""All but bodies, which no sweep needs. They are billed all the same, but take time to send and to decode."""


async def read_heads(transport: Transport, table: str, partitions: Sequence[str]) -> dict[str, Item]:
    """The existing heads of these partitions, by name, without their bodies. Raises ``StoreUnavailable`` if none of the
    rest is answered for a while.
    """
    return {name: decode(wire) for name, wire in (await _read(transport, table, partitions, HEADER)).items()}


async def read_whole_heads(transport: Transport, table: str, partitions: Sequence[str]) -> dict[str, Attributes]:
    """The same as they are stored, with their bodies."""
    return await _read(transport, table, partitions, {})


async def _read(
    transport: Transport, table: str, partitions: Sequence[str], projection: dict[str, Any]
) -> dict[str, Attributes]:
    parts = (partitions[start : start + BATCH_KEYS] for start in range(0, len(partitions), BATCH_KEYS))
    batches = ([key(name, HEAD) for name in part] for part in parts)
    read = await asyncio.gather(*(_read_batch(transport, table, each, projection) for each in batches))
    return {wire["p"]["S"]: wire for wires in read for wire in wires}


async def _read_batch(
    transport: Transport, table: str, keys: list[Attributes], projection: dict[str, Any]
) -> list[Attributes]:
    found: list[Attributes] = []
    pauses, waited_seconds = Pauses(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS), 0.0
    while True:
        wanted: dict[str, Any] = {table: {"Keys": keys, "ConsistentRead": True, **projection}}
        answer = await transport.call("BatchGetItem", {"RequestItems": wanted, "ReturnConsumedCapacity": "TOTAL"})
        came = answer.get("Responses", {}).get(table, ())
        found += came
        keys = answer.get("UnprocessedKeys", {}).get(table, {}).get("Keys", [])
        if not keys:
            return found
        if came:
            pauses.begin_again()
            waited_seconds = 0.0
        if waited_seconds >= PATIENCE_SECONDS:
            raise StoreUnavailable(f"the table {table} leaves {len(keys)} keys of a batch unprocessed; read them again")
        waited_seconds += pauses.seconds
        await pauses.wait()
