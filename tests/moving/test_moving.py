"""Moving house: what was under way in one home goes on in another, and ends as it would have ended."""

from __future__ import annotations

import asyncio
import hashlib
import json
import stat
from contextlib import closing, nullcontext
from functools import partial

import apsw
import msgspec
import pytest
from tests.moving.estate import contents, fill, goes_on, move
from tests.moving.places import FILE, Clock, Memory, Mirror, Shop, Sqlite, opened

import holdfast as hf
from holdfast.errors import InvalidInput, InvalidState
from holdfast.items import ABSENT, HEAD, Delete, Item, Put, Update
from holdfast.moving import Counts, Moved, Step, export_home, import_home
from holdfast.moving.inventory import IMPORT_PARTITION, everything
from holdfast.moving.reading import Filed
from holdfast.moving.records import End
from holdfast.testing import FaultCounts, FaultsAt, faulty_home
from holdfast.testing.faults import FailBefore, LoseAnswer
from holdfast.workflows.record import partition_of


async def test_everything_moves_from_sqlite_to_memory_and_back_and_goes_on(tmp_path, reaches, eventually):
    clock, first, between, last = Clock(), Sqlite(tmp_path / "a.db"), Memory(), Sqlite(tmp_path / "b.db")
    token, blob = await fill(first, clock, reaches, eventually)
    there = await move(first, between, tmp_path / "one", clock)
    back = await move(between, last, tmp_path / "two", clock)
    assert there == back
    assert not there.left_behind
    assert there.counts.blobs == 2
    assert await contents(first) == await contents(between) == await contents(last)
    await goes_on(last, clock, token, blob, eventually)


async def test_it_goes_on_in_memory_too(tmp_path, reaches, eventually):
    clock, first, last = Clock(), Sqlite(tmp_path / "a.db"), Memory()
    token, blob = await fill(first, clock, reaches, eventually)
    await move(first, last, tmp_path / "one", clock)
    await goes_on(last, clock, token, blob, eventually)


async def test_an_empty_home_moves(tmp_path):
    assert await move(Memory(), Sqlite(tmp_path / "a.db"), tmp_path / "one", Clock()) == Moved(Counts())


@pytest.mark.parametrize("into", ["memory", "sqlite"])
async def test_what_moves_keeps_its_keys(tmp_path, into):
    """Else a message that was handled in part would charge again in its new home."""
    keys, clock = [], Clock()
    first, last = Sqlite(tmp_path / "a.db"), Memory() if into == "memory" else Sqlite(tmp_path / "b.db")

    async def key(place):
        app = hf.App("shop", home=place.home)

        class Shop(hf.Actor, app=app):
            async def sell(self) -> str:
                return hf.current().idempotency_key

        async with app.worker():
            return await Shop.at("s", request_id="17").sell()

    async with opened(first) as home:
        await export_home(home, tmp_path / "empty", clock)
    async with opened(last) as home:
        await import_home(home, tmp_path / "empty", clock)
    for place in (first, last):
        keys.append(await key(place))
    assert keys[0] == keys[1]


async def test_a_file_of_an_older_version_leaves_the_salt_as_it_is(tmp_path):
    async with opened(Memory()) as home:
        await export_home(home, tmp_path / "one")
    lines = (tmp_path / "one").read_bytes().splitlines()
    header = {name: value for name, value in json.loads(lines[0]).items() if name != "salt"}
    body = json.dumps(header).encode() + b"\n"
    end = json.loads(lines[-1]) | {"sha256": hashlib.sha256(body).hexdigest()}
    (tmp_path / "old").write_bytes(body + json.dumps(end).encode() + b"\n")
    target = Sqlite(tmp_path / "a.db")
    async with opened(target) as home:
        salt = home.salt
        await import_home(home, tmp_path / "old")
    async with opened(target) as home:
        assert home.salt == salt


async def test_partitions_without_a_head_move(tmp_path):
    source, target = Memory(), Sqlite(tmp_path / "a.db")
    async with opened(source) as home:
        await home.store.write(Put(Item("actor#Cart#u1", "i#x#1", body=b"hello")), Put(Item("z", epoch=7, revision=3)))
    assert (await move(source, target, tmp_path / "one", Clock())).counts == Counts(2, 2)
    assert sorted(map(repr, await contents(target))) == sorted(map(repr, await contents(source)))


async def test_the_file_is_its_owners_alone(tmp_path):
    async with opened(Memory()) as home:
        await export_home(home, tmp_path / "one")
    assert stat.S_IMODE((tmp_path / "one").stat().st_mode) == 0o600


# ── Who must not be there ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_home_that_others_have_open_is_neither_exported_nor_imported_into(kind, tmp_path):
    place = Memory() if kind == "memory" else Sqlite(tmp_path / "a.db")
    async with opened(place) as home:
        await export_home(home, tmp_path / "one")
    async with hf.App("shop", home=place.home) as app, opened(place) as home:
        owner = app.runtime().home.owner
        with pytest.raises(InvalidState, match=f"1 other processes have .* open: {owner}"):
            await export_home(home, tmp_path / "two")
        with pytest.raises(InvalidState, match="Stop every worker and client"):
            await import_home(home, tmp_path / "one")
    assert not list(tmp_path.glob("two*"))


async def test_a_lease_that_somebody_may_hold_is_in_the_way_and_says_who(tmp_path, monkeypatch):
    clock, place = Clock(), Memory()
    async with opened(place) as home:
        await home.store.write(Put(Item("p", owner="me-17", lease_until=clock.ms + 5_000, epoch=4)))
        monkeypatch.setattr(home.doorbell, "alive", lambda owner: True)
        with pytest.raises(InvalidState, match=r"'p' is leased to me-17, for 5\.0 s"):
            await export_home(home, tmp_path / "one", clock)
        assert not list(tmp_path.iterdir())
        clock.ms += 5_000
        await export_home(home, tmp_path / "one", clock)


async def test_the_lease_of_the_dead_ends_and_their_epoch_stays(tmp_path):
    clock, source, target = Clock(), Memory(), Sqlite(tmp_path / "a.db")
    async with opened(source) as home:
        await home.store.write(Put(Item("p", owner="gone", lease_until=clock.ms + 5_000, epoch=4)))
    await move(source, target, tmp_path / "one", clock)
    assert await contents(target) == [Item("p", owner="gone", lease_until=clock.ms - 1, epoch=4)]
    assert await contents(source) == [Item("p", owner="gone", lease_until=clock.ms + 5_000, epoch=4)]


async def test_an_execution_whose_worker_died_goes_on_in_the_new_home(tmp_path, reaches):
    """It was leased when the move began: nothing but the ended lease says that somebody should look at it."""
    clock, source, target = Clock(), Memory(), Sqlite(tmp_path / "a.db")
    shop = Shop(source, clock)
    async with shop.app.worker():
        await reaches(await shop.approval.start("o1", id="a"), "SUSPENDED")
        await shop.app.handle("approval", "a").status()
    async with opened(source) as home:
        head = partition_of("approval", "a")
        dead = {"status": "RUNNING", "owner": "gone", "lease_until": clock.ms + 9_000, "due_at": None, "add_epoch": 1}
        await home.store.write(Update(partition=head, **dead))
    await move(source, target, tmp_path / "one", clock)
    shop = Shop(target, clock)
    async with shop.app.worker():
        await shop.app.handle("approval", "a").signal("decision", "yes")
        assert await shop.app.handle("approval", "a") == "paid o1, yes"
    assert shop.done == []


async def test_a_home_that_changes_meanwhile_gives_no_file(tmp_path, monkeypatch):
    async with opened(Memory()) as home:
        await home.store.write(Put(Item("p")), Put(Item("q")))
        query = home.store.query

        async def meddle(partition, **options):
            page = await query(partition, **options)
            if partition == "q":
                await home.store.write(Update(partition="p", add_revision=1))
            return page

        monkeypatch.setattr(home.store, "query", meddle)
        with pytest.raises(InvalidState, match="was changed while it was exported"):
            await export_home(home, tmp_path / "one")
    assert not list(tmp_path.iterdir())


async def test_a_file_that_is_there_is_not_overwritten(tmp_path):
    (tmp_path / "one").write_text("precious")
    async with opened(Memory()) as home:
        with pytest.raises(InvalidState, match="exists already"):
            await export_home(home, tmp_path / "one")
    assert (tmp_path / "one").read_text() == "precious"


async def test_a_missing_blob_is_named_and_the_rest_moves(tmp_path):
    source = Memory()
    async with hf.App("shop", home=source.home) as app:
        blob = await app.blobs.put(b"kept")
        gone = await app.blobs.put(b"gone")
    del source.data.blobs[gone.sha256]
    async with opened(source) as home:
        moved = await export_home(home, tmp_path / "one")
    (told,) = moved.left_behind
    assert gone.sha256 in told
    assert moved.counts.blobs == 1
    target = Memory()
    async with opened(target) as home:
        await import_home(home, tmp_path / "one")
    assert target.data.blobs.keys() == {blob.sha256}


async def test_what_is_sealed_moves_as_it_is(tmp_path):
    source, target = Memory(), Sqlite(tmp_path / "a.db")
    async with hf.App("shop", home=source.home, seal=Mirror()) as app:
        blob = await app.blobs.put(FILE)
    moved = await move(source, target, tmp_path / "one", Clock())
    assert moved == Moved(Counts(1, 1, 1))
    async with hf.App("shop", home=target.home, seal=Mirror()) as app:
        assert b"".join([piece async for piece in app.blobs.read(blob)]) == FILE


# ── Importing ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def exported(tmp_path, count: int = 450, name: str = "file"):
    source = Memory()
    async with opened(source) as home:
        for number in range(count):
            await home.store.write(Put(Item(f"p{number:03}", body=b"x" * number)), Put(Item(f"p{number:03}", "j#1")))
        await export_home(home, tmp_path / name, Clock())
    return source, tmp_path / name


async def test_a_home_that_is_not_empty_is_refused(tmp_path):
    _, path = await exported(tmp_path, 3)
    async with opened(Memory()) as home:
        await home.store.write(Put(Item("mine", "entry")))
        with pytest.raises(InvalidState, match="is not empty: it has 'mine'"):
            await import_home(home, path)
        assert [item.partition async for item in everything(home)] == ["mine"]


@pytest.mark.parametrize("change", [Put(Item("p001", body=b"moved on")), Put(Item("p9")), Delete("p000", "j#1")])
async def test_a_second_import_of_the_same_file_changes_nothing_and_is_refused_once_something_worked_there(
    tmp_path, change
):
    source, path = await exported(tmp_path, 3)
    target = Memory()
    async with opened(target) as home:
        first = await import_home(home, path)
        assert await import_home(home, path) == first
        assert await contents(target) == await contents(source)
        await home.store.write(change)
        with pytest.raises(InvalidState, match="is not empty"):
            await import_home(home, path)


async def test_what_expires_while_it_is_moved_may_be_gone_and_nothing_else(tmp_path, monkeypatch):
    """DynamoDB deletes what has expired at any time after that; a change of what has not is told all the same."""
    clock, source = Clock(), Memory()
    fading = Item("p", "i#1", expires_at=clock.ms + 30_000)
    async with opened(source) as home:
        await home.store.write(Put(Item("p")), Put(fading), Put(Item("p", "i#2", expires_at=clock.ms + 300_000)))
        partitions = home.inventory.partitions

        async def deleting(sort, **options):
            clock.ms += 40_000
            await home.store.write(Delete("p", sort))
            return await partitions(**options)

        passes = iter([partitions, partial(deleting, "i#1"), partitions, partial(deleting, "i#2")])

        async def in_turn(**options):
            return await next(passes)(**options)

        monkeypatch.setattr(home.inventory, "partitions", in_turn)
        moved = await export_home(home, tmp_path / "one", clock)
        with pytest.raises(InvalidState, match="was changed"):
            await export_home(home, tmp_path / "two", clock)
    assert moved.counts.items == 3
    target = Memory()
    async with opened(target) as home:
        partitions, done = home.inventory.partitions, []

        async def expired(**options):
            if not done and await home.store.get("p") is not None:
                done.append(await home.store.write(Delete("p", "i#1")))
            return await partitions(**options)

        monkeypatch.setattr(home.inventory, "partitions", expired)
        assert await import_home(home, tmp_path / "one", clock) == moved
        assert done


async def test_how_far_it_is_is_told(tmp_path):
    told = []
    async with opened(Memory()) as home:
        for number in range(1200):
            await home.store.write(Put(Item(f"p{number}")))
        await export_home(home, tmp_path / "one", tell=told.append)
    async with opened(Memory()) as home:
        await import_home(home, tmp_path / "one", tell=told.append)
    again = Step("checked again", 1000, 1200)
    assert told == [Step("exported", 1000), again, Step("imported", 1000, 1200), again]


async def test_tables_of_ones_own_are_left_behind_and_named(tmp_path):
    place = Sqlite(tmp_path / "a.db")
    async with opened(place) as home:
        assert not (await export_home(home, tmp_path / "one")).left_behind
    with closing(apsw.Connection(str(tmp_path / "a.db"))) as connection:
        connection.execute("CREATE TABLE orders (id)")
    async with opened(place) as home:
        assert (await export_home(home, tmp_path / "two")).left_behind == ("the table 'orders', which is yours",)


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize("stop_after", [0, 1, 130, 900])
async def test_an_interrupted_import_is_repeated(stop_after, kind, tmp_path, monkeypatch):
    source, path = await exported(tmp_path)
    target = Memory() if kind == "memory" else Sqlite(tmp_path / "a.db")
    async with opened(target) as home:
        write, writes = home.store.write, 0

        def dying(*given):
            nonlocal writes
            writes += 1
            if writes > stop_after:
                raise asyncio.CancelledError
            return write(*given)

        monkeypatch.setattr(home.store, "write", dying)
        with pytest.raises(asyncio.CancelledError):
            await import_home(home, path)
    _, other = await exported(tmp_path, 2, "other")
    async with opened(target) as home:
        if stop_after:
            with pytest.raises(InvalidState, match="another file was being imported"):
                await import_home(home, other)
            with pytest.raises(InvalidState, match="an import into .* was interrupted"):
                await export_home(home, tmp_path / "half")
        assert (await import_home(home, path)).counts == Counts(450, 900)
    assert await contents(target) == await contents(source)


@pytest.mark.parametrize("applied", [False, True])
async def test_an_import_may_die_at_every_write(applied, tmp_path, monkeypatch):
    source, path = await exported(tmp_path, 3)
    writes = 1 + 6 + 1  # the mark, the items, the end of the mark
    for nth in range(1, writes + 2):
        target, rest = Memory(), nth
        async with opened(target) as home:
            write = home.store.write

            def dying(*given, write=write):
                nonlocal rest
                rest -= 1
                if rest > 0:
                    return write(*given)
                if rest == 0 and applied:
                    write(*given)
                raise asyncio.CancelledError

            monkeypatch.setattr(home.store, "write", dying)
            with pytest.raises(asyncio.CancelledError) if nth <= writes else nullcontext():
                await import_home(home, path)
        async with opened(target) as home:
            assert (await import_home(home, path)).counts == Counts(3, 6)
        assert await contents(target) == await contents(source)


async def test_answers_that_are_lost_do_no_harm(tmp_path):
    source, path = await exported(tmp_path, 20)
    target, counts = Memory(), FaultCounts()
    last = 1 + 40 + 1  # the mark, the items, the end of the mark
    faults = {1: LoseAnswer(), 5: FailBefore(), 9: LoseAnswer(), last + 3: LoseAnswer()}
    async with opened(target) as home:
        await import_home(faulty_home(home, FaultsAt(faults), counts=counts), path)
    assert sorted(map(repr, await contents(target))) == sorted(map(repr, await contents(source)))
    assert sum(counts.counts.values()) >= len(faults)


async def test_what_worked_on_the_home_too_early_is_told(tmp_path):
    _, path = await exported(tmp_path, 3)
    end = Filed(path).verify()
    async with opened(Memory()) as home:
        mark = Item(IMPORT_PARTITION, status="IMPORTING", body=end.sha256.encode())
        await home.store.write(Put(mark, ABSENT), Put(Item("p001", status="RUNNING")))
        with pytest.raises(InvalidState, match="'p001' / '@' .* differs from the file"):
            await import_home(home, path)


async def test_what_somebody_else_adds_meanwhile_is_told(tmp_path):
    _, path = await exported(tmp_path, 3)
    end = Filed(path).verify()
    async with opened(Memory()) as home:
        mark = Item(IMPORT_PARTITION, status="IMPORTING", body=end.sha256.encode())
        await home.store.write(Put(mark, ABSENT), Put(Item("stranger")))
        with pytest.raises(InvalidState, match="has 7 items in 4 partitions, and the file 6 in 3"):
            await import_home(home, path)
        assert await home.store.get(IMPORT_PARTITION, HEAD) is not None


# ── Files ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def changed(name):
    """Ways to damage a file, on its lines."""

    def flip(lines):
        lines[2] = lines[2].replace(b'"epoch":0', b'"epoch":1')

    def cut(lines):
        lines[-2] = lines[-2][:-10]
        del lines[-1]

    def shorten(lines):
        del lines[-1]

    def lose(lines):
        del lines[3]

    def swap(lines):
        lines[1], lines[2] = lines[2], lines[1]

    def go_on(lines):
        lines.append(lines[1])

    def behead(lines):
        del lines[0]

    def garble(lines):
        lines[1] = b"\xff\xfe\n"

    def miscount(lines):
        end = msgspec.json.decode(lines[-1], type=End)
        lines[-1] = msgspec.json.encode(End(Counts(9, 9, 9), end.sha256)) + b"\n"

    def empty(lines):
        lines.clear()

    def nest(lines):
        lines[1] = b'{"kind":"item","more":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n"

    def nest_first(lines):
        lines[0] = b'{"a":' * 100_000 + b"\n"

    ways = (flip, cut, shorten, lose, swap, go_on, behead, garble, miscount, empty, nest, nest_first)
    return {each.__name__: each for each in ways}[name]


@pytest.mark.parametrize(
    "way",
    [
        *("flip", "cut", "shorten", "lose", "swap", "go_on", "behead", "garble", "miscount", "empty"),
        *("nest", "nest_first"),
    ],
)
async def test_a_damaged_file_is_found_before_anything_is_written(way, tmp_path):
    _, path = await exported(tmp_path, 3)
    lines = path.read_bytes().splitlines(keepends=True)
    changed(way)(lines)
    assert b"".join(lines) != path.read_bytes()
    path.write_bytes(b"".join(lines))
    target = Memory()
    async with opened(target) as home:
        with pytest.raises(InvalidInput, match="is damaged|is cut off"):
            await import_home(home, path)
    assert not target.data.partitions


async def test_another_version_is_told_apart_from_damage(tmp_path):
    _, path = await exported(tmp_path, 1)
    path.write_bytes(path.read_bytes().replace(b'"format":1', b'"format":2', 1))
    async with opened(Memory()) as home:
        with pytest.raises(InvalidInput, match="is of format 2, and this release reads format 1"):
            await import_home(home, path)


async def test_a_file_that_is_not_there_is_told(tmp_path):
    async with opened(Memory()) as home:
        with pytest.raises(InvalidInput, match="cannot be read"):
            await import_home(home, tmp_path / "nothing")


async def test_a_file_is_lines_of_json(tmp_path):
    _, path = await exported(tmp_path, 1)
    kinds = [json.loads(line)["kind"] for line in path.read_text().splitlines()]
    assert kinds == ["header", "item", "item", "end"]
    assert len(list(Filed(path).records())) == 4
