"""Finding heads that are due: a sparse index in a few parts, read together in order of time.

The index holds keys only, and may lag behind the table or name heads that have changed, so each head is read from the
table itself before it is returned. The next read finds what the index does not show yet.
A head stays in it while it has an owner: if the owner dies, the head is due when its lease has lapsed.

Most homes have few heads in the index. One ``Scan`` shows them all, of every part; only if there are more, each part is
queried for what is due.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from holdfast.backends.aws.batches import read_heads
from holdfast.backends.aws.layout import DUE_INDEX, key, number, text
from holdfast.backends.aws.leases_seen import Entry, LeasesSeen
from holdfast.backends.aws.transport import Transport
from holdfast.errors import InvalidInput
from holdfast.items import HEAD, Item
from holdfast.ports import Page

FEW: Final = 200
"""The most entries of the index that are read to find out whether that is all: some 10 KB, one or two read units."""

CROWDED_LOOKS: Final = 20
"""How often the parts are queried at once after there were more than a few entries."""

SHARE_BESIDES: Final = 20
"""How many entries of a part are read in addition to its share of a page: parts do not hold the same number."""


Choose = Callable[[Sequence[Entry]], Awaitable[Sequence[Entry]]]
"""Answers some of the entries that it is given."""


async def choose_all(entries: Sequence[Entry]) -> Sequence[Entry]:
    """Leave none out."""
    return entries


class Cursor(Struct, frozen=True):
    """Where to continue: in each part behind the last entry that was read, by name, else at the time ``reached``."""

    reached: int = 0
    behind: dict[str, Entry] = {}


class DueIndex:
    """The index of what is due in a table. ``read_parts`` says which parts may hold a head."""

    def __init__(self, transport: Transport, table: str, read_parts: Callable[[], Awaitable[Sequence[str]]]) -> None:
        self._transport = transport
        self._table = table
        self._read_parts = read_parts
        self._crowded_looks = 0
        self._leases = LeasesSeen()

    async def page(self, before: int, after: str | None, limit: int, choose: Choose = choose_all) -> Page:
        """See ``Store.due``. Leased heads are placed by when they are due. Only heads are read that ``choose`` chooses
        by their entries; a page may be short then.
        """
        if after is None and (few := await self._glance()) is not None:
            found = sorted((each for each in few if each.when <= before), key=lambda each: each.when)
            if len(found) <= limit:
                return Page(await self._due(await choose(found), before))
        start = _cursor(after)
        entries, end = await self._look(start, before, limit)
        due = await self._due(await choose(entries), before)
        return Page(due, None if end is None else msgspec.json.encode(end).decode())

    async def _glance(self) -> Sequence[Entry] | None:
        """All entries, of every part, by one request; ``None`` if there are more than a few."""
        if self._crowded_looks:
            self._crowded_looks -= 1
            return None
        answer = await self._transport.call(
            "Scan",
            {"TableName": self._table, "IndexName": DUE_INDEX, "Limit": FEW, "ReturnConsumedCapacity": "TOTAL"},
        )
        if "LastEvaluatedKey" in answer:
            self._crowded_looks = CROWDED_LOOKS
            return None
        return _entries(answer)

    async def _look(self, start: Cursor, before: int, limit: int) -> tuple[list[Entry], Cursor | None]:
        """The next entries in order, and where to go on; ``None`` if that is all of them."""
        parts = await self._read_parts()
        share = min(limit, -(-limit // len(parts)) + SHARE_BESIDES)
        wanted = (_Range(part, start.reached, before, start.behind.get(part), share) for part in parts)
        read = dict(zip(parts, await asyncio.gather(*(self._read(each) for each in wanted)), strict=True))
        # Behind the end of a part that was not read to its end, others may not be returned yet.
        ends = {part: end for part, (_, end) in read.items() if end is not None}
        until = min((end.when for end in ends.values()), default=before)
        found = [(entry, part) for part, (entries, _) in read.items() for entry in entries if entry.when <= until]
        # Entries of one time stay in the order of their part, which only DynamoDB knows, and which its cursors follow.
        found.sort(key=lambda pair: pair[0].when)
        kept = found[:limit]
        entries = [entry for entry, _ in kept]
        behind = start.behind | {part: entry for entry, part in kept}
        if len(kept) < len(found):
            return entries, Cursor(entries[-1].when, behind)
        if not ends:
            return entries, None
        return entries, Cursor(until, behind | {part: end for part, end in ends.items() if end.when == until})

    async def _read(self, wanted: _Range) -> tuple[list[Entry], Entry | None]:
        """The first entries of one part in a range, and where to go on; ``None`` if that is all of them. A page may be
        empty, and yet not the last.
        """
        # The start must lie in the range of times.
        first = wanted.first if wanted.behind is None else wanted.behind.when
        parameters: dict[str, Any] = {
            "TableName": self._table,
            "IndexName": DUE_INDEX,
            "KeyConditionExpression": "#q = :q AND #d BETWEEN :first AND :last",
            "ExpressionAttributeNames": {"#q": "q", "#d": "d"},
            "ExpressionAttributeValues": {
                ":q": text(wanted.part),
                ":first": number(first),
                ":last": number(wanted.last),
            },
            "Limit": wanted.limit,
            "ReturnConsumedCapacity": "TOTAL",
        }
        if wanted.behind is not None:
            place = {"q": text(wanted.part), "d": number(wanted.behind.when)}
            parameters["ExclusiveStartKey"] = key(wanted.behind.partition, HEAD) | place
        answer = await self._transport.call("Query", parameters)
        last = answer.get("LastEvaluatedKey")
        return _entries(answer), None if last is None else _entry(last)

    async def _due(self, entries: Sequence[Entry], before: int) -> tuple[Item, ...]:
        """The heads of these entries that are due. Those of an owner that has renewed others beyond ``before`` are not,
        and are not read.
        """
        # An index that lags may name a head at two places, and a key may be requested only once.
        once = {entry.partition: entry for entry in entries}
        wanted, resting = self._leases.divide(once.values(), asyncio.get_running_loop().time())
        heads = await self._read_heads(wanted)
        alive = {head.owner for head in heads.values() if (head.lease_until or 0) > before}
        heads |= await self._read_heads([name for owner in resting.keys() - alive for name in resting[owner]])
        found = (heads.get(name) for name in dict.fromkeys(entry.partition for entry in entries))
        return tuple(head for head in found if head is not None and _is_due(head, before))

    async def _read_heads(self, names: Sequence[str]) -> dict[str, Item]:
        heads = await read_heads(self._transport, self._table, names)
        self._leases.note(names, heads, asyncio.get_running_loop().time())
        return heads


class _Range(Struct, frozen=True):
    part: str
    first: int
    last: int
    behind: Entry | None
    limit: int


def _entries(answer: dict[str, Any]) -> list[Entry]:
    return [_entry(each) for each in answer.get("Items", ())]


def _entry(wire: dict[str, Any]) -> Entry:
    return Entry(int(wire["d"]["N"]), wire["p"]["S"])


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
