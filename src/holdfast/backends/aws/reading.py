"""Reads of items: a message may be an item of its own, or in a parcel, or enclosed in its head.

The head is read first, if messages are asked for, and then the items. So a reader misses none that was sent before one
that it sees in the head, or that is marked there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from holdfast.backends.aws.enclosing import PREFIXES, Known, count_of, is_message, may_be_messages, merged
from holdfast.backends.aws.layout import Attributes, decode, key, text
from holdfast.backends.aws.parcels import LAST, MARK, first_of, is_parcel, messages_in, opened
from holdfast.backends.aws.transport import Transport
from holdfast.items import HEAD, Item, Write, place
from holdfast.ports import Page

Read = tuple[list[Attributes], str | None]
"""Stored items, and the sort key of the last one if there are more."""


class Reader:
    """Reads items of a table, consistently. ``known`` learns where messages are."""

    def __init__(self, transport: Transport, table: str, known: Known) -> None:
        self._transport = transport
        self._table = table
        self._known = known

    async def stored(self, partition: str, sort: str) -> Attributes | None:
        """An item as it is stored."""
        parameters = {"TableName": self._table, "Key": key(partition, sort), "ConsistentRead": True}
        answer = await self._transport.call("GetItem", parameters | {"ReturnConsumedCapacity": "TOTAL"})
        there: Attributes | None = answer.get("Item")
        return there

    async def item(self, partition: str, sort: str) -> Item | None:
        """See ``Store.get``."""
        there = await self.stored(partition, sort)
        if there is not None:
            return decode(there)
        if not is_message(sort) or (head := await self.stored(partition, HEAD)) is None:
            return None
        within = [*self._known.head(head), *await self._in_parcels(head, sort)]
        return next((item for item in within if item.sort == sort), None)

    async def look(self, partition: str, writes: Sequence[Write]) -> None:
        """See where the messages of a call are that it deletes, or puts once more.

        A parcel that was seen is read by its key: where there are many, not all of them are remembered.
        """
        head = await self.stored(partition, HEAD)
        missing = {sort for there, sort in map(place, writes) if there == partition and is_message(sort)}
        missing -= {item.sort for item in (self._known.head(head) if head is not None else ())}
        seen = self._known.parcels_with(partition, missing)
        for wire in await asyncio.gather(*(self.stored(partition, parcel) for parcel in seen)):
            missing -= {item.sort for item in ([] if wire is None else self._opened(partition, wire))}
        for prefix in {sort[:2] for sort in missing}:
            missing -= {item.sort for item in await self._parcels(partition, prefix)}
        for sort in missing:
            self._known.separate(partition, sort)

    async def query(self, partition: str, prefix: str, after: str | None, limit: int) -> Page:
        """See ``Store.query``. A page ends at 1 MB, and the last one may be empty."""
        if not may_be_messages(prefix):
            return _page(*await self._read(partition, prefix, after, limit))
        if prefix in PREFIXES and after is None:
            return await self._messages(partition, prefix, limit)
        from_head = not prefix and after is None
        head = None if from_head else await self.stored(partition, HEAD)
        wires, cursor = await self._read(partition, prefix, after, limit)
        if from_head:
            head = next((wire for wire in wires if wire["s"]["S"] == HEAD), None)
        found = self._plain(partition, wires, cursor)
        if head is None:
            return found
        return merged(found, [*self._known.head(head), *await self._in_parcels(head, prefix)], prefix, after, limit)

    async def _messages(self, partition: str, prefix: str, limit: int) -> Page:
        """The first page of messages. Parcels come first in it; if it ends among them, it shows what is before the
        first message of the last one. It is whole if all of them are enclosed: their head is read in one piece.
        """
        head = await self.stored(partition, HEAD)
        wires, cursor = await self._read(partition, prefix, None, limit)
        parcels = [wire for wire in wires if is_parcel(wire["s"]["S"])]
        if cursor is not None and is_parcel(cursor):
            wires, end = await self._read(partition, prefix, prefix + LAST, limit)
            until = first_of(cursor)
            cursor = until if end is None else min(until, end)
            wires = [wire for wire in wires if wire["s"]["S"] <= cursor]
        found = self._plain(partition, wires, cursor)
        within = [] if head is None else self._known.head(head)
        for wire in parcels:
            within += self._opened(partition, wire)
        all_enclosed = not (found.items or parcels) and cursor is None
        if head is not None and all_enclosed:
            await self._enclose_again(head, prefix)
        return replace(merged(found, within, prefix, None, limit), whole=all_enclosed)

    async def _in_parcels(self, head: Attributes, prefix: str) -> list[Item]:
        """The messages in the parcels that are marked in this head, of those that may begin with ``prefix``."""
        found: list[Item] = []
        for each in PREFIXES:
            if count_of(each) in head and (prefix.startswith(each) or each.startswith(prefix)):
                found += await self._parcels(head["p"]["S"], each)
        return found

    async def _parcels(self, partition: str, prefix: str) -> list[Item]:
        """The messages in all parcels of one prefix."""
        found: list[Item] = []
        after: str | None = None
        while True:
            wires, after = await self._read(partition, prefix + MARK, after, None)
            for wire in wires:
                found += self._opened(partition, wire)
            if after is None:
                return found

    def _opened(self, partition: str, wire: Attributes) -> list[Item]:
        """The messages in a parcel as it is stored."""
        parcel = opened(wire)
        self._known.parcel(partition, parcel)
        return messages_in(partition, parcel)

    def _plain(self, partition: str, wires: Sequence[Attributes], cursor: str | None) -> Page:
        """A page without the parcels in it."""
        found = _page([wire for wire in wires if not is_parcel(wire["s"]["S"])], cursor)
        for item in found.items:
            self._known.separate(partition, item.sort)
        return found

    async def _read(self, partition: str, prefix: str, after: str | None, limit: int | None) -> Read:
        begins = " AND begins_with(#s, :prefix)" if prefix else ""
        parameters: dict[str, Any] = {
            "TableName": self._table,
            "KeyConditionExpression": f"#p = :p{begins}",
            "ExpressionAttributeNames": {"#p": "p"} | ({"#s": "s"} if prefix else {}),
            "ExpressionAttributeValues": {":p": text(partition)} | ({":prefix": text(prefix)} if prefix else {}),
            "ConsistentRead": True,
            "ReturnConsumedCapacity": "TOTAL",
        }
        if limit is not None:
            parameters["Limit"] = limit
        if after is not None:
            parameters["ExclusiveStartKey"] = key(partition, after)
        answer = await self._transport.call("Query", parameters)
        last = answer.get("LastEvaluatedKey")
        return answer["Items"], None if last is None else last["s"]["S"]

    async def _enclose_again(self, head: Attributes, prefix: str) -> None:
        """No message of this prefix is an item, so the next ones may be enclosed; unless one has come meanwhile."""
        if (seen := head.get(count_of(prefix))) is None:
            return
        names = {"#c": count_of(prefix)}
        await self._transport.amend(head["p"]["S"], "REMOVE #c", "#c = :seen", names, {":seen": seen})


def _page(wires: Sequence[Attributes], cursor: str | None) -> Page:
    return Page(tuple(decode(wire) for wire in wires), cursor)
