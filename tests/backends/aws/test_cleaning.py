"""Cleaning up: what executions have left goes; and blobs that nothing refers to, unless they are about to be used."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest
from tests.backends.aws.faults import FaultyConnection, then_none
from tests.backends.aws.test_blobs import OpenBlobs, put, read, tomorrow

from holdfast.backends.aws import DynamoStore, S3Blobs, Transport, batches, leftovers
from holdfast.backends.aws.blobs import KEPT_MS
from holdfast.backends.aws.cleaning import DONE, SEGMENTS, Cleaned, Hands, Position, clean
from holdfast.backends.aws.connection import ThreadedConnection
from holdfast.coordination.offload import OffloadingStore
from holdfast.errors import StoreUnavailable
from holdfast.items import ABSENT, HEAD, Delete, Expired, Item, Put
from holdfast.keys import IMPORT_PARTITION
from holdfast.ports import LATE_MS

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
        position: Position = (),
        until: float = math.inf,
        **options: Any,
    ) -> Cleaned:
        connection = wrap(ThreadedConnection(None, None, client=self._client))
        transport = Transport(connection, self.store.table, random=Random(1), **options)
        self.meter = transport.meter
        try:
            hands = Hands(transport, self.store.table, self.blobs, dry_run)
            return await clean(hands, clock, position=position, until=until)
        finally:
            transport.close()

    async def left(self, partition: str) -> list[str]:
        return [item.sort for item in (await self.store.query(partition)).items]

    async def close(self) -> None:
        await self.store.close()
        if self.blobs is not None:
            self.blobs.close()


async def with_entity(
    store: DynamoStore, partition: str, items: int, expires_at: int | None, *, others: tuple[str, ...] = ()
) -> None:
    """An execution: its journal by an owner, items by other processes, and its head last, as no real one is written."""
    for start in range(0, items, 25):
        sorts = range(start, min(start + 25, items))
        await asyncio.gather(*(store.write(Put(segment(partition, n))) for n in sorts))
    await asyncio.gather(*(store.write(Put(Item(partition, sort))) for sort in others))
    await store.write(Put(Item(partition, status="COMPLETED", epoch=1, expires_at=expires_at)))


def segment(partition: str, number: int) -> Item:
    return Item(partition, f"j#{number:04d}", owner="me", epoch=1, body=b"entries")


async def expire(store: DynamoStore, partition: str) -> None:
    """TTL deletes the head."""
    await store.write(Delete(partition, HEAD))


OTHERS = ("c#000000#callback#0", "i#await#0123")


async def test_what_has_expired_goes_with_all_its_items_but_the_head_and_nothing_else(
    open_store: OpenStore, client: Any
) -> None:
    home, late = Home(await open_store(), None, client), At().now_ms() - LATE_MS
    await with_entity(home.store, "wf#a#old", 250, late - 1, others=OTHERS)
    await with_entity(home.store, "wf#a#young", 3, late + HOUR_MS)
    await with_entity(home.store, "wf#a#kept", 3, None, others=OTHERS)
    assert await home.clean(At()) == Cleaned(items=252)
    assert await home.left("wf#a#old") == [HEAD]  # which TTL deletes for nothing
    assert len(await home.left("wf#a#young")) == 4
    assert len(await home.left("wf#a#kept")) == 6
    assert await home.clean(At()) == Cleaned()
    await home.close()


async def test_what_a_head_has_left_that_is_gone_goes_too(
    open_store: OpenStore, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leftovers, "SECOND_LOOK_SECONDS", 0.01)
    home = Home(await open_store(), None, client)
    for name in ("wf#a#old", "actor#a#x"):
        await with_entity(home.store, name, 60, 1, others=OTHERS)
        await expire(home.store, name)
    assert await home.clean(At()) == Cleaned(items=62)
    assert await home.left("wf#a#old") == []
    assert len(await home.left("actor#a#x")) == 62  # of an actor each item has an end of its own, or none
    await home.close()


async def test_a_journal_is_deleted_in_batches_without_transactions(open_store: OpenStore, client: Any) -> None:
    home, late = Home(await open_store(), None, client), At().now_ms() - LATE_MS
    for n in range(100):
        await with_entity(home.store, f"wf#a#{n}", 4, late - 1)
    assert await home.clean(At()) == Cleaned(items=400)
    deleted = home.meter.usage["BatchWriteItem"]
    assert deleted.write_units == 400
    assert deleted.requests <= 400 / 25 + SEGMENTS
    assert "TransactWriteItems" not in home.meter.usage
    assert home.meter.total.requests <= 400 / 25 + 3 * SEGMENTS
    await home.close()


async def test_a_head_of_an_earlier_release_has_no_ttl_and_is_deleted(open_store: OpenStore, client: Any) -> None:
    home, late = Home(await open_store(), None, client), At().now_ms() - LATE_MS
    for name in ("wf#a#old", "wf#a#new", "actor#!a#x"):
        await with_entity(home.store, name, 0, late - 1)
    for name in ("wf#a#old", "actor#!a#x"):
        client.update_item(
            TableName=home.store.table, Key={"p": {"S": name}, "s": {"S": HEAD}}, UpdateExpression="REMOVE x"
        )
    assert await home.clean(At()) == Cleaned(heads=2)
    assert await home.left("wf#a#new") == [HEAD]
    assert await home.left("wf#a#old") == await home.left("actor#!a#x") == []
    await home.close()


class Meanwhile(FaultyConnection):
    """Something happens between the scan, which has seen all there is, and the look at the heads."""

    def __init__(self, connection: Any, happens: Callable[[], Awaitable[Any]], *, at: str = "BatchGetItem") -> None:
        super().__init__(connection, then_none())
        self._happens, self._at = happens, at

    async def send(self, operation: str, parameters: dict[str, Any]) -> dict[str, Any]:
        if operation == self._at and not self.suffered["meanwhile"]:
            self.suffered["meanwhile"] += 1
            await self._happens()
        return await super().send(operation, parameters)


@pytest.mark.parametrize("at", ["BatchGetItem", "BatchWriteItem"])
@pytest.mark.parametrize("head_is_gone", [False, True])
async def test_one_that_begins_again_meanwhile_keeps_what_is_its(
    at: str, head_is_gone: bool, open_store: OpenStore, client: Any
) -> None:
    home, late = Home(await open_store(), None, client), At().now_ms() - LATE_MS
    await with_entity(home.store, "wf#a#x", 60, late - 1, others=OTHERS)
    if head_is_gone:
        await expire(home.store, "wf#a#x")

    async def begins_again() -> None:
        when = ABSENT if head_is_gone else Expired(late)
        await home.store.write(Put(Item("wf#a#x", status="RUNNING", epoch=2), when))
        await home.store.write(Put(Item("wf#a#x", "j#anew", owner="me", epoch=2), ABSENT))
        await home.store.write(Put(Item("wf#a#x", OTHERS[0], status="anew")))

    wrapped: list[Meanwhile] = []

    def wrap(connection: Any) -> Meanwhile:
        wrapped.append(Meanwhile(connection, begins_again, at=at))
        return wrapped[0]

    await home.clean(At(), wrap)
    assert wrapped[0].suffered["meanwhile"] == 1
    left = await home.left("wf#a#x")
    assert {HEAD, "j#anew", OTHERS[0]} <= set(left)
    assert ("j#0000" in left) == (at == "BatchGetItem")
    await home.close()


async def test_what_comes_before_its_head_in_one_transaction_is_not_taken_for_left_over(
    open_store: OpenStore, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scan and the look at the heads both fall into the transaction that starts a fork with its journal."""
    monkeypatch.setattr(leftovers, "SECOND_LOOK_SECONDS", 0.01)
    home = Home(await open_store(), None, client)
    await home.store.write(Put(Item("wf#a#fork", "j#0000", body=b"entries")))

    class Starts(FaultyConnection):
        async def send(self, operation: str, parameters: dict[str, Any]) -> dict[str, Any]:
            answer = await super().send(operation, parameters)
            if operation == "BatchGetItem" and not self.suffered["started"]:
                self.suffered["started"] += 1
                await home.store.write(Put(Item("wf#a#fork", status="READY", epoch=1)))
            return answer

    assert await home.clean(At(), lambda connection: Starts(connection, then_none())) == Cleaned()
    assert await home.left("wf#a#fork") == [HEAD, "j#0000"]
    await home.close()


async def test_nothing_is_deleted_while_an_import_is_under_way(open_store: OpenStore, client: Any) -> None:
    home = Home(await open_store(), None, client)
    await home.store.write(Put(segment("wf#a#x", 0)))
    await home.store.write(Put(Item(IMPORT_PARTITION)))
    assert await home.clean(At()) == Cleaned()
    assert await home.left("wf#a#x") == ["j#0000"]
    await home.close()


async def test_an_import_that_ends_while_heads_are_looked_for_loses_nothing(
    open_store: OpenStore, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its heads come last here. That there is none may only be believed after its mark was looked for."""
    monkeypatch.setattr(batches, "BATCH_KEYS", 1)
    home = Home(await open_store(), None, client)
    partitions = [f"wf#a#{n}" for n in range(8)]
    await home.store.write(Put(Item(IMPORT_PARTITION)))
    await asyncio.gather(*(home.store.write(Put(segment(each, 0))) for each in partitions))
    ended = asyncio.Event()

    class Ending:
        """The import ends between the first look for a head and every look for its mark."""

        def __init__(self, inner: Any) -> None:
            self.inner, self.close = inner, inner.close

        async def send(self, operation: str, parameters: dict[str, Any]) -> dict[str, Any]:
            if operation == "BatchGetItem" and IMPORT_PARTITION in str(parameters):
                await ended.wait()
            answer = await self.inner.send(operation, parameters)
            if operation == "BatchGetItem" and not ended.is_set():
                await asyncio.gather(*(home.store.write(Put(Item(each))) for each in partitions))
                await home.store.write(Delete(IMPORT_PARTITION, HEAD))
                ended.set()
            return answer

    assert await home.clean(At(), Ending) == Cleaned()
    assert ended.is_set()
    for each in partitions:
        assert await home.left(each) == [HEAD, "j#0000"]
    await home.close()


@pytest.mark.parametrize("dies_at", [0, 3, 4, 5, 7, 9])
async def test_one_that_dies_anywhere_is_done_by_the_next(dies_at: int, open_store: OpenStore, client: Any) -> None:
    home, late = Home(await open_store(), None, client), At().now_ms() - LATE_MS
    await with_entity(home.store, "wf#a#x", 120, late - 1)
    healthy = [None] * dies_at
    faults = then_none(*healthy, *["connection reset"] * 1_000)
    with pytest.raises(StoreUnavailable):
        await home.clean(At(), lambda connection: FaultyConnection(connection, faults), patience_seconds=0.2)
    await home.clean(At())
    assert await home.left("wf#a#x") == [HEAD]
    await home.close()


async def test_one_that_has_no_time_goes_on_where_it_was(open_store: OpenStore, client: Any) -> None:
    home, late = Home(await open_store(), None, client), At().now_ms() - LATE_MS
    for n in range(8):
        await with_entity(home.store, f"wf#a#{n}", 4, late - 1)
    stopped = await home.clean(At(), until=asyncio.get_running_loop().time() - 1)
    assert (stopped.items, list(stopped.position)) == (0, [None] * SEGMENTS)
    ended = await home.clean(At(), position=(None, *(DONE,) * (SEGMENTS - 1)))
    assert 0 < ended.items < 32
    rest = await home.clean(At(), position=(DONE, *(None,) * (SEGMENTS - 1)))
    assert ended.items + rest.items == 32
    assert rest.position == ()
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
    await with_entity(home.store, "wf#a#old", 30, At().now_ms() - LATE_MS - 1)
    digest = await put(home.blobs, b"nobody names it")
    counted = await home.clean(LATER, dry_run=True)
    assert counted == Cleaned(items=30, blobs=1)
    assert len(await home.left("wf#a#old")) == 31
    assert await read(home.blobs, digest) == [b"nobody names it"]
    assert await home.clean(LATER) == counted
    await home.close()
