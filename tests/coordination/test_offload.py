"""Large bodies go to the blobs, and nobody above the store notices."""

from __future__ import annotations

import asyncio
import hashlib
import random
import tracemalloc
import zlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.backends.memory import MemoryData, MemoryStore, open_memory_home
from holdfast.backends.memory.blobs import MemoryBlobs
from holdfast.backends.memory.data import StoredBlob
from holdfast.backends.sqlite import SqliteStore
from holdfast.backends.sqlite.blobs import SqliteBlobs
from holdfast.clock import SystemClock
from holdfast.coordination.offload import (
    GRACE_MS,
    LARGEST_WHOLE_BYTES,
    PIECE_BYTES,
    THREAD_BYTES,
    OffloadingStore,
    Reference,
    fetch,
    offload,
    stream,
)
from holdfast.errors import Refused, StoreUnusable
from holdfast.items import ABSENT, HEAD, Delete, Item, Put, RevisionIs, Update
from holdfast.ports import BLOB_MARK, Blobs, Page, Store
from holdfast.testing.conformance import StoreConformance


class FixedClock:
    def __init__(self) -> None:
        self.ms = 1_000_000_000_000

    def now_ms(self) -> int:
        return self.ms


class TestOffloadingFromMemory(StoreConformance):
    """Every body but the shortest is a blob, and the contract is kept."""

    large_bodies_are_late = True
    histories = message_histories = 15  # what it wraps plays more of them

    async def open_store(self, folder: Path) -> Store:
        home = open_memory_home()
        assert home.blobs is not None
        return OffloadingStore(home.store, home.blobs, SystemClock(), inline_bytes=2)


class TestOffloadingFromSqlite(StoreConformance):
    large_bodies_are_late = True
    histories = message_histories = 15

    async def open_store(self, folder: Path) -> Store:
        store = SqliteStore.open(str(folder / "home.db"))
        return OffloadingStore(store, SqliteBlobs(store), SystemClock(), inline_bytes=2)


class Small:
    """A store whose bodies may have a hundred bytes, and what stands behind it."""

    def __init__(self, store: MemoryStore | SqliteStore, blobs: Blobs) -> None:
        self.clock = FixedClock()
        self.behind = store
        self.blobs = blobs
        self.store = OffloadingStore(store, blobs, self.clock, inline_bytes=100)

    async def has(self, body: bytes) -> bool:
        return bool([piece async for piece in self.blobs.read(hashlib.sha256(body).hexdigest())])

    async def purge(self) -> int:
        return await self.behind.purge(self.clock.ms, 100)


@pytest.fixture(params=["memory", "sqlite"])
def opened(request: pytest.FixtureRequest, tmp_path: Path):
    @asynccontextmanager
    async def open_store() -> AsyncGenerator[Small]:
        if request.param == "memory":
            data = MemoryData()
            small = Small(MemoryStore(data), MemoryBlobs(data))
        else:
            store = SqliteStore.open(str(tmp_path / "home.db"))
            small = Small(store, SqliteBlobs(store))
        yield small
        await small.store.close()

    return open_store


LARGE = b"[" + b"1," * 1000 + b"1]"
OTHER = b"[" + b"2," * 1000 + b"2]"


async def test_what_is_stored_is_small_and_what_is_read_is_whole(opened):
    async with opened() as small:
        item = Item("doc#a", body=LARGE)
        await small.store.write(Put(item, ABSENT))
        stored = await small.behind.get("doc#a")
        assert len(stored.body) < 100 and stored.body.startswith(BLOB_MARK)
        assert await small.store.get("doc#a") == item
        assert (await small.store.scan("doc#")).items == (item,)


@pytest.mark.parametrize(("size", "stays"), [(90_000, True), (THREAD_BYTES + 1, False)])
async def test_where_the_store_packs_bodies_it_is_their_packed_size_that_counts(size, stays):
    data = MemoryData()
    store = OffloadingStore(MemoryStore(data), MemoryBlobs(data), FixedClock(), inline_bytes=1_000, packs=True)
    for key, body, inline in (("alike", b"1" * size, stays), ("noise", random.Random(1).randbytes(2_000), False)):
        await store.write(Put(Item(key, body=body), ABSENT))
        assert (data.find(key, "@").body == body) is inline
        assert (await store.get(key)).body == body


async def test_a_refusal_and_a_loaded_update_carry_the_whole_item(opened):
    async with opened() as small:
        await small.store.write(Put(Item("doc#a", body=LARGE), ABSENT))
        with pytest.raises(Refused) as refused:
            await small.store.write(Put(Item("doc#a", body=OTHER), ABSENT))
        assert refused.value.item.body == LARGE
        other = Put(Item("doc#b", body=b"1"), ABSENT)
        (answer, nothing) = await small.store.write(Update(partition="doc#a", add_revision=1, load=True), other)
        assert (answer.body, answer.revision, nothing) == (LARGE, 1, None)


async def test_a_page_ends_early_when_its_bodies_are_large(opened):
    async with opened() as small:
        bodies = [b"%d" % n * (3 * 2**20) for n in range(4)]
        for n, body in enumerate(bodies):
            await small.store.write(Put(Item("p", f"j#{n}", body=body)))
        found: list[bytes] = []
        sizes: list[int] = []
        page = Page((), "j#")
        while page.cursor is not None:
            page = await small.store.query("p", prefix="j#", after=page.cursor)
            found += [item.body for item in page.items]
            sizes.append(len(page.items))
        assert found == bodies
        assert sizes == [2, 2]


async def test_a_blob_goes_when_nothing_needs_it_and_its_grace_is_over(opened):
    async with opened() as small:
        await small.store.write(Put(Item("doc#a", body=LARGE)), Put(Item("doc#a", "part", body=OTHER)))
        await small.store.write(Put(Item("doc#a", body=b"1")))
        assert await small.purge() == 0
        assert await small.has(LARGE), "it may just be about to be referred to"
        small.clock.ms += GRACE_MS + 1
        assert await small.purge() == 1
        assert not await small.has(LARGE)
        assert await small.has(OTHER), "an item refers to it"
        await small.store.write(Delete("doc#a", "part"))
        small.clock.ms += GRACE_MS + 1
        assert await small.purge() == 1
        assert not await small.has(OTHER)


async def test_to_store_it_again_starts_its_grace_anew(opened):
    """Between the blob and its item a collector may come by: it must not take what is about to be referred to."""
    async with opened() as small:
        await small.store.write(Put(Item("doc#a", body=LARGE)))
        await small.store.write(Delete("doc#a", HEAD))
        small.clock.ms += GRACE_MS - 1
        with pytest.raises(Refused):
            await small.store.write(Put(Item("doc#b", body=LARGE), RevisionIs(7)))
        small.clock.ms += GRACE_MS - 1
        assert await small.purge() == 0
        await small.store.write(Put(Item("doc#b", body=LARGE)))
        assert (await small.store.get("doc#b")).body == LARGE


@pytest.mark.parametrize("compressible", [True, False])
async def test_what_was_damaged_is_found_out(compressible):
    data = MemoryData()
    small = Small(MemoryStore(data), MemoryBlobs(data))
    body = LARGE if compressible else random.Random(1).randbytes(1000)
    await small.store.write(Put(Item("doc#a", body=body)))
    ((digest, blob),) = data.blobs.items()
    middle = len(blob.data) // 2
    flipped = blob.data[:middle] + bytes([blob.data[middle] ^ 1]) + blob.data[middle + 1 :]
    for damaged in (b"", blob.data[:middle], flipped):
        data.blobs[digest] = StoredBlob(damaged, 0)
        with pytest.raises(StoreUnusable, match="backup"):
            await small.store.get("doc#a")


async def test_fifty_megabytes_go_through_a_step_and_back(tmp_path):
    size = 50 * 2**20
    app = hf.App("films", home=f"sqlite:///{tmp_path}/home.db", limit_bytes=64 * 2**20)
    ran = []

    @app.step
    async def film() -> str:
        ran.append(1)
        return "f" * size

    @app.workflow
    async def cut() -> str:
        whole = await film()
        await hf.signal("go")
        return whole[: size // 2]

    async with app.worker():
        handle = await cut.start(id="one")
        while (await handle.status()).status != "SUSPENDED":
            await asyncio.sleep(0.01)
    async with app.worker():
        handle = cut.handle("one")
        await handle.signal("go")
        assert len(await handle) == size // 2
    assert ran == [1]


class Bomb:
    """Blobs of which one is a few packed bytes that become as many as one likes, and what was asked of them."""

    def __init__(self, size_bytes: int, piece_bytes: int = 2**16) -> None:
        packer = zlib.compressobj(1)
        block = bytes(2**20)
        self.packed = b"".join([packer.compress(block) for _ in range(size_bytes // len(block))]) + packer.flush()
        self.piece_bytes = piece_bytes

    async def read(self, digest: str):
        for begin in range(0, len(self.packed), self.piece_bytes):
            yield self.packed[begin : begin + self.piece_bytes]


async def test_a_blob_that_becomes_more_than_its_reference_says_is_damaged_before_it_does():
    """A few bytes that become many take the memory of one piece."""
    bomb = Bomb(64 * 2**20)
    tracemalloc.start()
    try:
        with pytest.raises(StoreUnusable, match="damaged"):
            await fetch(Reference("0" * 64, 1_000, compressed=True), bomb)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 8 * 2**20


async def test_a_reference_to_more_than_may_be_read_whole_is_refused_unread():
    bomb = Bomb(2**20)
    with pytest.raises(StoreUnusable, match="at most 268,435,456"):
        await fetch(Reference("0" * 64, LARGEST_WHOLE_BYTES + 1, compressed=True), bomb)


@pytest.mark.parametrize("size", [0, 1, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES])
@pytest.mark.parametrize("noise", [False, True])
async def test_what_was_packed_comes_back_in_pieces_of_a_bounded_size(size, noise):
    body = random.Random(size).randbytes(size // 2) + bytes(size - size // 2) if noise else bytes(size)
    blobs = MemoryBlobs(MemoryData())
    reference = await offload(body, blobs, 0)
    pieces = [piece async for piece in stream(reference, blobs)]
    assert b"".join(pieces) == body
    assert max(map(len, pieces), default=0) <= PIECE_BYTES
