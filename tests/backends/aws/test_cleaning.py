"""Cleaning up: expired entities go, head last; and blobs that nothing refers to, unless they are about to be used."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest
from tests.backends.aws.faults import FaultyConnection, then_none
from tests.backends.aws.test_blobs import OpenBlobs, put, read, tomorrow

from holdfast.backends.aws import DynamoStore, S3Blobs, Transport
from holdfast.backends.aws.blobs import KEPT_MS
from holdfast.backends.aws.cleaning import Cleaned, Hands, clean
from holdfast.backends.aws.connection import ThreadedConnection
from holdfast.coordination.offload import OffloadingStore
from holdfast.errors import StoreUnavailable
from holdfast.items import ABSENT, Expired, Item, Put

OpenStore = Callable[..., Awaitable[DynamoStore]]
HOUR_MS = 3600 * 1000


class At:
    """A clock that is some hours fast."""

    def __init__(self, hours: float = 0) -> None:
        self._fast_ms = int(hours * HOUR_MS)

    def now_ms(self) -> int:
        return int(time.time() * 1000) + self._fast_ms


LATER = At(hours=KEPT_MS / HOUR_MS + 1)
"""When a blob that was stored just now may be collected."""


class Home:
    """A store and its blobs, and how to clean up there."""

    def __init__(self, store: DynamoStore, blobs: S3Blobs | None, client: Any) -> None:
        self.store, self.blobs, self._client = store, blobs, client

    async def clean(
        self,
        clock: At,
        wrap: Callable[[Any], Any] = lambda connection: connection,
        *,
        dry_run: bool = False,
        **options: Any,
    ) -> Cleaned:
        connection = wrap(ThreadedConnection(None, None, client=self._client))
        transport = Transport(connection, self.store.table, random=Random(1), **options)
        store = DynamoStore(transport, self.store.table)
        try:
            return await clean(transport, Hands(store, self.blobs, dry_run=dry_run), clock)
        finally:
            await store.close()

    async def left(self, partition: str) -> list[str]:
        return [item.sort for item in (await self.store.query(partition)).items]

    async def close(self) -> None:
        await self.store.close()
        if self.blobs is not None:
            self.blobs.close()


async def with_entity(store: DynamoStore, partition: str, items: int, expires_at: int | None) -> None:
    for start in range(0, items, 25):
        sorts = range(start, min(start + 25, items))
        await asyncio.gather(*(store.write(Put(Item(partition, f"j#{n:04d}"))) for n in sorts))
    await store.write(Put(Item(partition, status="COMPLETED", epoch=1, expires_at=expires_at)))


async def test_expired_entities_go_with_all_their_items_and_nothing_else(open_store: OpenStore, client: Any) -> None:
    home, now = Home(await open_store(), None, client), At().now_ms()
    await with_entity(home.store, "wf#a#old", 250, now - 1)
    await with_entity(home.store, "wf#a#young", 3, now + HOUR_MS)
    await with_entity(home.store, "wf#a#kept", 3, None)
    assert await home.clean(At()) == Cleaned(heads=1, items=250)
    assert await home.left("wf#a#old") == []
    assert len(await home.left("wf#a#young")) == len(await home.left("wf#a#kept")) == 4
    assert await home.clean(At()) == Cleaned()
    assert home.store.meter.total.requests > 0
    await home.close()


async def test_one_that_is_begun_anew_meanwhile_keeps_what_is_its(open_store: OpenStore, client: Any) -> None:
    home, now = Home(await open_store(), None, client), At().now_ms()
    await with_entity(home.store, "wf#a#x", 120, now - 1)
    anew = [Put(Item("wf#a#x", status="RUNNING", epoch=2), Expired(now)), Put(Item("wf#a#x", "j#new"), ABSENT)]

    class BegunAnew(FaultyConnection):
        async def send(self, operation: str, parameters: dict[str, Any]) -> dict[str, Any]:
            if operation == "TransactWriteItems" and len(self.attempts) and not self.suffered["anew"]:
                self.suffered["anew"] += 1
                await super().send(operation, parameters)  # the first part of the journal goes
                await home.store.write(*anew)
                return {}
            return await super().send(operation, parameters)

    cleaned = await home.clean(At(), lambda connection: BegunAnew(connection, then_none()))
    assert cleaned == Cleaned(heads=0, items=99)
    assert "@" in await home.left("wf#a#x")
    assert "j#new" in await home.left("wf#a#x")
    await home.close()


@pytest.mark.parametrize("dies_at", range(5))
async def test_one_that_dies_anywhere_is_done_by_the_next(dies_at: int, open_store: OpenStore, client: Any) -> None:
    home, now = Home(await open_store(), None, client), At().now_ms()
    await with_entity(home.store, "wf#a#x", 120, now - 1)
    healthy = [None] * dies_at
    faults = then_none(*healthy, *["connection reset"] * 1_000)
    with pytest.raises(StoreUnavailable):
        await home.clean(At(), lambda connection: FaultyConnection(connection, faults), patience_seconds=1.0)
    left = await home.left("wf#a#x")
    assert "@" in left or not left  # the head goes last
    await home.clean(At())
    assert await home.left("wf#a#x") == []
    await home.close()


async def test_blobs_go_that_nothing_refers_to_two_days_after_they_were_stored(
    open_store: OpenStore, open_blobs: OpenBlobs, client: Any, s3_client: Any, bucket: str
) -> None:
    home = Home(await open_store(), open_blobs(), client)
    assert home.blobs is not None
    roomy = OffloadingStore(home.store, home.blobs, At(), inline_bytes=100)
    await roomy.write(Put(Item("wf#a#x", body=b"a" * 1000)))
    await roomy.write(Put(Item("wf#a#x", "j#1", body=b"b" * 1000)))
    orphan = await put(home.blobs, b"orphan")
    s3_client.put_object(Bucket=bucket, Key="shop/readme.txt", Body=b"not ours")
    assert (await home.clean(At(hours=47))).blobs == 0
    assert (await home.clean(LATER)).blobs == 1
    assert await read(home.blobs, orphan) == []
    item = await roomy.get("wf#a#x", "j#1")
    assert item is not None
    assert item.body == b"b" * 1000
    assert s3_client.list_objects_v2(Bucket=bucket)["KeyCount"] == 3
    await home.close()


async def test_one_that_is_stored_again_while_it_is_collected_stays(
    open_store: OpenStore, open_blobs: OpenBlobs, client: Any
) -> None:
    writer = open_blobs()

    class StoredAgain(FaultyConnection):
        async def send(self, operation: str, parameters: dict[str, Any]) -> dict[str, Any]:
            if operation == "DeleteObject":
                self.suffered["stored again"] += 1
                await put(writer, b"orphan", tomorrow() + KEPT_MS)  # it counts as old: put anew
            return await super().send(operation, parameters)

    faulty: list[StoredAgain] = []

    def wrap(connection: Any) -> StoredAgain:
        faulty.append(StoredAgain(connection, then_none()))
        return faulty[0]

    home = Home(await open_store(), open_blobs(wrap), client)
    digest = await put(writer, b"orphan")
    assert (await home.clean(LATER)).blobs == 0
    assert faulty[0].suffered["stored again"] == 1
    assert await read(writer, digest) == [b"orphan"]
    writer.close()
    await home.close()


async def test_a_dry_run_counts_and_deletes_nothing(open_store: OpenStore, open_blobs: OpenBlobs, client: Any) -> None:
    home = Home(await open_store(), open_blobs(), client)
    assert home.blobs is not None
    await with_entity(home.store, "wf#a#old", 30, At().now_ms() - 1)
    digest = await put(home.blobs, b"nobody names it")
    counted = await home.clean(LATER, dry_run=True)
    assert counted == Cleaned(heads=1, items=30, blobs=1)
    assert len(await home.left("wf#a#old")) == 31
    assert await read(home.blobs, digest) == [b"nobody names it"]
    assert await home.clean(LATER) == counted
    await home.close()
