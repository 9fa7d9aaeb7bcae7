"""Moving house from and to AWS: SQLite → DynamoDB → SQLite, item by item, and everything goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.backends.aws.cloud import Refusal
from tests.moving.conftest import errors_expected, eventually, reaches
from tests.moving.estate import contents, fill, goes_on, move
from tests.moving.places import FILE, Clock, Memory, Mirror, Sqlite, opened

import holdfast as hf
from holdfast.backends.aws import open_aws_home
from holdfast.backends.aws.connection import ThreadedConnection
from holdfast.errors import ConfigurationError, InvalidInput, InvalidState, PayloadTooLarge, StoreUnusable
from holdfast.items import HEAD, Delete, Item, Put
from holdfast.moving import Counts, Moved, export_home, import_home
from holdfast.moving.inventory import everything
from holdfast.ports import Home

__all__ = ["errors_expected", "eventually", "reaches"]

NewPlace = Callable[[], "Table"]


class NoQueue:
    """A doorbell's queue that is not there: everything is found by sweeps."""

    async def send(self, operation: str, parameters: dict[str, Any]) -> dict[str, Any]:
        raise Refusal("AWS.SimpleQueueService.NonExistentQueue")

    def close(self) -> None: ...


class Table:
    """A home on AWS: a table of its own, which the first to open it makes, and a bucket."""

    def __init__(self, new_url: Callable[[], Awaitable[str]], bucket: str, client: Any, s3_client: Any) -> None:
        self.bucket = bucket
        self.wrap: Callable[[Any], Any] = lambda connection: connection
        self._new_url, self._client, self._s3_client = new_url, client, s3_client
        self._url = ""

    @property
    def home(self) -> Any:
        return self.open

    async def open(self) -> Home:
        self._url = self._url or await self._new_url()
        return await open_aws_home(
            f"{self._url}&bucket={self.bucket}",
            connection=self.wrap(ThreadedConnection(None, None, client=self._client)),
            s3=self.wrap(ThreadedConnection(None, None, "s3", client=self._s3_client)),
            queue=NoQueue(),
        )


@pytest.fixture
def new_place(new_url: Callable[[], Awaitable[str]], bucket: str, client: Any, s3_client: Any) -> NewPlace:
    """``new_place()``: a home whose table is empty; all of a test share their bucket."""
    return lambda: Table(new_url, bucket, client, s3_client)


@pytest.fixture
def place(new_place: NewPlace) -> Table:
    return new_place()


@pytest.mark.usefixtures("errors_expected")
async def test_everything_moves_to_aws_and_back_and_goes_on(
    place: Table, tmp_path: Path, reaches: Any, eventually: Any
) -> None:
    clock, first, last = Clock(), Sqlite(tmp_path / "a.db"), Sqlite(tmp_path / "b.db")
    token, blob = await fill(first, clock, reaches, eventually)
    there = await move(first, place, tmp_path / "one", clock)
    back = await move(place, last, tmp_path / "two", clock)
    assert there == back
    assert (there.counts.blobs, there.left_behind) == (2, ())
    assert await contents(first) == await contents(place) == await contents(last)
    await goes_on(last, clock, token, blob, eventually)


@pytest.mark.usefixtures("errors_expected")
async def test_what_came_from_sqlite_goes_on_on_aws(
    place: Table, tmp_path: Path, reaches: Any, eventually: Any
) -> None:
    clock, first = Clock(), Memory()
    token, blob = await fill(first, clock, reaches, eventually)
    await move(first, place, tmp_path / "one", clock)
    await goes_on(place, clock, token, blob, eventually)


@pytest.mark.usefixtures("errors_expected")
async def test_what_began_on_aws_goes_on_elsewhere(place: Table, tmp_path: Path, reaches: Any, eventually: Any) -> None:
    clock, last = Clock(), Sqlite(tmp_path / "b.db")
    token, blob = await fill(place, clock, reaches, eventually)
    await move(place, last, tmp_path / "one", clock)
    assert await contents(place) == await contents(last)
    await goes_on(last, clock, token, blob, eventually)


async def test_what_is_sealed_moves_as_it_is(place: Table, tmp_path: Path) -> None:
    source = Memory()
    async with hf.App("shop", home=source.home, seal=Mirror()) as app:
        blob = await app.blobs.put(FILE)
    assert await move(source, place, tmp_path / "one", Clock()) == Moved(Counts(1, 1, 1))
    async with hf.App("shop", home=place.home, seal=Mirror()) as app:
        assert b"".join([piece async for piece in app.blobs.read(blob)]) == FILE


# ── What a table holds ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("limit", [1, 3, 1000])
async def test_every_partition_is_named_once(place: Table, limit: int) -> None:
    async with opened(place) as home:
        assert home.inventory is not None
        assert (await home.inventory.partitions(limit=limit)).names == ()
        for name in ("c", "a", "b"):
            await home.store.write(*(Put(Item(name, sort)) for sort in (HEAD, "j#1", "j#2", "j#3")))
        await home.store.write(Put(Item("headless", "i#1")), Put(Item("headless", "i#2")), Put(Item("gone")))
        await home.store.write(Delete("gone", HEAD))
        names: list[str] = []
        cursor = None
        while True:
            page = await home.inventory.partitions(after=cursor, limit=limit)
            assert len(page.names) <= limit
            names += page.names
            if (cursor := page.cursor) is None:
                break
        assert sorted(names) == ["a", "b", "c", "headless"]
        with pytest.raises(InvalidInput, match="is not a cursor"):
            await home.inventory.partitions(after="nonsense")
    with pytest.raises(StoreUnusable):
        await home.inventory.partitions()


async def test_a_partition_of_several_megabytes_is_read_in_pages(place: Table, tmp_path: Path) -> None:
    source, random = Memory(), Random(5)
    async with opened(source) as home:
        for number in range(12):
            await home.store.write(Put(Item("wf#big", f"j#{number:03}", body=random.randbytes(200_000))))
        await home.store.write(Put(Item("wf#small")))
    target = Memory()
    await move(source, place, tmp_path / "one", Clock())
    await move(place, target, tmp_path / "two", Clock())
    assert await contents(target) == await contents(source)


# ── What it refuses ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("item", "error"),
    [
        (Item("p" * 2049), InvalidInput),
        (Item("p", "s" * 1025), InvalidInput),
        (Item("p", body=Random(1).randbytes(500_000)), PayloadTooLarge),
    ],
)
async def test_what_dynamodb_could_not_hold_is_told_before_anything_is_written(
    item: Item, error: type[Exception], place: Table, tmp_path: Path
) -> None:
    source = Memory()
    async with opened(source) as home:
        await home.store.write(Put(Item("before")), Put(item))
        await export_home(home, tmp_path / "one")
    async with opened(place) as home:
        with pytest.raises(error):
            await import_home(home, tmp_path / "one")
        assert [each async for each in everything(home)] == []


async def test_blobs_need_a_bucket(place: Table, tmp_path: Path) -> None:
    source = Memory()
    async with hf.App("shop", home=source.home) as app:
        await app.blobs.put(FILE)
    async with opened(source) as home:
        await export_home(home, tmp_path / "one")
    place.bucket = ""
    async with opened(place) as home:
        with pytest.raises(ConfigurationError, match=r"1 blobs.*\?bucket="):
            await import_home(home, tmp_path / "one")


async def test_a_lease_that_somebody_may_hold_is_in_the_way(place: Table, tmp_path: Path) -> None:
    clock = Clock()
    async with opened(place) as home:
        await home.store.write(Put(Item("p", owner="env-17", lease_until=clock.ms + 5_000, epoch=4)))
        with pytest.raises(InvalidState, match=r"'p' is leased to env-17, for 5\.0 s"):
            await export_home(home, tmp_path / "one", clock)
    assert not list(tmp_path.iterdir())


# ── Interrupted ─────────────────────────────────────────────────────────────────────────────────────────────────────


class Dying:
    """Lets so many requests that change something through; then the process is gone, with the next applied or not."""

    def __init__(self, connection: Any, rest: list[int], *, applied: bool) -> None:
        self._connection, self._rest, self._applied = connection, rest, applied

    async def send(self, operation: str, parameters: dict[str, Any]) -> dict[str, Any]:
        if operation not in {"PutItem", "DeleteItem", "PutObject"}:
            return await self._connection.send(operation, parameters)  # type: ignore[no-any-return]
        self._rest[0] -= 1
        if self._rest[0] > 0 or (self._rest[0] == 0 and self._applied):
            answer: dict[str, Any] = await self._connection.send(operation, parameters)
        if self._rest[0] <= 0:
            raise asyncio.CancelledError
        return answer

    def close(self) -> None:
        self._connection.close()


@pytest.mark.parametrize(("nth", "applied"), [(1, True), (2, False), (4, True), (7, False), (7, True)])
async def test_an_import_that_dies_at_a_write_is_repeated(
    nth: int, applied: bool, place: Table, tmp_path: Path
) -> None:
    """At every write it dies in ``tests/moving``."""
    source = Memory()
    async with hf.App("shop", home=source.home) as app:
        await app.blobs.put(b"kept")
    async with opened(source) as home:
        await home.store.write(Put(Item("p", epoch=3)), Put(Item("p", "j#1")), Put(Item("q", "i#1")))
        exported = await export_home(home, tmp_path / "one")
    rest = [nth]  # of the mark, the blob, four items, and the end of the mark
    place.wrap = lambda connection: Dying(connection, rest, applied=applied)
    async with opened(place) as home:
        with pytest.raises(asyncio.CancelledError):
            await import_home(home, tmp_path / "one")
    place.wrap = lambda connection: connection
    async with opened(place) as home:
        assert await import_home(home, tmp_path / "one") == exported
        assert await import_home(home, tmp_path / "one") == exported
    assert await contents(place) == await contents(source)


@pytest.mark.parametrize("nth", [1, 2, 5, 9])
async def test_an_export_that_is_interrupted_leaves_no_file(nth: int, place: Table, tmp_path: Path) -> None:
    async with opened(place) as home:
        for number in range(3):
            await home.store.write(Put(Item(f"p{number}")))
    requests = 0

    class Cut:
        def __init__(self, connection: Any) -> None:
            self._connection = connection

        async def send(self, operation: str, parameters: dict[str, Any]) -> dict[str, Any]:
            nonlocal requests
            requests += 1
            if requests == nth:
                raise asyncio.CancelledError
            return await self._connection.send(operation, parameters)  # type: ignore[no-any-return]

        def close(self) -> None:
            self._connection.close()

    place.wrap = Cut
    async with opened(place) as home:
        with pytest.raises(asyncio.CancelledError):
            await export_home(home, tmp_path / "one")
        assert not list(tmp_path.iterdir())
        with suppress(FileExistsError):
            assert (await export_home(home, tmp_path / "one")).counts.items == 3
