"""Finding heads that are due: two sparse indexes, each in a few parts, read together in order of time.

The indexes hold keys only, and may lag behind the table or name heads that have moved on, so each head is read from
the table itself before it is answered. What an index does not show yet, the next look will.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from holdfast.backends.aws.layout import DUE_INDEX, LEASES_INDEX, SHARDS, decode, key, number, text
from holdfast.backends.aws.transport import Transport
from holdfast.errors import InvalidInput
from holdfast.items import HEAD, Item
from holdfast.ports import Page

BATCH_KEYS: Final = 100
"""The most items that one BatchGetItem reads."""


class Index(Struct, frozen=True):
    """A sparse index: its name, and the attributes that are its key."""

    name: str
    shard: str
    time: str


INDEXES: Final = (Index(DUE_INDEX, "q", "d"), Index(LEASES_INDEX, "lq", "ll"))


class Entry(Struct, frozen=True):
    """A head in one part of an index."""

    when: int
    partition: str


class Cursor(Struct, frozen=True):
    """Where to go on: in each part behind its last entry that was answered, by name, else at the time ``reached``."""

    reached: int = 0
    behind: dict[str, Entry] = {}


async def find_due(transport: Transport, table: str, before: int, after: str | None, limit: int) -> Page:
    """See ``Store.due``. Leased heads are placed by the end of their lease as it was claimed."""
    start = _cursor(after)
    parts = {f"{index.name}/{shard}": (index, shard) for index in INDEXES for shard in SHARDS}
    read = await asyncio.gather(
        *(
            _read(transport, table, *part, _Range(start.reached, before, start.behind.get(name), limit))
            for name, part in parts.items()
        )
    )
    found = [(entry, name) for name, (entries, _) in zip(parts, read, strict=True) for entry in entries]
    # Entries of one time stay in the order of their part, which only DynamoDB knows, and which its cursors go by.
    found.sort(key=lambda pair: pair[0].when)
    kept = found[:limit]
    heads = await _heads(transport, table, list(dict.fromkeys(entry.partition for entry, _ in kept)))
    looked_up = [(heads.get(entry.partition), parts[name][0]) for entry, name in kept]
    due = [head for head, index in looked_up if head is not None and _is_due(head, index, before)]
    if len(kept) == len(found) and all(ended for _, ended in read):
        return Page(tuple(due))
    cursor = Cursor(kept[-1][0].when if kept else start.reached, start.behind | {name: entry for entry, name in kept})
    return Page(tuple(due), msgspec.json.encode(cursor).decode())


class _Range(Struct, frozen=True):
    first: int
    last: int
    behind: Entry | None
    limit: int


async def _read(transport: Transport, table: str, index: Index, shard: str, wanted: _Range) -> tuple[list[Entry], bool]:
    """The first entries of one part in a range, and whether that is all of them."""
    # A place to start behind must lie in the range of times.
    first = wanted.first if wanted.behind is None else wanted.behind.when
    parameters: dict[str, Any] = {
        "TableName": table,
        "IndexName": index.name,
        "KeyConditionExpression": "#q = :q AND #d BETWEEN :first AND :last",
        "ExpressionAttributeNames": {"#q": index.shard, "#d": index.time},
        "ExpressionAttributeValues": {":q": text(shard), ":first": number(first), ":last": number(wanted.last)},
        "Limit": wanted.limit,
        "ReturnConsumedCapacity": "TOTAL",
    }
    if wanted.behind is not None:
        place = {index.shard: text(shard), index.time: number(wanted.behind.when)}
        parameters["ExclusiveStartKey"] = key(wanted.behind.partition, HEAD) | place
    answer = await transport.call("Query", parameters)
    entries = [Entry(int(each[index.time]["N"]), each["p"]["S"]) for each in answer.get("Items", ())]
    return entries, "LastEvaluatedKey" not in answer


async def _heads(transport: Transport, table: str, partitions: Sequence[str]) -> dict[str, Item]:
    """The heads of these partitions that are there."""
    found: dict[str, Item] = {}
    for start in range(0, len(partitions), BATCH_KEYS):
        keys = [key(partition, HEAD) for partition in partitions[start : start + BATCH_KEYS]]
        while keys:
            wanted = {table: {"Keys": keys, "ConsistentRead": True}}
            answer = await transport.call("BatchGetItem", {"RequestItems": wanted, "ReturnConsumedCapacity": "TOTAL"})
            for wire in answer.get("Responses", {}).get(table, ()):
                head = decode(wire)
                found[head.partition] = head
            keys = answer.get("UnprocessedKeys", {}).get(table, {}).get("Keys", [])
    return found


def _is_due(head: Item, index: Index, before: int) -> bool:
    """Whether an entry still says of its head what it should: one that is leased counts in the index of leases only."""
    if (head.lease_until is not None) != (index.name == LEASES_INDEX):
        return False
    when = head.due_at if head.lease_until is None else head.lease_until
    return when is not None and when <= before


def _cursor(after: str | None) -> Cursor:
    if after is None:
        return Cursor()
    try:
        return msgspec.json.decode(after, type=Cursor)
    except msgspec.DecodeError:
        raise InvalidInput(f"{after!r} is not a cursor of this store; pass on what a page answered") from None
