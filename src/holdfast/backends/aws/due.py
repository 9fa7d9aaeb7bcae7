"""Finding heads that are due: a sparse index in a few parts, read together in order of time.

The index holds keys only, and may lag behind the table or name heads that have changed, so each head is read from the
table itself before it is returned. The next read finds what the index does not show yet.
A head stays in it while it has an owner: if the owner dies, the head is due when its lease has lapsed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from holdfast.backends.aws.layout import DUE_INDEX, decode, key, number, text
from holdfast.backends.aws.transport import Transport
from holdfast.errors import InvalidInput
from holdfast.items import HEAD, Item
from holdfast.ports import Page

BATCH_KEYS: Final = 100
"""The most items that one BatchGetItem reads."""


class Entry(Struct, frozen=True):
    """A head in one part of the index."""

    when: int
    partition: str


class Cursor(Struct, frozen=True):
    """Where to continue: in each part behind its last returned entry, by name, else at the time ``reached``."""

    reached: int = 0
    behind: dict[str, Entry] = {}


async def find_due(
    transport: Transport, table: str, parts: Sequence[str], before: int, after: str | None, limit: int
) -> Page:
    """See ``Store.due``: the heads in these parts of the index. Leased heads are placed by when they are due."""
    start = _cursor(after)
    read = await asyncio.gather(
        *(_read(transport, table, part, _Range(start.reached, before, start.behind.get(part), limit)) for part in parts)
    )
    found = [(entry, part) for part, (entries, _) in zip(parts, read, strict=True) for entry in entries]
    # Entries of one time stay in the order of their part, which only DynamoDB knows, and which its cursors follow.
    found.sort(key=lambda pair: pair[0].when)
    kept = found[:limit]
    # An index that lags may name a head at two places, and a key may be requested only once.
    heads = await _heads(transport, table, list(dict.fromkeys(entry.partition for entry, _ in kept)))
    due = [head for entry, _ in kept if (head := heads.get(entry.partition)) is not None and _is_due(head, before)]
    if len(kept) == len(found) and all(ended for _, ended in read):
        return Page(tuple(due))
    cursor = Cursor(kept[-1][0].when if kept else start.reached, start.behind | {part: entry for entry, part in kept})
    return Page(tuple(due), msgspec.json.encode(cursor).decode())


class _Range(Struct, frozen=True):
    first: int
    last: int
    behind: Entry | None
    limit: int


async def _read(transport: Transport, table: str, part: str, wanted: _Range) -> tuple[list[Entry], bool]:
    """The first entries of one part in a range, and whether that is all of them."""
    # The start must lie in the range of times.
    first = wanted.first if wanted.behind is None else wanted.behind.when
    parameters: dict[str, Any] = {
        "TableName": table,
        "IndexName": DUE_INDEX,
        "KeyConditionExpression": "#q = :q AND #d BETWEEN :first AND :last",
        "ExpressionAttributeNames": {"#q": "q", "#d": "d"},
        "ExpressionAttributeValues": {":q": text(part), ":first": number(first), ":last": number(wanted.last)},
        "Limit": wanted.limit,
        "ReturnConsumedCapacity": "TOTAL",
    }
    if wanted.behind is not None:
        place = {"q": text(part), "d": number(wanted.behind.when)}
        parameters["ExclusiveStartKey"] = key(wanted.behind.partition, HEAD) | place
    answer = await transport.call("Query", parameters)
    entries = [Entry(int(each["d"]["N"]), each["p"]["S"]) for each in answer.get("Items", ())]
    return entries, "LastEvaluatedKey" not in answer


async def _heads(transport: Transport, table: str, partitions: Sequence[str]) -> dict[str, Item]:
    """The existing heads of these partitions."""
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


def _is_due(head: Item, before: int) -> bool:
    """Whether it still is: a head with an owner is due when its lease has lapsed too."""
    return head.due_at is not None and max(head.due_at, head.lease_until or 0) <= before


def _cursor(after: str | None) -> Cursor:
    if after is None:
        return Cursor()
    try:
        return msgspec.json.decode(after, type=Cursor)
    except msgspec.DecodeError:
        raise InvalidInput(f"{after!r} is not a cursor of this store; pass the cursor of a page") from None
