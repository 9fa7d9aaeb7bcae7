"""Listing heads by the index ``heads``: what is in the table besides them is not read.

The index holds keys only, sorted by the time of creation. An entry is written with its head and never again, so a
change of status costs nothing; the status is read from the head itself. So is whether it is still there: a head that
was created within the last moments may be missing from a page, as the index follows the table within a fraction of a
second, and no head that is gone is on one ("Using Global Secondary Indexes in DynamoDB", developer guide:
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/GSI.html).

Each kind of heads is in ``LISTED_PARTS`` parts, since one part takes 1,000 writes a second. A page reads all of them,
and puts their entries in order: newest first, those of one millisecond by their part. Where a page ends is where the
next one begins, in every part.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import msgspec
from msgspec import Struct

from holdfast.backends.aws.batches import read_whole_heads
from holdfast.backends.aws.layout import HEADS_INDEX, LISTED_PARTS, decode, key, number, text
from holdfast.backends.aws.transport import Transport
from holdfast.errors import InvalidInput
from holdfast.items import HEAD, Item
from holdfast.keys import LISTED
from holdfast.ports import Page

SHARE_BESIDES: Final = 20
"""How many entries of a part are read in addition to its share of a page: parts do not hold the same number."""

ALL_AT_ONCE: Final = 1000
"""How many are read of a part where only some of a kind are wanted: about 100 KB, thirteen read units."""

LOOKS: Final = 50
"""How often one page reads the parts; it may then be shorter than requested."""


class Entry(Struct, frozen=True, array_like=True):
    """A head in the index. As a cursor: the last one before the page."""

    created_at: int
    part: int
    partition: str

    @property
    def place(self) -> tuple[int, int]:
        """Its place in the order of listings. Entries of one place are in an order that only DynamoDB knows."""
        return -self.created_at, self.part


def kind_of(prefix: str) -> str | None:
    """The kind of the heads whose partition begins so, if it is one that is listed.

    >>> kind_of("wf#checkout#"), kind_of("w")
    ('wf#', None)
    """
    return next((kind for kind in LISTED if prefix.startswith(kind)), None)


def is_cursor(after: str) -> bool:
    """Whether a page that ended there came from the index."""
    return _decoded(after) is not None


async def list_heads(
    transport: Transport, table: str, prefix: str, status: str | None, after: str | None, limit: int
) -> Page:
    """See ``Store.scan``: heads of a kind that is listed, newest first. Raises ``InvalidInput``."""
    kind = kind_of(prefix)
    if kind is None:
        raise InvalidInput(f"{after!r} is a cursor of another listing than that of {prefix!r}")
    look = _Look(transport, table, kind, prefix)
    behind = None if after is None else _decoded(after)
    found: list[Item] = []
    for _ in range(LOOKS):
        entries, behind = await look.next(behind, limit - len(found))
        heads = await _read(transport, table, entries)
        found += [head for head in heads if status is None or head.status == status]
        if behind is None or len(found) == limit:
            break
    return Page(tuple(found), None if behind is None else msgspec.json.encode(behind).decode())


async def _read(transport: Transport, table: str, entries: list[Entry]) -> list[Item]:
    """The heads of these entries, as they are now. One that was created again has another entry, and comes with it."""
    there = await read_whole_heads(transport, table, list(dict.fromkeys(entry.partition for entry in entries)))
    found = ((entry, there.get(entry.partition)) for entry in entries)
    return [decode(wire) for entry, wire in found if wire is not None and wire.get("c") == number(entry.created_at)]


class _Look(Struct, frozen=True):
    """Looks for the heads of a kind whose partition begins with ``prefix``."""

    transport: Transport
    table: str
    kind: str
    prefix: str

    async def next(self, behind: Entry | None, limit: int) -> tuple[list[Entry], Entry | None]:
        """The next entries in their order, at most ``limit``, and where to go on; ``None`` if these were the last."""
        most = ALL_AT_ONCE if self.prefix != self.kind else min(ALL_AT_ONCE, limit // LISTED_PARTS + SHARE_BESIDES)
        read = await asyncio.gather(*(self._read(part, behind, most) for part in range(LISTED_PARTS)))
        # Behind the end of a part that was not read to its end, others may not be returned yet.
        end = min((end for _, end in read if end is not None), key=lambda end: end.place, default=None)
        every = (entry for entries, _ in read for entry in entries if end is None or entry.place <= end.place)
        known = sorted(every, key=lambda entry: entry.place)
        wanted = [entry for entry in known if entry.partition.startswith(self.prefix)]
        if len(wanted) > limit:
            return wanted[:limit], wanted[limit - 1]
        return wanted, end

    async def _read(self, part: int, behind: Entry | None, most: int) -> tuple[list[Entry], Entry | None]:
        """The next entries of one part, and where to go on; ``None`` if these are all. A page may be empty, and yet not
        the last.
        """
        named = f"{self.kind}{part}"
        parameters: dict[str, Any] = {
            "TableName": self.table,
            "IndexName": HEADS_INDEX,
            "KeyConditionExpression": "#h = :h",
            "ExpressionAttributeNames": {"#h": "h"},
            "ExpressionAttributeValues": {":h": text(named)},
            "ScanIndexForward": False,
            "Limit": most,
            "ReturnConsumedCapacity": "TOTAL",
        }
        if behind is not None:
            until = number(behind.created_at)
            parameters["KeyConditionExpression"] += f" AND #c {'<' if part < behind.part else '<='} :until"
            parameters["ExpressionAttributeNames"]["#c"] = "c"
            parameters["ExpressionAttributeValues"][":until"] = until
            if part == behind.part:
                parameters["ExclusiveStartKey"] = key(behind.partition, HEAD) | {"h": text(named), "c": until}
        answer = await self.transport.call("Query", parameters)
        last = answer.get("LastEvaluatedKey")
        return [_entry(each, part) for each in answer["Items"]], None if last is None else _entry(last, part)


def _entry(wire: dict[str, Any], part: int) -> Entry:
    return Entry(int(wire["c"]["N"]), part, wire["p"]["S"])


def _decoded(after: str) -> Entry | None:
    try:
        return msgspec.json.decode(after, type=Entry)
    except msgspec.DecodeError:
        return None
