"""Everything a home holds, one partition after the other; and whether anybody is at work on it."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from typing import Final

import msgspec
from msgspec import Struct

from holdfast.errors import ConfigurationError, InvalidState
from holdfast.items import Item
from holdfast.moving.records import Counts
from holdfast.ports import Home, Inventory

IMPORT_PARTITION: Final = "import#"
"""Its head is there while an import is under way; its body is the checksum of the file."""

NAMED: Final = 5
"""So many of what is in the way are named in an error."""


class Stock(Struct, frozen=True):
    """How much a home holds, and a fingerprint of it: two that are equal are of the same items."""

    counts: Counts
    fingerprint: str


def inventory_of(home: Home) -> Inventory:
    """The list of what a home holds. Raises ``ConfigurationError`` where there is none."""
    if home.inventory is None:
        raise ConfigurationError(f"the home {home.url} cannot list everything it holds, so it cannot be moved yet")
    return home.inventory


async def everything(home: Home) -> AsyncIterator[Item]:
    """All items, as they are stored, a partition at a time, oldest first where the home knows the order."""
    inventory, cursor = inventory_of(home), None
    while True:
        page = await inventory.partitions(after=cursor)
        for partition in page.names:
            async for item in _items_of(home, partition):
                yield item
        if (cursor := page.cursor) is None:
            return


async def _items_of(home: Home, partition: str) -> AsyncIterator[Item]:
    cursor = None
    while True:
        page = await home.store.query(partition, after=cursor)
        for item in page.items:
            yield item
        if (cursor := page.cursor) is None:
            return


class StockTaker:
    """Takes stock of items as they pass. Blobs are counted by whoever moves them."""

    def __init__(self) -> None:
        self._partition: str | None = None
        self._partitions = self._items = 0
        self._sha256 = hashlib.sha256()

    def note(self, item: Item) -> None:
        """One more."""
        self._items += 1
        self._partitions += item.partition != self._partition
        self._partition = item.partition
        self._sha256.update(msgspec.json.encode(item))

    def stock(self, blobs: int = 0) -> Stock:
        """What has passed so far."""
        return Stock(Counts(self._partitions, self._items, blobs), self._sha256.hexdigest())


async def take_stock(home: Home, *, blobs: int = 0) -> Stock:
    """What a home holds now, unfinished imports left out."""
    taker = StockTaker()
    async for item in everything(home):
        if item.partition != IMPORT_PARTITION:
            taker.note(item)
    return taker.stock(blobs)


def check_nobody_is_there(home: Home) -> None:
    """Raise ``InvalidState`` that names the processes that have the home open, as far as can be known from here."""
    others = sorted(owner for owner in home.doorbell.peers() if home.doorbell.alive(owner))
    if others:
        shown = ", ".join(others[:NAMED]) + (" and more" if len(others) > NAMED else "")
        raise InvalidState(
            f"{len(others)} other processes have {home.url} open: {shown}. Stop every worker and client of it first"
        )


def check_not_held(home: Home, item: Item, now_ms: int) -> None:
    """Raise ``InvalidState`` that says who, if somebody who may be alive holds this item."""
    if item.owner is None or item.lease_until is None:
        return
    if item.lease_until > now_ms and home.doorbell.alive(item.owner):
        raise InvalidState(
            f"{item.partition!r} is held by {item.owner}, for another {(item.lease_until - now_ms) / 1000:.1f} s. Stop "
            "every worker and client first; if it is dead, wait until then"
        )
