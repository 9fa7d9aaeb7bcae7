"""From a file into an empty home."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Final

from holdfast.clock import Clock, SystemClock
from holdfast.coordination.offload import GRACE_MS
from holdfast.coordination.sealing import Envelope
from holdfast.errors import ConfigurationError, InvalidState, Refused
from holdfast.items import ABSENT, ALWAYS, HEAD, Delete, Item, Put
from holdfast.keys import IMPORT_PARTITION
from holdfast.moving.inventory import (
    Stock,
    StockTaker,
    check_nobody_is_there,
    everything,
    inventory_of,
    take_stock,
)
from holdfast.moving.progress import Progress, Tell, untold
from holdfast.moving.reading import Filed
from holdfast.moving.records import BlobPiece, End, ItemRecord, Moved
from holdfast.persist import write_for_caller, write_until_known
from holdfast.ports import Home

IMPORTING: Final = "IMPORTING"

BATCH_ITEMS: Final = 200
"""How many items are written concurrently."""

BATCH_BYTES: Final = 8 * 2**20


async def import_home(
    home: Home, path: Path, clock: Clock | None = None, tell: Tell = untold, envelope: Envelope | None = None
) -> Moved:
    """Write a file of ``export_home`` into ``home``, and return the counts.

    The whole file is read and checked before anything is written. Every item is written only if it does not exist, so
    an interrupted import is repeated with the same file; until it has finished, nothing may work on the home. The home
    takes over the salt of the exported one, so that open executions keep their keys (G10).

    Raises ``InvalidInput`` for a file that is damaged, cut off or of another version, or has items that this home
    cannot store; and ``InvalidState`` for a home that is not empty, that another process has open or writes to
    meanwhile.
    ``tell`` gets the progress. A home that already has the file's content is left as it is. A sealed file needs the
    ``envelope`` of the app that exported it, ``app.envelope``.
    """
    clock = clock or SystemClock()
    file = Filed(path, envelope)
    end = file.verify(inventory_of(home).check_fits)
    if end.counts.blobs and home.blobs is None:
        raise ConfigurationError(
            f"the file has {end.counts.blobs} blobs, but {home.url} has no place for them. On AWS name a bucket: "
            "?bucket=… in its URL"
        )
    check_nobody_is_there(home)
    if await _is_done(home, file, clock):
        return Moved(end.counts)
    await _begin(home, end)
    carried = await _Import(home, file, clock).run(Progress(tell, "imported", end.counts.items))
    found = await take_stock(home, Progress(tell, "checked again", end.counts.items))
    if not found.is_same(carried, clock.now_ms()):
        raise InvalidState(
            f"{home.url} has {found.counts.items:,} items in {found.counts.partitions:,} partitions, and the file "
            f"{end.counts.items:,} in {end.counts.partitions:,}, and they differ: another process wrote to it. "
            "Do not use it; import into another home, with nothing at work on it"
        )
    if salt := file.header().salt:
        await inventory_of(home).adopt(salt)
    await write_until_known(home.store, Delete(IMPORT_PARTITION, HEAD, ALWAYS), ours=lambda _there: False)
    return Moved(end.counts)


class _Import:
    """A file on its way into a home: blobs first, then the items that may refer to them, some at a time."""

    def __init__(self, home: Home, file: Filed, clock: Clock) -> None:
        self._home = home
        self._file = file
        self._clock = clock
        self._pieces: list[bytes] = []

    async def run(self, progress: Progress) -> Stock:
        """Write all of it; returns what the home has then, unless another process writes there too."""
        taker = StockTaker()
        for batch in _batches(self._file):
            blobs = [blob for record in batch if isinstance(record, BlobPiece) and (blob := self._whole(record))]
            await asyncio.gather(*(self._store_blob(*blob) for blob in blobs))
            items = [record.item() for record in batch if isinstance(record, ItemRecord)]
            await asyncio.gather(*(_store(self._home, item) for item in items))
            for item in items:
                taker.note(item)
                progress.note(taker.items)
        return taker.stock()

    def _whole(self, piece: BlobPiece) -> tuple[str, bytes] | None:
        """The blob that ends with this piece."""
        self._pieces.append(piece.data)
        if not piece.last:
            return None
        whole, self._pieces = b"".join(self._pieces), []
        return piece.digest, whole

    async def _store_blob(self, digest: str, data: bytes) -> None:
        assert self._home.blobs is not None  # else the import was refused
        await self._home.blobs.put(digest, data, self._clock.now_ms() + GRACE_MS)


async def _is_done(home: Home, file: Filed, clock: Clock) -> bool:
    """Whether the home has the file's content: the last answer of an earlier import was lost.

    Raises ``InvalidState`` for a home that has other content, and is not marked as being imported into.
    """
    if await home.store.get(IMPORT_PARTITION, HEAD) is not None:
        return False
    if (first := await _first_partition(home)) is None:
        return False
    filed = StockTaker()
    for record in file.records():
        if isinstance(record, ItemRecord):
            filed.note(record.item())
    found = await take_stock(home, Progress(untold, ""), at_most=filed.items)
    if found.is_same(filed.stock(), clock.now_ms()):
        return True
    raise InvalidState(f"{home.url} is not empty: it has {first!r}. Import into a new home")


async def _first_partition(home: Home) -> str | None:
    found = everything(home)
    async with aclosing(found):
        async for item in found:
            return item.partition
    return None


async def _begin(home: Home, end: End) -> None:
    """Mark the home as being imported into. Raises ``InvalidState`` if another file has."""
    mark = Item(IMPORT_PARTITION, status=IMPORTING, body=end.sha256.encode())
    there = await home.store.get(IMPORT_PARTITION, HEAD)
    if there is None:
        try:
            await write_for_caller(home.store, Put(mark, ABSENT), ours=lambda item: item == mark)
        except Refused as refused:
            there = refused.item
    if there is not None and there != mark:
        raise InvalidState(
            f"another file was being imported into {home.url}. Repeat that import, or import into another home"
        )


async def _store(home: Home, item: Item) -> None:
    try:
        await write_for_caller(home.store, Put(item, ABSENT), ours=lambda there: there == item)
    except Refused as refused:
        raise InvalidState(
            f"{item.partition!r} / {item.sort!r} in {home.url} differs from the file: a process worked on it before "
            "the import had finished. Import into another home, with nothing at work on it"
        ) from refused


def _batches(file: Filed) -> Iterator[list[BlobPiece | ItemRecord]]:
    """The records in their order, some at a time."""
    batch: list[BlobPiece | ItemRecord] = []
    size_bytes = 0
    for record in file.records():
        if isinstance(record, BlobPiece | ItemRecord):
            batch.append(record)
            size_bytes += len(record.data if isinstance(record, BlobPiece) else record.body)
            if len(batch) == BATCH_ITEMS or size_bytes > BATCH_BYTES:
                yield batch
                batch, size_bytes = [], 0
    yield batch
