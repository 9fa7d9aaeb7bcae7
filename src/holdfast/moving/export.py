"""From a home into a file."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from holdfast.clock import Clock, SystemClock
from holdfast.coordination.offload import stream
from holdfast.coordination.salt import kept_salt
from holdfast.coordination.sealing import Envelope
from holdfast.errors import InvalidState, StoreUnusable
from holdfast.items import HEAD, Item
from holdfast.keys import IMPORT_PARTITION
from holdfast.moving.inventory import (
    StockTaker,
    check_nobody_is_there,
    check_not_held,
    everything,
    inventory_of,
    take_stock,
)
from holdfast.moving.progress import Progress, Tell, untold
from holdfast.moving.records import FORMAT, PIECE_BYTES, BlobPiece, Header, ItemRecord, Moved
from holdfast.moving.writing import RecordWriter
from holdfast.ports import Blobs, Home
from holdfast.references import SEAL_MARKS, Reference, kept_in, reference_in

ITEMS_PER_BREATH: Final = 500


async def export_home(
    home: Home, path: Path, clock: Clock | None = None, tell: Tell = untold, envelope: Envelope | None = None
) -> Moved:
    """Write all of ``home`` into a new file, and return the counts. The home stays as it is.

    Everything is carried unchanged: executions, actors, timers, messages, waiting events, the data of the state
    patterns, and the blobs to which they refer. Epochs stay, so that they never go backwards (G3). The leases of dead
    processes end, so that a worker on the new home takes over as from any dead process. The salt of the home is carried
    too: open executions keep their keys (G10).

    Raises ``InvalidState`` if another process has the home open, or holds a lease and may be alive, and if the home
    changed meanwhile; then there is no file. ``left_behind`` names blobs that are missing or damaged, and data in the
    same place that are not Holdfast's. ``tell`` gets the progress. With an ``envelope``, such as ``app.envelope``, the
    whole file is sealed.
    """
    clock = clock or SystemClock()
    check_nobody_is_there(home)
    if await home.store.get(IMPORT_PARTITION, HEAD) is not None:
        raise InvalidState(f"an import into {home.url} was interrupted: repeat it before you export")
    now_ms = clock.now_ms()
    with RecordWriter(path, envelope) as writer:
        writer.begin(Header(FORMAT, home.url, now_ms, home.salt or await kept_salt(home.store)))
        export = _Export(home, writer, now_ms)
        taken, progress = StockTaker(), Progress(tell, "exported")
        async for item in everything(home):
            check_not_held(home, item, now_ms)
            taken.note(item)
            await export.item(item)
            progress.note(taken.items)
        check_nobody_is_there(home)
        counts = taken.stock(export.blobs).counts
        found = await take_stock(home, Progress(tell, "checked again", counts.items))
        if not found.is_same(taken.stock(), clock.now_ms()):
            raise InvalidState(
                f"{home.url} was changed while it was exported, so no file was written. Stop every worker and client "
                "of it, and export again"
            )
        writer.finish(counts)
    return Moved(counts, (*export.left_behind, *inventory_of(home).strangers()))


class _Export:
    """Items on their way into the file, each behind the blob to which it refers."""

    def __init__(self, home: Home, writer: RecordWriter, now_ms: int) -> None:
        self.left_behind: list[str] = []
        self.blobs = 0
        self._home = home
        self._writer = writer
        self._now_ms = now_ms
        self._seen: set[str] = set()
        self._items = 0

    async def item(self, item: Item) -> None:
        reference = self._reference_in(item)
        if reference is not None and reference.digest not in self._seen:
            self._seen.add(reference.digest)
            await self._blob(reference, item)
        self._writer.write(ItemRecord.of(_let_go(item, self._now_ms)))
        self._items += 1
        if self._items % ITEMS_PER_BREATH == 0:
            await asyncio.sleep(0)

    def _reference_in(self, item: Item) -> Reference | None:
        try:
            return kept_in(item.body) or reference_in(item.body)
        except StoreUnusable as error:
            self.left_behind.append(f"{error} ({item.partition!r} / {item.sort!r} is carried unchanged)")
            return None

    async def _blob(self, reference: Reference, item: Item) -> None:
        blobs = self._home.blobs
        if blobs is None:
            self.left_behind.append(f"blob {reference.digest} of {item.partition!r}: the home has no place for blobs")
            return
        try:
            if not await _is_sealed(reference, blobs):  # else only its owner's key can verify it
                async for _ in stream(reference, blobs):
                    pass
        except StoreUnusable as error:
            self.left_behind.append(f"{error} (needed by {item.partition!r} / {item.sort!r})")
            return
        held = b""
        async for piece in blobs.read(reference.digest):
            held += piece
            while len(held) > PIECE_BYTES:
                self._writer.write(BlobPiece(reference.digest, held[:PIECE_BYTES], last=False))
                held = held[PIECE_BYTES:]
        self._writer.write(BlobPiece(reference.digest, held, last=True))
        self.blobs += 1


async def _is_sealed(reference: Reference, blobs: Blobs) -> bool:
    async for piece in blobs.read(reference.digest):
        return piece.startswith(SEAL_MARKS)
    return False


def _let_go(item: Item, now_ms: int) -> Item:
    """The item, with its lease ended if it has one.

    It keeps its owner's name: a takeover is not the same as a claim of a free entity (DESIGN idea 5).
    """
    if item.lease_until is None or item.lease_until < now_ms:
        return item
    return replace(item, lease_until=now_ms - 1)
