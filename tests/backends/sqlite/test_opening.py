"""Opening: settings, permissions, versions, and every reason for which a file cannot be a store."""

from __future__ import annotations

import asyncio
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

from holdfast.backends.sqlite import SocketDoorbell, SqliteStore, open_sqlite_home
from holdfast.backends.sqlite.blobs import SqliteBlobs
from holdfast.backends.sqlite.census import SqliteCensus
from holdfast.backends.sqlite.database import Database
from holdfast.backends.sqlite.schema import APPLICATION_ID, MIGRATIONS, SCHEMA_VERSION
from holdfast.errors import InvalidInput, StoreUnavailable, StoreUnusable
from holdfast.items import ABSENT, EXISTS, Item, Put, Update

NOBODY = 65534
INSERT_HEAD = "INSERT INTO holdfast_heads (partition, revision, status, epoch, body) VALUES (?, 1, ?, 1, x'')"


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


@contextmanager
def unprivileged() -> Iterator[Path]:
    """A folder of a user to whom permissions apply; that is not so for root."""
    with tempfile.TemporaryDirectory() as folder:
        if os.geteuid() != 0:
            yield Path(folder)
            return
        os.chown(folder, NOBODY, NOBODY)
        os.seteuid(NOBODY)
        try:
            yield Path(folder)
        finally:
            os.seteuid(0)


async def fill(path: Path) -> None:
    store = SqliteStore.open(str(path))
    for number in range(200):
        await store.write(Put(Item(f"p{number}", body=bytes(500)), ABSENT), Put(Item(f"p{number}", "j/1")))
    await store.close()


class TestSettings:
    async def test_the_settings_that_durability_needs_are_in_force(self, open_home) -> None:
        async with open_home() as home:
            for connection in (home.store.runner.connection, home.store._reader):
                in_force = {
                    name: connection.pragma(name)
                    for name in ("journal_mode", "synchronous", "foreign_keys", "mmap_size", "trusted_schema")
                }
                assert in_force == {
                    "journal_mode": "wal",
                    "synchronous": 2,  # FULL
                    "foreign_keys": 1,
                    "mmap_size": 0,
                    "trusted_schema": 0,
                }
            assert home.store.runner.connection.pragma("wal_autocheckpoint") == 1000
            assert await home.store.integrity() == []

    async def test_the_reader_cannot_write(self, open_home) -> None:
        async with open_home() as home:
            with pytest.raises(apsw.ReadOnlyError):
                home.store._reader.execute("DELETE FROM holdfast_heads")

    async def test_the_file_says_whose_it_is(self, path, open_home) -> None:
        async with open_home():
            pass
        plain = apsw.Connection(str(path))
        assert plain.pragma("application_id") == APPLICATION_ID
        assert plain.pragma("user_version") == SCHEMA_VERSION
        names = [name for (name,) in plain.execute("SELECT name FROM sqlite_schema WHERE sql IS NOT NULL")]
        plain.close()
        assert names
        assert all(name.startswith("holdfast_") for name in names)

    async def test_each_file_has_a_salt_of_its_own_which_stays(self, path, open_home) -> None:
        salts = []
        for _ in range(2):
            async with open_home() as home:
                salts.append(home.store.salt())
        other = SqliteStore.open(f"{path}-other")
        salts.append(other.salt())
        await other.close()
        assert salts[0] == salts[1] != salts[2]
        assert all(len(each) == 32 for each in salts)

    async def test_a_file_of_an_older_version_gets_a_salt_and_the_word_of_today(self, path, open_home) -> None:
        old = apsw.Connection(str(path))
        for statement in (each for migration in MIGRATIONS[:2] for each in migration):
            old.execute(statement)
        old.execute(
            "INSERT INTO holdfast_heads (partition, revision, status, epoch) VALUES ('wf#a#1', 1, 'STRANDED', 1)"
        )
        old.pragma("application_id", APPLICATION_ID)
        old.pragma("user_version", 2)
        old.close()
        async with open_home() as home:
            assert len(home.store.salt()) == 32
            assert (await home.store.get("wf#a#1")).status == "BLOCKED"
            assert dict(await SqliteCensus(home.store).count("wf#")) == {"BLOCKED": 1}

    async def test_the_heads_of_an_older_file_are_counted(self, path, open_home) -> None:
        old = apsw.Connection(str(path))
        for statement in (each for migration in MIGRATIONS[:3] for each in migration):
            old.execute(statement)
        rows = [(f"{kind}#a#{number}", status) for kind in ("wf", "actor") for number, status in enumerate("AAB")]
        old.executemany(
            "INSERT INTO holdfast_heads (partition, revision, status, epoch, body) VALUES (?, 1, ?, 1, x'')", rows
        )
        old.execute("INSERT INTO holdfast_heads (partition) VALUES ('wf#placeholder')")
        old.pragma("application_id", APPLICATION_ID)
        old.pragma("user_version", 3)
        old.close()
        async with open_home() as home:
            assert dict(await SqliteCensus(home.store).count("wf#")) == {"A": 2, "B": 1}
            page = await home.store.scan("wf#", status="A")
            assert [head.partition for head in page.items] == ["wf#a#1", "wf#a#0"]
            assert await home.store.integrity() == []

    async def test_a_setting_that_is_not_in_force_is_noticed(self, open_home) -> None:
        async with open_home() as home:
            home.store.runner.connection.pragma("synchronous", 1)
            home.store._reader.pragma("foreign_keys", 0)
            assert await home.store.integrity() == [
                "writing: synchronous is 1, not 2",
                "reading: foreign_keys is 0, not 1",
            ]

    async def test_settings_that_do_not_take_are_refused(self, path, monkeypatch) -> None:
        from holdfast.backends.sqlite import connection

        monkeypatch.setattr(connection, "WRITER_PRAGMAS", {**connection.WRITER_PRAGMAS, "synchronous": 77})
        with pytest.raises(StoreUnusable, match="synchronous is"):
            SqliteStore.open(str(path))


class TestPermissions:
    @pytest.mark.parametrize("mask", [0o000, 0o022, 0o077, 0o777])
    async def test_everything_is_for_this_user_alone_whatever_the_umask(self, tmp_path, mask) -> None:
        path = tmp_path / "new" / "folder" / "home.db"
        with umask(mask):
            home = await open_sqlite_home(path)
            await home.store.write(Put(Item("p")))
            await home.store.get("p")
        for name in ("home.db", "home.db-wal", "home.db-shm"):
            assert mode_of(path.parent / name) == 0o600, name
        assert isinstance(home.doorbell, SocketDoorbell)
        bells = home.doorbell._folder.path
        for folder in (path.parent, path.parent.parent, bells):
            assert mode_of(folder) == 0o700, folder
        assert [mode_of(bell) for bell in bells.iterdir()] == [0o600]
        await home.doorbell.close()
        await home.store.close()

    async def test_the_modes_of_what_is_there_are_kept(self, path, open_home) -> None:
        path.touch(mode=0o600)
        path.chmod(0o640)
        before = mode_of(path.parent)
        async with open_home():
            assert mode_of(path) == 0o640
            assert mode_of(path.parent) == before

    async def test_a_read_only_file(self) -> None:
        with unprivileged() as folder:
            await fill(folder / "home.db")
            (folder / "home.db").chmod(0o400)
            with pytest.raises(StoreUnusable, match="read-only|cannot be written"):
                SqliteStore.open(str(folder / "home.db"))

    async def test_a_read_only_folder(self) -> None:
        with unprivileged() as folder:
            await fill(folder / "home.db")
            folder.chmod(0o500)
            with pytest.raises(StoreUnusable, match="folder"):
                SqliteStore.open(str(folder / "home.db"))
            with pytest.raises(StoreUnusable, match="cannot be created"):
                SqliteStore.open(str(folder / "new.db"))
            with pytest.raises(StoreUnusable, match="cannot be created"):
                SqliteStore.open(str(folder / "new" / "new.db"))
            folder.chmod(0o700)

    async def test_a_file_that_may_not_be_read(self) -> None:
        with unprivileged() as folder:
            await fill(folder / "home.db")
            (folder / "home.db").chmod(0o000)
            with pytest.raises(StoreUnusable, match="cannot be written"):
                SqliteStore.open(str(folder / "home.db"))


class TestPaths:
    @pytest.mark.parametrize("name", ["", ":memory:"])
    async def test_a_store_is_a_file(self, name) -> None:
        with pytest.raises(InvalidInput, match="memory://"):
            await open_sqlite_home(name)

    @pytest.mark.parametrize("name", ["it's.db", "a b?mode=ro#x.db", "ünï.db", "%41.db"])
    async def test_any_name_is_only_a_name(self, tmp_path, name) -> None:
        home = await open_sqlite_home(tmp_path / name)
        await home.store.write(Put(Item("p")))
        assert (tmp_path / name).stat().st_size > 0
        assert home.url == f"sqlite:///{tmp_path / name}"
        await home.doorbell.close()
        await home.store.close()

    async def test_a_relative_name_that_looks_like_a_uri(self, tmp_path, monkeypatch) -> None:
        monkeypatch.chdir(tmp_path)
        store = SqliteStore.open("file:home.db?mode=memory")
        assert store.path == str(tmp_path / "file:home.db?mode=memory")
        await store.close()

    async def test_a_symbolic_link_leads_to_the_same_store(self, tmp_path, path) -> None:
        link = tmp_path / "link.db"
        link.symlink_to(path)
        path.touch()
        one, two = SqliteStore.open(str(path)), SqliteStore.open(str(link))
        assert one.path == two.path
        await one.write(Put(Item("p")))
        assert await two.get("p") == Item("p")
        await one.close()
        await two.close()


class TestVersions:
    async def test_a_file_from_a_newer_version(self, path) -> None:
        await fill(path)
        with apsw.Connection(str(path)) as plain:
            plain.pragma("user_version", SCHEMA_VERSION + 1)
        with pytest.raises(StoreUnusable, match="newer Holdfast .* Upgrade"):
            SqliteStore.open(str(path))

    @pytest.mark.parametrize("pragma", ["application_id", "user_version"])
    async def test_a_file_of_another_application(self, path, pragma) -> None:
        with apsw.Connection(str(path)) as plain:
            plain.execute("CREATE TABLE theirs (x)")
            plain.pragma(pragma, 7)
        with pytest.raises(StoreUnusable, match="another application"):
            SqliteStore.open(str(path))
        plain = apsw.Connection(str(path))
        assert plain.pragma(pragma) == 7
        plain.close()

    async def test_a_file_that_another_process_is_just_migrating(self, path, monkeypatch) -> None:
        from holdfast.backends.sqlite import connection

        plain = apsw.Connection(str(path))
        plain.pragma("journal_mode", "wal")
        plain.close()

        class Slow:
            """Lets another process open the file between one question and the next."""

            def __init__(self, database: Database) -> None:
                self.database = database

            def pragma(self, name: str, *value: int | str) -> Any:
                answer = self.database.pragma(name, *value)
                if name == "application_id" and answer == 0:
                    others.append(SqliteStore.open(str(path)))
                return answer

            def __getattr__(self, name: str) -> Any:
                return getattr(self.database, name)

        others: list[SqliteStore] = []
        connect = connection.connect
        slow = iter([True])
        monkeypatch.setattr(
            connection,
            "connect",
            lambda *args, **options: (
                Slow(connect(*args, **options)) if next(slow, False) else connect(*args, **options)
            ),
        )
        store = SqliteStore.open(str(path))
        (other,) = others
        await store.write(Put(Item("p")))
        assert await other.get("p") == Item("p")
        await store.close()
        await other.close()

    async def test_tables_under_our_names_that_are_not_ours(self, path) -> None:
        with apsw.Connection(str(path)) as plain:
            plain.execute("CREATE TABLE holdfast_heads (x)")
        with pytest.raises(StoreUnusable, match="another application"):
            SqliteStore.open(str(path))

    async def test_the_users_own_file_is_welcome(self, path, open_home) -> None:
        with apsw.Connection(str(path)) as plain:
            plain.execute("CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1)")
        async with open_home() as home:
            await home.store.write(Put(Item("p")))
        async with open_home() as home:
            assert await home.store.get("p") == Item("p")
            assert home.store._reader.execute("SELECT * FROM theirs").fetchall() == [(1,)]

    async def test_a_migration_that_fails_leaves_nothing_behind(self, path, monkeypatch) -> None:
        from holdfast.backends.sqlite import connection

        broken = (*connection.MIGRATIONS[0], "CREATE TABLE holdfast_heads (again)")
        monkeypatch.setattr(connection, "MIGRATIONS", (broken,))
        with pytest.raises(StoreUnusable, match="already exists"):
            SqliteStore.open(str(path))
        monkeypatch.undo()
        await fill(path)

    async def test_a_sqlite_that_can_corrupt_the_file(self, path, monkeypatch) -> None:
        monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: "3.51.2")
        with pytest.raises(StoreUnusable, match=r"3\.51\.2.*3\.51\.3 or newer.*apsw"):
            SqliteStore.open(str(path))
        assert not path.exists()


class TestDamage:
    async def test_what_is_no_database(self, path) -> None:
        path.write_bytes(b"Dear diary, " * 1000)
        with pytest.raises(StoreUnusable, match="not a SQLite database"):
            SqliteStore.open(str(path))
        assert path.read_bytes().startswith(b"Dear diary")

    async def test_a_damaged_schema(self, path) -> None:
        await fill(path)
        damage(path, lambda data: data[:100] + bytes(range(256)) * 15 + data[3940:])
        with pytest.raises(StoreUnusable, match="damaged"):
            SqliteStore.open(str(path))

    async def test_damage_further_in_is_found_by_looking(self, path) -> None:
        await fill(path)
        damage(path, lambda data: data[: len(data) // 2].ljust(len(data), b"\x2a"))  # the schema is in front
        store = SqliteStore.open(str(path))
        found = await store.integrity()
        assert any("the file is damaged" in line for line in found)
        with pytest.raises(StoreUnusable, match="damaged"):
            for number in range(200):
                await store.get(f"p{number}")
        with pytest.raises(StoreUnusable, match="damaged"):
            for number in range(200):
                await store.write(Put(Item(f"p{number}", body=bytes(1000))))
        await store.close()

    async def test_a_row_that_lost_its_head(self, path, open_home) -> None:
        await fill(path)
        with apsw.Connection(str(path)) as plain:
            plain.execute("DELETE FROM holdfast_heads WHERE number = 7")
        async with open_home() as home:
            assert await home.store.integrity() == [
                "row 7 of holdfast_entries refers to a missing row of holdfast_heads"
            ]


def damage(path: Path, change: Callable[[bytes], bytes]) -> None:
    path.write_bytes(change(path.read_bytes()))


class TestReplacedFile:
    @pytest.mark.parametrize("way", ["deleted", "moved", "replaced"])
    async def test_nothing_is_acknowledged_any_more(self, path, open_home, way) -> None:
        async with open_home() as home:
            await home.store.write(Put(Item("p")))
            if way == "deleted":
                path.unlink()
            elif way == "moved":
                path.rename(path.with_name("moved.db"))
            else:
                other = path.with_name("other.db")
                other.write_bytes(path.read_bytes())
                other.rename(path)
            for write in (home.store.write(Put(Item("q"))), home.store.purge(0, 1), home.store.due(0)):
                with pytest.raises(StoreUnusable, match=r"home\.db was deleted, moved or replaced.*restore"):
                    await write

    async def test_moved_and_moved_back_it_goes_on(self, path, open_home) -> None:
        async with open_home() as home:
            path.rename(path.with_name("moved.db"))
            with pytest.raises(StoreUnusable):
                await home.store.write(Put(Item("q")))
            path.with_name("moved.db").rename(path)
            await home.store.write(Put(Item("r")))
            assert (await home.store.due(0)).items == ()

    @pytest.mark.parametrize("way", ["deleted", "replaced"])
    async def test_nothing_is_acknowledged_without_the_log(self, path, open_home, way) -> None:
        log = Path(f"{path}-wal")
        async with open_home() as home:
            await home.store.write(Put(Item("p")))
            if way == "deleted":
                log.unlink()
            else:
                other = path.with_name("other")
                other.write_bytes(log.read_bytes())
                other.rename(log)
            for name in ("q", "r"):
                with pytest.raises(StoreUnusable, match=r"home\.db-wal was deleted, moved or replaced.*restore"):
                    await home.store.write(Put(Item(name)))
            # The first went where nobody would find it; nothing went there after it.
            assert home.store.runner.commits == 1
            assert await home.store.get("r") is None

    async def test_nothing_is_written_after_a_sweep_that_found_the_log_gone(self, path, open_home) -> None:
        async with open_home() as home:
            Path(f"{path}-wal").unlink()
            with pytest.raises(StoreUnusable):
                await home.store.due(0)
            with pytest.raises(StoreUnusable):
                await home.store.write(Put(Item("q")))
            assert await home.store.get("q") is None

    async def test_the_log_keeps_its_name_through_checkpoints_and_other_connections(self, path, open_home) -> None:
        async with open_home() as home:
            await home.store.write(Put(Item("p")))
            for mode in ("PASSIVE", "FULL", "RESTART", "TRUNCATE"):
                home.store.runner.connection.pragma(f"wal_checkpoint({mode})")
                await home.store.write(Put(Item(f"q{mode}")))
                async with open_home() as other:
                    assert await other.store.get(f"q{mode}") is not None
                    await other.store.write(Put(Item(f"r{mode}")))
                with apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY) as plain:
                    assert plain.execute("SELECT count(*) FROM holdfast_heads").fetchall() != [(0,)]
                plain.close()
                await home.store.write(Put(Item(f"s{mode}")))
                await home.store.due(0)
        async with open_home() as home:  # the log is a new one now
            await home.store.write(Put(Item("last")))

    @pytest.mark.parametrize("suffix", ["-wal", "-shm"])
    async def test_a_sweep_finds_the_log_gone(self, path, open_home, suffix) -> None:
        async with open_home() as home:
            await home.store.write(Put(Item("p")))
            await home.store.due(0)
            Path(f"{path}{suffix}").unlink()
            with pytest.raises(StoreUnusable, match=f"home.db{suffix} was deleted"):
                await home.store.due(0)


class TestFullDisk:
    async def test_a_write_that_does_not_fit_fails_alone_and_later_ones_work_again(self, open_home) -> None:
        async with open_home() as home:
            store: Any = home.store
            await store.write(Put(Item("p", revision=1)), Put(Item("p", "j/1")))
            connection = store.runner.connection
            pages = connection.pragma("page_count")
            connection.pragma("max_page_count", pages)
            big = bytes(100_000)
            with pytest.raises(StoreUnavailable, match="full"):
                await store.write(Put(Item("big", body=big)))
            with pytest.raises(StoreUnavailable, match="full"):
                await store.write(Put(Item("p", revision=2)), Put(Item("p", "j/2", body=big)))
            assert await store.get("p") == Item("p", revision=1)
            assert await store.get("big") is None
            assert await store.get("p", "j/2") is None
            connection.pragma("max_page_count", pages + 1000)
            await store.write(Put(Item("p", revision=2)), Put(Item("p", "j/2", body=big)))
            assert await store.get("p", "j/2") == Item("p", "j/2", body=big)
            assert await store.integrity() == []

    async def test_a_large_write_takes_no_small_ones_with_it(self, open_home, caplog) -> None:
        async with open_home() as home:
            store: Any = home.store
            await store.write(Put(Item("p", revision=1)))
            connection = store.runner.connection
            pages = connection.pragma("page_count")
            connection.pragma("max_page_count", pages)
            small = [store.write(Update(partition="p", when=EXISTS, add_revision=1)) for _ in range(5)]
            large = store.write(Put(Item("big", body=bytes(100_000))))
            small += [store.write(Update(partition="p", when=EXISTS, add_revision=1)) for _ in range(5)]
            with pytest.raises(StoreUnavailable, match="full"):
                await large
            await asyncio.gather(*small)
            assert (await store.get("p")).revision == 11
            connection.pragma("max_page_count", pages + 1000)
            await store.write(Put(Item("big", body=bytes(100_000))))
        told = [record.getMessage() for record in caplog.records if record.name == "holdfast"]
        assert len(told) == 2
        assert "is full" in told[0]
        assert "has room again" in told[1]

    async def test_a_lock_that_comes_between_costs_no_write_twice(self, path, open_home) -> None:
        async with open_home() as home:
            store: Any = home.store
            await store.write(Put(Item("p", revision=1)))
            connection = store.runner.connection
            pages = connection.pragma("page_count")
            connection.pragma("max_page_count", pages)
            other = apsw.Connection(str(path))

            def lock(_runner: object) -> None:
                other.execute("BEGIN IMMEDIATE")

            attempt, attempts = store.runner._run_once, 0

            def locked_after_the_first_half(*arguments: Any) -> Any:
                nonlocal attempts
                attempts += 1
                if attempts == 3:
                    lock(None)
                return attempt(*arguments)

            store.runner._run_once = locked_after_the_first_half
            small = store.write(Update(partition="p", when=EXISTS, add_revision=1))
            large = store.write(Put(Item("big", body=bytes(100_000))))
            await small
            with pytest.raises(StoreUnavailable, match="locked"):
                await large
            other.execute("ROLLBACK")
            other.close()
            assert (await store.get("p")).revision == 2

    async def test_blobs_and_numbered_writes_that_do_not_fit_say_so_in_the_same_words(self, open_home) -> None:
        async with open_home() as home:
            store: Any = home.store
            blobs = SqliteBlobs(store)
            await store.write(Put(Item("p", revision=1)))
            connection = store.runner.connection
            pages = connection.pragma("page_count")
            connection.pragma("max_page_count", pages)
            big = bytes(100_000)
            small = store.write(Put(Item("p", revision=2)))  # of the same batch, and it fits
            with pytest.raises(StoreUnavailable, match="full"):
                await blobs.put("0" * 64, big, 0)
            await small
            with pytest.raises(StoreUnavailable, match="full"):
                await store.write_after("p", "@", lambda _head: [Put(Item("p", "j/1", body=big))])
            connection.pragma("max_page_count", pages + 1000)
            await blobs.put("0" * 64, big, 0)
            assert [each async for each in blobs.read("0" * 64)] == [big]
            assert await store.integrity() == []
