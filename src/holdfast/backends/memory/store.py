"""The reference model of the ``Store`` port: dictionaries, and ``items.holds`` as it is written.

Every other store is tested against this one, so it prefers the obvious to the fast: ``due`` and ``scan`` read
every head.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from holdfast.backends.memory.data import MemoryData
from holdfast.errors import InvalidInput, Refused, StoreUnusable
from holdfast.items import HEAD, Item, Put, Update, Write, holds, place, updated
from holdfast.paging import entry_cursor, entry_place
from holdfast.ports import BLOB_MARK, Page, Partitions

PAGE_ITEMS: Final = 1000
"""The most items one page holds, whatever limit the caller gives."""


class MemoryStore:
    """Items in dictionaries. A write applies when it is called, and is answered in the loop's next tick."""

    def __init__(self, data: MemoryData) -> None:
        self.data = data
        self._closed = False

    def write(self, *writes: Write) -> asyncio.Future[Sequence[Item | None]]:
        """See ``Store.write``."""
        return self._answer(lambda: writes)

    def write_after(
        self, partition: str, sort: str, decide: Callable[[Item | None], Sequence[Write]]
    ) -> asyncio.Future[Sequence[Item | None]]:
        """See ``Sequencer.write_after``."""
        return self._answer(lambda: decide(self.data.find(partition, sort)))

    def _answer(self, decide: Callable[[], Sequence[Write]]) -> asyncio.Future[Sequence[Item | None]]:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Sequence[Item | None]] = loop.create_future()
        try:
            results = self._apply(decide())
        except Exception as error:  # noqa: BLE001 - whatever `decide` raised reaches the caller as it is
            loop.call_soon(_settle, answer, error)
        else:
            loop.call_soon(_settle, answer, results)
        return answer

    def _apply(self, writes: Sequence[Write]) -> list[Item | None]:
        self._check_open()
        places = [place(write) for write in writes]
        if len(set(places)) < len(places):
            msg = "the writes of one call must touch different items"
            raise InvalidInput(msg)
        found = [self.data.find(*place) for place in places]
        for index, (write, item) in enumerate(zip(writes, found, strict=True)):
            if not holds(write.when, item) or (item is None and isinstance(write, Update)):
                raise Refused(index, item)
        return [self._apply_one(write, item) for write, item in zip(writes, found, strict=True)]

    def _apply_one(self, write: Write, item: Item | None) -> Item | None:
        if isinstance(write, Put):
            self.data.set(write.item)
            return None
        if isinstance(write, Update):
            assert item is not None  # else it was refused
            changed = updated(item, write)
            self.data.set(changed)
            return changed if write.load else None
        self.data.remove(write.partition, write.sort)
        return None

    async def get(self, partition: str, sort: str = HEAD) -> Item | None:
        """See ``Store.get``."""
        self._check_open()
        return self.data.find(partition, sort)

    async def query(self, partition: str, *, prefix: str = "", after: str | None = None, limit: int = 1000) -> Page:
        """See ``Store.query``."""
        self._check_open()
        entity = self.data.partitions.get(partition, {})
        sorts = sorted(sort for sort in entity if sort.startswith(prefix) and (after is None or sort > after))
        return _page([(sort, entity[sort]) for sort in sorts], limit)

    async def due(self, before: int, *, after: str | None = None, limit: int = 1000) -> Page:
        """See ``Store.due``."""
        self._check_open()
        found = [(when, head.partition, head) for head in self.data.heads() if (when := _due(head)) is not None]
        start = None if after is None else (_number(after.partition(":")[0]), after.partition(":")[2])
        ordered = sorted(entry for entry in found if entry[0] <= before and (start is None or entry[:2] > start))
        return _page([(f"{when}:{partition}", head) for when, partition, head in ordered], limit)

    async def scan(self, prefix: str, *, status: str | None = None, after: str | None = None, limit: int = 100) -> Page:
        """See ``Store.scan``."""
        self._check_open()
        before = None if after is None else _number(after)
        numbered = sorted(((self.data.created[head.partition], head) for head in self.data.heads()), reverse=True)
        wanted = [
            (str(number), head)
            for number, head in numbered
            if head.partition.startswith(prefix) and status in {None, head.status}
            if before is None or number < before
        ]
        return _page(wanted, limit)

    async def partitions(self, *, after: str | None = None, limit: int = PAGE_ITEMS) -> Partitions:
        """See ``Inventory.partitions``. Those without a head come last."""
        self._check_open()
        created, none = self.data.created, self.data.creations + 1
        numbered = sorted((created.get(name, none), name) for name in self.data.partitions)
        if after is not None:
            number, _, name = after.partition(":")
            numbered = [each for each in numbered if each > (_number(number), name)]
        kept = numbered[: max(1, min(limit, PAGE_ITEMS))]
        cursor = f"{kept[-1][0]}:{kept[-1][1]}" if len(kept) < len(numbered) else None
        return Partitions(tuple(name for _, name in kept), cursor)

    def check_fits(self, item: Item) -> None:
        """See ``Inventory.check_fits``: everything does."""

    def strangers(self) -> Sequence[str]:
        """See ``Inventory.strangers``: there are none."""
        return ()

    async def adopt(self, salt: str) -> None:
        """See ``Inventory.adopt``."""
        self.data.salt = salt

    async def count(self, kind: str) -> Mapping[str, int]:
        """See ``Census.count``."""
        self._check_open()
        return Counter(head.status for head in self.data.heads() if head.partition.startswith(kind))

    async def heads(self, prefix: str, *, after: str | None = None, limit: int = PAGE_ITEMS) -> Page:
        """See ``Census.heads``."""
        self._check_open()
        found = sorted((head for head in self.data.heads()), key=lambda head: head.partition)
        wanted = [head for head in found if head.partition.startswith(prefix) and head.partition > (after or "")]
        return _page([(head.partition, head) for head in wanted], limit)

    async def entries(self, prefix: str, *, after: str | None = None, limit: int = PAGE_ITEMS) -> Page:
        """See ``Census.entries``."""
        self._check_open()
        start = None if after is None else entry_place(after)
        found = [
            (entry_cursor(item), item)
            for _, entity in sorted(self.data.partitions.items())
            for _, item in sorted(entity.items())
            if item.sort != HEAD and item.partition.startswith(prefix)
            if start is None or (item.partition, item.sort) > start
        ]
        return _page(found, limit)

    async def purge(self, now: int, limit: int = 1000) -> int:
        """See ``Purges.purge``."""
        self._check_open()
        doomed: list[tuple[str, str]] = []
        for partition, entity in self.data.partitions.items():
            head = entity.get(HEAD)
            whole = head is not None and _expired(head, now)
            # The head is deleted last, so that a purge that stops at its limit finds the rest next time.
            doomed += [
                (partition, sort)
                for sort in sorted(entity, key=lambda sort: sort == HEAD)
                if whole or (sort != HEAD and _expired(entity[sort], now))
            ]
        for partition, sort in doomed[:limit]:
            self.data.remove(partition, sort)
        needed = {_digest(item.body) for entity in self.data.partitions.values() for item in entity.values()}
        unneeded = [
            digest for digest, blob in self.data.blobs.items() if blob.keep_until <= now and digest not in needed
        ][: max(0, limit - len(doomed))]
        for digest in unneeded:
            del self.data.blobs[digest]
        return len(doomed[:limit]) + len(unneeded)

    async def close(self) -> None:
        """See ``Store.close``. The data stay in the ``MemoryData``."""
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            msg = "the store is closed; open the home again"
            raise StoreUnusable(msg)


def _settle(answer: asyncio.Future[Sequence[Item | None]], outcome: list[Item | None] | Exception) -> None:
    if answer.done():  # the caller went away
        return
    if isinstance(outcome, Exception):
        answer.set_exception(outcome)
    else:
        answer.set_result(outcome)


def _number(cursor: str) -> int:
    try:
        return int(cursor)
    except ValueError:
        raise InvalidInput(f"{cursor!r} is not a cursor of this store; pass the cursor of a page") from None


def _due(head: Item) -> int | None:
    return head.due_at if head.lease_until is None else head.lease_until


def _expired(item: Item, now: int) -> bool:
    return item.expires_at is not None and item.expires_at <= now


def _digest(body: bytes) -> str:
    """The digest of the blob to which a body refers."""
    return body[len(BLOB_MARK) :][:64].decode() if body.startswith(BLOB_MARK) else ""


def _page(found: list[tuple[str, Item]], limit: int) -> Page:
    """The first items of ``found``; each comes with the cursor that continues behind it."""
    kept = found[: max(1, min(limit, PAGE_ITEMS))]
    return Page(tuple(item for _, item in kept), cursor=kept[-1][0] if len(kept) < len(found) else None)
