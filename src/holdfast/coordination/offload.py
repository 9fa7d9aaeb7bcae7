"""Large state: a body above a limit goes to the blobs, and its item keeps a reference. The layers above do not see the
difference.

A blob is stored before the item that refers to it is written, so a reference never dangles. A blob whose item was never
written is collected after a grace period. Blobs are named by the SHA-256 of the offloaded bytes, and checked against it
whenever they are read.
"""

from __future__ import annotations

import asyncio
import hashlib
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar

from msgspec.structs import replace

from holdfast.clock import Clock
from holdfast.errors import Refused, StoreUnusable
from holdfast.items import HEAD, Delete, Item, Put, Write, body_of
from holdfast.ports import BLOB_MARK, Blobs, Home, Page, Sequencer, Store
from holdfast.references import SEAL_MARKS, Reference, reference_in

T = TypeVar("T")

GRACE_MS: Final = 24 * 3600 * 1000
"""How long a blob without a reference stays: far longer than a write can be under way, or clocks can differ."""

PAGE_BYTES: Final = 4 * 2**20
"""A page ends once its bodies are together larger than this."""

THREAD_BYTES: Final = 256 * 1024
"""More than this is packed and unpacked in a thread, so that the event loop is not blocked."""

PIECE_BYTES: Final = 2**20
"""How much of a compressed blob is unpacked at a time."""

LARGEST_WHOLE_BYTES: Final = 256 * 2**20
"""A larger body is not read whole into memory; one of an app with a large ``limit_bytes`` may be."""

VALUES_IN_BODY: Final = 64
"""How many of the largest values of an app fit at least into a body that it can read."""

COMPRESSION_LEVEL: Final = 1
"""Of zlib: JSON shrinks to a third or so at any level, and this one is several times as fast as the rest."""


class BlobMissing(StoreUnusable):
    """The blob of a reference does not exist."""


class SealedValue(StoreUnusable):
    """A body is sealed, and this app has no seal."""


async def offload(body: bytes, blobs: Blobs, now_ms: int) -> Reference:
    """Store ``body`` as a blob, durably; until something refers to it, it is kept for the grace period.

    Storing the same bytes again writes no second blob, and restarts the grace period.
    """
    reference, packed = await _aside(len(body), partial(_pack, body))
    await blobs.put(reference.digest, packed, now_ms + GRACE_MS)
    return reference


async def fetch(reference: Reference, blobs: Blobs, most_bytes: int = LARGEST_WHOLE_BYTES) -> bytes:
    """The body that was offloaded. Raises ``StoreUnusable`` if it is missing or damaged, or over ``most_bytes``."""
    if reference.size_bytes > most_bytes:
        raise StoreUnusable(
            f"blob {reference.digest} has {reference.size_bytes:,} bytes, but a body that is read whole has at most "
            f"{most_bytes:,}. An app with a larger limit_bytes reads larger ones"
        )
    return b"".join([chunk async for chunk in stream(reference, blobs)])


async def stream(reference: Reference, blobs: Blobs) -> AsyncIterator[bytes]:
    """The body piece by piece, never whole in memory. Damage may show only at the end: it raises ``StoreUnusable``.

    No piece is larger than what the blobs answer or ``PIECE_BYTES``. Nothing comes beyond the size in the reference,
    however much a compressed blob would expand to.
    """
    digest, size_bytes = hashlib.sha256(), 0
    packed = blobs.read(reference.digest)
    try:
        async for piece in _unpacked(packed) if reference.compressed else packed:
            digest.update(piece)
            size_bytes += len(piece)
            if size_bytes > reference.size_bytes:
                raise _damaged(reference)
            yield piece
    except zlib.error as error:
        raise _damaged(reference) from error
    if size_bytes == 0 < reference.size_bytes:
        raise BlobMissing(f"blob {reference.digest} is missing. Restore it from a backup of the home")
    if size_bytes != reference.size_bytes or digest.hexdigest() != reference.digest:
        raise _damaged(reference)


async def _unpacked(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The content of compressed bytes, in pieces of at most ``PIECE_BYTES``: a megabyte can become a gigabyte."""
    unpacker = zlib.decompressobj()
    async for packed in pieces:
        left, piece = packed, b""
        while left or len(piece) == PIECE_BYTES:  # a full piece may have left more behind in the unpacker
            piece = await _aside(len(left), partial(unpacker.decompress, left, PIECE_BYTES))
            yield piece
            left = unpacker.unconsumed_tail


def _pack(body: bytes) -> tuple[Reference, bytes]:
    packed = zlib.compress(body, COMPRESSION_LEVEL)
    compressed = len(packed) < len(body)
    reference = Reference(hashlib.sha256(body).hexdigest(), len(body), compressed)
    return reference, packed if compressed else body


def _damaged(reference: Reference) -> StoreUnusable:
    return StoreUnusable(f"blob {reference.digest} is cut off or damaged. Restore it from a backup of the home")


async def _aside(size_bytes: int, work: Callable[[], T]) -> T:
    if size_bytes <= THREAD_BYTES:
        return work()
    return await asyncio.get_running_loop().run_in_executor(None, work)


def roomy(home: Home, clock: Clock, limit_bytes: int = 0, refused: tuple[bytes, ...] = SEAL_MARKS) -> Home:
    """The same home, but its items take large bodies, of values of up to ``limit_bytes`` each. A body that begins with
    ``refused`` is not returned: no layer above could read it.
    """
    if home.blobs is None:
        return home
    store = OffloadingStore(
        home.store,
        home.blobs,
        clock,
        home.inline_bytes,
        packs=home.packs,
        most_bytes=max(LARGEST_WHOLE_BYTES, VALUES_IN_BODY * limit_bytes),
        refused=refused,
    )
    sequencer = None if home.sequencer is None else OffloadingSequencer(home.sequencer, store)
    return replace(home, store=store, sequencer=sequencer)


class OffloadingStore:
    """A store whose bodies may be of any size, made of one whose items are small and a place for blobs."""

    def __init__(
        self,
        store: Store,
        blobs: Blobs,
        clock: Clock,
        inline_bytes: int,
        *,
        packs: bool = False,
        most_bytes: int = LARGEST_WHOLE_BYTES,
        refused: tuple[bytes, ...] = SEAL_MARKS,
    ) -> None:
        self._packs = packs
        self._most_bytes = most_bytes
        self._refused = refused
        self._marks = (BLOB_MARK, *refused)
        self._store = store
        self._blobs = blobs
        self._clock = clock
        self._inline_bytes = inline_bytes

    # ── Writes ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def write(self, *writes: Write) -> Awaitable[Sequence[Item | None]]:
        """See ``Store.write``. A write with large bodies is sent after these are stored, so later calls may overtake
        it.
        """
        for write in writes:
            if len(body_of(write)) > self._inline_bytes and (large := self.large_in(writes)):
                return self._write_large(writes, large)
        return self.answered(self._store.write(*writes))  # sent now: only its answer is waited for

    async def _write_large(self, writes: Sequence[Write], large: set[bytes]) -> Sequence[Item | None]:
        references = await self.aside(large)
        return await self.answered(self._store.write(*(with_references(write, references) for write in writes)))

    def large_in(self, writes: Iterable[Write]) -> set[bytes]:
        """The bodies of these writes that are too large for their items."""
        return {body for write in writes if self._is_large(body := body_of(write))}

    def _is_large(self, body: bytes) -> bool:
        """Whether it is too large for its item. A body that is too large to be packed at once is so in any case."""
        if len(body) <= self._inline_bytes:
            return False
        if not self._packs or len(body) > THREAD_BYTES:
            return True
        return len(zlib.compress(body, COMPRESSION_LEVEL)) > self._inline_bytes

    async def aside(self, bodies: Iterable[bytes]) -> dict[bytes, bytes]:
        """Store these bodies as blobs, durably; returns the reference of each."""
        large, now = tuple(bodies), self._clock.now_ms()
        references = await asyncio.gather(*(offload(body, self._blobs, now) for body in large))
        return {body: reference.encode() for body, reference in zip(large, references, strict=True)}

    async def answered(self, answer: Awaitable[Sequence[Item | None]]) -> Sequence[Item | None]:
        """The store's answer to a write, or the item in its refusal, with whole bodies."""
        try:
            items = await answer
        except Refused as refused:
            if refused.item is None or not refused.item.body.startswith(self._marks):
                raise
            raise Refused(refused.index, await self._whole(refused.item)) from None
        for item in items:
            if item is not None and item.body.startswith(self._marks):
                return [None if each is None else await self._whole(each) for each in items]
        return items

    # ── Reads ───────────────────────────────────────────────────────────────────────────────────────────────────────

    async def get(self, partition: str, sort: str = HEAD) -> Item | None:
        """See ``Store.get``."""
        item = await self._store.get(partition, sort)
        return item if item is None or not item.body.startswith(self._marks) else await self._whole(item)

    async def query(self, partition: str, *, prefix: str = "", after: str | None = None, limit: int = 1000) -> Page:
        """See ``Store.query``. The page ends early if its bodies are large."""
        page = await self._store.query(partition, prefix=prefix, after=after, limit=limit)
        if not any(item.body.startswith(self._marks) for item in page.items):
            return page
        items: list[Item] = []
        size_bytes = 0
        for item in page.items:
            if size_bytes > PAGE_BYTES:
                return Page(tuple(items), cursor=items[-1].sort)
            items.append(await self._whole(item))
            size_bytes += len(items[-1].body)
        return replace(page, items=tuple(items))

    async def due(self, before: int, *, after: str | None = None, limit: int = 1000) -> Page:
        """See ``Store.due``. Bodies are left out."""
        page = await self._store.due(before, after=after, limit=limit)
        return Page(tuple(replace(head, body=b"") if head.body else head for head in page.items), page.cursor)

    async def scan(self, prefix: str, *, status: str | None = None, after: str | None = None, limit: int = 100) -> Page:
        """See ``Store.scan``. A body whose blob is missing or damaged stays a reference, and hides no other item."""
        page = await self._store.scan(prefix, status=status, after=after, limit=limit)
        return Page(tuple([await self._whole_if_found(item) for item in page.items]), page.cursor)

    async def close(self) -> None:
        """See ``Store.close``."""
        await self._store.close()

    async def _whole_if_found(self, item: Item) -> Item:
        try:
            return await self._whole(item)
        except SealedValue:
            raise
        except StoreUnusable:
            return item

    async def _whole(self, item: Item) -> Item:
        reference = reference_in(item.body)
        whole = item if reference is None else replace(item, body=await fetch(reference, self._blobs, self._most_bytes))
        if whole.body.startswith(self._refused):
            raise SealedValue(
                "the values of this home are sealed: open it with an app that has the seal (-a MODULE:APP)"
            )
        return whole


class OffloadingSequencer:
    """A sequencer whose writes may have bodies of any size.

    Its decision is known only in its turn, when nothing but the writes themselves can be stored. If there is a large
    body that is not stored yet, the turn passes, the body is stored, and the decision is made again: one turn more.
    """

    def __init__(self, sequencer: Sequencer, store: OffloadingStore) -> None:
        self._sequencer = sequencer
        self._store = store

    async def write_after(
        self, partition: str, sort: str, decide: Callable[[Item | None], Sequence[Write]]
    ) -> Sequence[Item | None]:
        """See ``Sequencer.write_after``. ``decide`` gets the item as it is stored: with a reference if its body is
        large.

        ``decide`` must make the same large bodies each time, or it never completes.
        """
        references: dict[bytes, bytes] = {}

        def decided(item: Item | None) -> Sequence[Write]:
            writes = decide(item)
            if missing := self._store.large_in(writes) - references.keys():
                raise _NotStoredYetError(missing)
            return [with_references(write, references) for write in writes]

        while True:
            try:
                return await self._store.answered(self._sequencer.write_after(partition, sort, decided))
            except _NotStoredYetError as error:
                references |= await self._store.aside(error.bodies)


class _NotStoredYetError(Exception):
    def __init__(self, bodies: set[bytes]) -> None:
        super().__init__(f"{len(bodies)} bodies are to be stored first")
        self.bodies = bodies


def with_references(write: Write, references: Mapping[bytes, bytes]) -> Write:
    """The write with a reference in place of its body, if that was stored as a blob."""
    reference = references.get(body_of(write))
    if reference is None:
        return write
    if isinstance(write, Put):
        return replace(write, item=replace(write.item, body=reference))
    return write if isinstance(write, Delete) else replace(write, body=reference)
