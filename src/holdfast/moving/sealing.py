"""Sealing the existing items of a home: those from before the seal, and those that an older key has sealed."""

from __future__ import annotations

from functools import partial

from holdfast.clock import Clock, SystemClock
from holdfast.coordination.offload import GRACE_MS, roomy
from holdfast.coordination.sealing import Envelope, sealed
from holdfast.errors import InvalidState, Refused, StoreUnusable
from holdfast.items import Item, RevisionIs, Update
from holdfast.moving.inventory import check_nobody_is_there, check_not_held, everything
from holdfast.moving.progress import Progress, Tell, untold
from holdfast.moving.records import Counts, Moved
from holdfast.patterns.blobs import PARTITION_PREFIX
from holdfast.persist import write_for_caller
from holdfast.ports import Home
from holdfast.references import Reference, keeper, kept_in, reference_in


async def seal_home(home: Home, envelope: Envelope, clock: Clock | None = None, tell: Tell = untold) -> Moved:
    """Seal every value of ``home``, and return how much was written. It may be repeated, with the same result.

    The first key of the seal is used, whatever key was used before; but sealed blobs of the user stay as they are.
    ``left_behind`` names what does not open, or is missing; it stays as it is. Raises ``InvalidState`` if another
    process has the home open, or holds a lease and may be alive, and if the home changes meanwhile. ``tell`` gets the
    progress. Bytes that are not used any more may stay in the store's files for a while: an export leaves them behind.
    """
    clock = clock or SystemClock()
    check_nobody_is_there(home)
    work = _Sealing(home, envelope.lenient(), clock)
    progress, seen, partitions = Progress(tell, "sealed"), 0, set[str]()
    async for item in everything(home):
        check_not_held(home, item, clock.now_ms())
        await work.item(item)
        seen += 1
        partitions.add(item.partition)
        progress.note(seen)
    if home.finder is not None:
        await home.finder.forget()
    check_nobody_is_there(home)
    return Moved(Counts(len(partitions), work.items, work.blobs), tuple(work.left_behind))


class _Sealing:
    def __init__(self, home: Home, envelope: Envelope, clock: Clock) -> None:
        self.items = self.blobs = 0
        self.left_behind: list[str] = []
        self._home = sealed(home, envelope, partial(roomy, clock=clock, refused=()))
        self._clock = clock

    async def item(self, item: Item) -> None:
        """Write the values of an item again."""
        if not item.body:
            return
        try:
            body = await self._body(item)
        except StoreUnusable as error:
            self.left_behind.append(f"{error} ({item.partition!r} / {item.sort!r} stays as it is)")
            return
        write = Update(partition=item.partition, sort=item.sort, when=RevisionIs(item.revision), body=body)
        try:
            await write_for_caller(self._home.store, write, ours=lambda _there: False)
        except Refused as refused:
            raise InvalidState(
                f"{item.partition!r} was changed while its home was sealed. Stop every worker and client, and repeat it"
            ) from refused
        self.items += 1

    async def _body(self, item: Item) -> bytes:
        kept = kept_in(item.body)
        if kept is None and item.partition.startswith(PARTITION_PREFIX):  # as an earlier release stored it
            kept = reference_in(item.body)
        if kept is not None:
            return await self._kept(item, kept)
        whole = await self._home.store.get(item.partition, item.sort)
        if whole is None:
            raise StoreUnusable("it is gone")
        return whole.body

    async def _kept(self, item: Item, kept: Reference) -> bytes:
        """A blob of the user, whose digest is in the key of the item that refers to it."""
        blobs, digest = self._home.blobs, item.partition.removeprefix(PARTITION_PREFIX)
        data = b"" if blobs is None else b"".join([piece async for piece in blobs.read(digest)])
        if blobs is None or not data:
            raise StoreUnusable(f"blob {digest} is missing")
        await blobs.put(digest, data, self._clock.now_ms() + GRACE_MS)
        self.blobs += 1
        return keeper(Reference(digest, kept.size_bytes, kept.compressed))
