"""All items of a home, one partition after the other; and whether a process is at work on it."""

from __future__ import annotations

import asyncio
import hashlib
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

import msgspec
from msgspec import Struct

from holdfast.errors import ConfigurationError, InvalidState
from holdfast.items import Item
from holdfast.keys import IMPORT_PARTITION
from holdfast.moving.progress import Progress
from holdfast.moving.records import Counts
from holdfast.paging import Pages
from holdfast.ports import SALT_PARTITION, Home, Inventory, Page

NAMED: Final = 5
"""How many obstacles an error names."""

READ_AHEAD: Final = 16
"""How many partitions are read at once, because each read may be a round trip."""

MINUTE_MS: Final = 60_000


class Stock(Struct, frozen=True):
    """How much a home holds, and a fingerprint of it, independent of the order: a sum over the items.

    Expiring items are summed by the minute of their expiry (``fading``), because a store may delete them at any time
    after that.
    """

    counts: Counts
    lasting: int
    fading: dict[int, int]

    def is_same(self, other: Stock, now_ms: int) -> bool:
        """Whether both are of the same items, apart from those that have expired by now."""
        mine, theirs = ({t: s for t, s in each.fading.items() if t > now_ms // MINUTE_MS} for each in (self, other))
        return self.lasting == other.lasting and mine == theirs


def inventory_of(home: Home) -> Inventory:
    """The inventory of a home. Raises ``ConfigurationError`` where there is none."""
    if home.inventory is None:
        raise ConfigurationError(f"the home {home.url} cannot list all its items, so it cannot be moved yet")
    return home.inventory


async def everything(home: Home) -> AsyncGenerator[Item]:
    """All items, as they are stored, a partition at a time, oldest first where the home knows the order.

    The salt, where it is an item, is not among them: each home has its own before the import.
    """
    inventory = inventory_of(home)
    async for page in Pages(lambda after: inventory.partitions(after=after)):
        items = _items_of(home, tuple(name for name in page.names if name != SALT_PARTITION))
        async with aclosing(items):
            async for item in items:
                yield item


async def _items_of(home: Home, partitions: tuple[str, ...]) -> AsyncGenerator[Item]:
    names = iter(partitions)
    asked: deque[tuple[str, asyncio.Task[Page]]] = deque()
    try:
        while True:
            while len(asked) < READ_AHEAD and (name := next(names, None)) is not None:
                asked.append((name, asyncio.ensure_future(_page(home, name, None))))
            if not asked:
                return
            partition, first = asked[0]
            page = await first
            asked.popleft()
            for item in page.items:
                yield item
            while page.cursor is not None:
                page = await _page(home, partition, page.cursor)
                for item in page.items:
                    yield item
    finally:
        for _, unread in asked:
            unread.cancel()
        await asyncio.gather(*(unread for _, unread in asked), return_exceptions=True)


async def _page(home: Home, partition: str, after: str | None) -> Page:
    return await home.store.query(partition, after=after)


class StockTaker:
    """Counts items as they pass. The code that moves blobs counts those."""

    def __init__(self) -> None:
        self._partition: str | None = None
        self._partitions = self._items = self._lasting = 0
        self._fading: dict[int, int] = {}

    @property
    def items(self) -> int:
        """How many have passed."""
        return self._items

    def note(self, item: Item) -> None:
        """One more."""
        self._items += 1
        self._partitions += item.partition != self._partition
        self._partition = item.partition
        digest = int.from_bytes(hashlib.sha256(msgspec.json.encode(item)).digest(), "big")
        if item.expires_at is None:
            self._lasting += digest
        else:
            minute = item.expires_at // MINUTE_MS
            self._fading[minute] = self._fading.get(minute, 0) + digest

    def stock(self, blobs: int = 0) -> Stock:
        """What has passed so far."""
        return Stock(Counts(self._partitions, self._items, blobs), self._lasting, dict(self._fading))


async def take_stock(home: Home, progress: Progress, *, at_most: int | None = None) -> Stock:
    """What a home has now, without unfinished imports; not much more than ``at_most`` items are read."""
    taker, found = StockTaker(), everything(home)
    async with aclosing(found):
        async for item in found:
            if item.partition != IMPORT_PARTITION:
                taker.note(item)
                progress.note(taker.items)
            if at_most is not None and taker.items > at_most:
                break
    return taker.stock()


def check_nobody_is_there(home: Home) -> None:
    """Raise ``InvalidState`` that names the processes that have the home open, as far as can be known from here."""
    others = sorted(owner for owner in home.doorbell.peers() if home.doorbell.alive(owner))
    if others:
        shown = ", ".join(others[:NAMED]) + (" and more" if len(others) > NAMED else "")
        raise InvalidState(
            f"{len(others)} other processes have {home.url} open: {shown}. Stop every worker and client of it first"
        )


def check_not_held(home: Home, item: Item, now_ms: int) -> None:
    """Raise ``InvalidState``, which names the owner, if an owner that may be alive holds this item."""
    if item.owner is None or item.lease_until is None:
        return
    if item.lease_until > now_ms and home.doorbell.alive(item.owner):
        raise InvalidState(
            f"{item.partition!r} is leased to {item.owner}, for {(item.lease_until - now_ms) / 1000:.1f} s more. Stop "
            "every worker and client first; if the owner is dead, wait until then"
        )
