"""``holdfast backup`` and ``holdfast restore``."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from holdfast.backends.sqlite import backup as sqlite
from holdfast.backends.sqlite.connection import open_connections
from holdfast.backends.sqlite.schema import APPLICATION_ID, MIGRATIONS, SCHEMA_VERSION
from holdfast.errors import InvalidState, StoreUnavailable, StoreUnusable

MOST_COMMITS = 20
MANY_BYTES = 12_000_000
"""More than SQLite keeps in memory: a transaction of so many is written in part before it commits."""


@pytest.fixture
def started(shop):
    shop.json("start", "approval", "7", "--id", "a")
    return shop


def ids_of(shop, home):
    return [each["id"] for each in shop.json("ls", "--home", home)["executions"]]


def parts(shop):
    return [each.name for each in shop.folder.iterdir() if ".part" in each.name]


def test_a_home_is_copied_while_a_worker_has_it_open_and_restored(started, worker):
    answer = started.json("backup", "copy.db")
    assert (answer["home"], answer["file"], answer["blobs"]) == ("sqlite:///shop.db", "copy.db", 0)
    assert answer["items"] >= 1
    assert not parts(started)
    assert not started.path("copy.db-wal").exists()
    assert ids_of(started, "sqlite:///copy.db") == ["a"]


@pytest.mark.parametrize("end", ["-wal", "-shm", "-journal"])
def test_a_file_of_the_home_itself_is_not_replaced(started, worker, end):
    before = started.path("shop.db-wal").stat().st_ino
    assert started.refusal("backup", f"shop.db{end}", "--force")["code"] in {"invalid_input", "invalid_state"}
    assert started.path("shop.db-wal").stat().st_ino == before
    assert not parts(started)


@pytest.mark.parametrize("mask", [0, 0o777])
def test_only_its_owner_may_read_it_whatever_the_umask(started, mask):
    before = os.umask(mask)
    try:
        started.json("backup", "copy.db")
    finally:
        os.umask(before)
    assert stat.S_IMODE(started.path("copy.db").stat().st_mode) == 0o600


@pytest.mark.parametrize("version", range(1, SCHEMA_VERSION + 1))
def test_a_file_of_an_older_release_is_copied_as_it_is(tmp_path, version):
    old = tmp_path / "old.db"
    with closing(apsw.Connection(str(old))) as made:
        for statement in (each for migration in MIGRATIONS[:version] for each in migration):
            made.execute(statement)
        made.execute("INSERT INTO holdfast_heads (partition, revision, epoch, body) VALUES ('wf#a#1', 1, 1, x'')")
        made.pragma("application_id", APPLICATION_ID)
        made.pragma("user_version", version)
    copied = sqlite.back_up(str(old), tmp_path / "copy.db")
    assert (copied.items, copied.blobs, copied.schema_version) == (1, 0, version)
    restored, _ = sqlite.restore(tmp_path / "copy.db", str(old))
    assert restored == copied


def test_the_copy_is_of_one_moment_whatever_is_committed_meanwhile(started):
    real, writer, reader = open_connections(started.path("shop.db"))
    commits = []

    def tell(_done, _of):
        if len(commits) < MOST_COMMITS:  # a copy that begins again at each commit would never end
            commits.append(writer.execute("INSERT INTO mine VALUES (zeroblob(5000))"))

    with closing(writer), closing(reader):
        writer.execute("CREATE TABLE mine (x)")
        writer.execute("INSERT INTO mine VALUES (zeroblob(20000000))")
        sqlite.back_up(real, started.path("copy.db"), tell=tell)
    assert len(commits) > 2
    with closing(apsw.Connection(str(started.path("copy.db")))) as copy:
        assert copy.execute("SELECT count(*) FROM mine").fetchall() == [(1,)]


def test_nothing_is_overwritten_without_force(started):
    started.path("copy.db").write_text("mine")
    assert "--force" in started.refusal("backup", "copy.db")["message"]
    assert started.path("copy.db").read_text() == "mine"
    started.json("backup", "copy.db", "--force")
    assert ids_of(started, "sqlite:///copy.db") == ["a"]


def test_force_replaces_a_link_and_not_where_it_leads(started):
    started.path("other").write_text("mine")
    started.path("copy.db").symlink_to("other")
    assert "exists already" in started.refusal("backup", "copy.db")["message"]
    started.json("backup", "copy.db", "--force")
    assert started.path("other").read_text() == "mine"
    assert not started.path("copy.db").is_symlink()


@pytest.mark.parametrize("link", [os.link, os.symlink])
def test_the_home_is_never_its_own_backup(started, link):
    link("shop.db", "copy.db")
    assert "the home itself" in started.refusal("backup", "copy.db", "--force")["message"]
    assert "the home itself" in started.refusal("backup", "shop.db", "--force")["message"]


def test_a_file_with_a_log_next_to_it_is_not_replaced(started):
    started.path("copy.db-wal").write_bytes(b"of another database")
    assert "copy.db-wal is there" in started.refusal("backup", "copy.db", "--force")["message"]


@pytest.mark.parametrize(
    ("name", "said"), [("no/copy.db", "No such file"), (".", "is a folder"), ("x" * 250, "too long"), ("\udcff", "")]
)
def test_a_name_that_cannot_be_written_is_said(started, name, said):
    assert said in started.refusal("backup", name, "--force")["message"]
    assert not parts(started)


@pytest.mark.parametrize("name", ["a b?mode=ro&x=1%41#.db", "file:x.db", "ü\n.db"])
def test_odd_names_are_only_names(started, name):
    started.json("backup", name)
    assert started.path(name).exists()
    started.json("restore", f"./{name}")


def test_no_home_no_backup(shop):
    assert "no database" in shop.refusal("backup", "copy.db")["message"]
    assert "holdfast export" in shop.refusal("backup", "copy.db", "--home", "aws://shop?region=eu-west-1")["message"]
    assert "memory" in shop.refusal("backup", "copy.db", "--home", "memory://")["message"]
    shop.path("shop.db").write_bytes(b"")
    assert "no home" in shop.refusal("backup", "copy.db")["message"]
    shop.path("shop.db").write_bytes(b"no database at all" * 100)
    assert "not a SQLite database" in shop.refusal("backup", "copy.db")["message"]
    assert not shop.path("copy.db").exists()
    assert not parts(shop)


def test_a_full_disk_leaves_nothing_behind(started, monkeypatch):
    def full(*_):
        raise apsw.FullError("database or disk is full")

    monkeypatch.setattr(sqlite, "_copy", lambda source, to, path, tell: _raise_in(sqlite, path, full))
    assert "is full" in started.refusal("backup", "copy.db")["message"]
    assert not parts(started)
    assert not started.path("copy.db").exists()


def _raise_in(module, path, function):
    with module._reported(path):
        function()


def test_a_home_that_vanishes_meanwhile_is_said(started):
    with pytest.raises(StoreUnusable, match="deleted, moved or replaced"):
        sqlite.back_up("shop.db", started.path("copy.db"), tell=lambda _done, _of: _move_once(started))


def _move_once(shop):
    if shop.path("shop.db").exists():
        shop.path("shop.db").rename(shop.path("moved.db"))


def test_a_killed_backup_leaves_a_part_and_no_backup(started):
    code = (
        "import os, signal\n"
        "from pathlib import Path\n"
        "from holdfast.backends.sqlite.backup import back_up\n"
        "back_up('shop.db', Path('copy.db'), tell=lambda done, of: os.kill(os.getpid(), signal.SIGKILL))\n"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=started.folder, check=False).returncode == -9
    assert not started.path("copy.db").exists()
    started.json("backup", "copy.db")
    assert ids_of(started, "sqlite:///shop.db") == ["a"]


def test_a_restore_brings_back_what_was_and_keeps_what_is(started):
    started.json("backup", "copy.db")
    started.json("start", "approval", "8", "--id", "b")
    answer = started.json("restore", "copy.db")
    assert ids_of(started, "sqlite:///shop.db") == ["a"]
    assert sorted(ids_of(started, f"sqlite:///{answer['kept']}")) == ["a", "b"]
    assert started.json("audit")["changes"][0]["action"] == "restore"


def test_a_restore_keeps_the_mode_of_the_home_and_lets_only_its_owner_read_what_was_there(started):
    started.json("backup", "copy.db")
    started.path("shop.db").chmod(0o640)
    before = os.umask(0)
    try:
        kept = started.json("restore", "copy.db")["kept"]
    finally:
        os.umask(before)
    assert stat.S_IMODE(started.path("shop.db").stat().st_mode) == 0o640
    assert stat.S_IMODE(started.path(kept).stat().st_mode) == 0o600


def test_a_restore_where_nothing_is(started):
    started.json("backup", "copy.db")
    assert started.json("restore", "copy.db", "--home", "sqlite:///new.db")["kept"] is None
    assert ids_of(started, "sqlite:///new.db") == ["a"]


def test_a_home_in_use_is_not_restored(started, worker):
    started.json("backup", "copy.db")
    assert "is open in another process" in started.refusal("restore", "copy.db")["message"]
    assert ids_of(started, "sqlite:///shop.db") == ["a"]


def test_what_is_no_backup_is_not_restored(started):
    assert "the home itself" in started.refusal("restore", "shop.db")["message"]
    assert "no file" in started.refusal("restore", "nothing.db")["message"]
    started.path("text").write_text("hello " * 1000)
    assert "not a SQLite database" in started.refusal("restore", "text")["message"]
    started.json("backup", "copy.db")
    damaged = bytearray(started.path("copy.db").read_bytes())
    damaged[4096 * 2 : 4096 * 4] = b"\xff" * 8192
    started.path("copy.db").write_bytes(damaged)
    assert "damaged" in started.refusal("restore", "copy.db")["message"]
    assert ids_of(started, "sqlite:///shop.db") == ["a"]


@pytest.mark.parametrize("left", [-1, 1])
def test_a_killed_restore_leaves_the_home_as_it_was(started, left):
    started.json("backup", "copy.db")
    started.json("start", "approval", "8", "--id", "b")
    code = (
        "import os, signal\n"
        "from pathlib import Path\n"
        "from holdfast.backends.sqlite import backup\n"
        "backup.PAGES_AT_ONCE = 1\n"
        f"tell = lambda done, of: os.kill(os.getpid(), signal.SIGKILL) if of - done == {left} or {left} < 0 else 0\n"
        "backup.restore(Path('copy.db'), 'shop.db', tell=tell)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=started.folder, check=False).returncode == -9
    assert sorted(ids_of(started, "sqlite:///shop.db")) == ["a", "b"]


def test_a_copy_that_differs_is_not_kept(started, monkeypatch):
    monkeypatch.setattr(sqlite, "_counted", _different())
    with pytest.raises((StoreUnusable, StoreUnavailable), match="holds"):
        sqlite.back_up("shop.db", started.path("copy.db"))
    assert not started.path("copy.db").exists()


def _different():
    answers = iter([(1, 0), (2, 0)])
    return lambda _connection: next(answers)


def test_a_file_that_appears_while_it_is_copied_is_not_replaced(started):
    def appears(_done, _of):
        started.path("copy.db").write_text("mine")

    with pytest.raises(InvalidState, match="exists already"):
        sqlite.back_up("shop.db", started.path("copy.db"), tell=appears)
    assert started.path("copy.db").read_text() == "mine"
    assert not parts(started)


def test_a_backup_has_its_name_when_it_is_on_the_disk_and_its_name_is_on_the_disk_too(started, monkeypatch):
    """A power cut before would leave an empty file, or none, under a name that was reported."""
    synced, sync = [], os.fsync

    def noting(descriptor):
        synced.append((Path(f"/proc/self/fd/{descriptor}").readlink().suffix, started.path("copy.db").exists()))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", noting)
    sqlite.back_up("shop.db", started.path("copy.db"))
    assert synced == [(".part", False), (started.folder.suffix, True)]


def test_a_home_in_use_is_not_taken_for_a_backup(started):
    started.json("backup", "copy.db")
    started.path("copy.db-wal").write_bytes(b"")
    assert "it is a home in use, and no backup" in started.refusal("restore", "copy.db")["message"]


def test_damage_that_no_read_meets_is_found(started):
    """An index without its rows: SQLite reads the table and does not complain."""
    started.json("backup", "copy.db")
    with closing(apsw.Connection(str(started.path("copy.db")))) as copy:
        copy.pragma("journal_mode", "delete")
        copy.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 0)
        copy.pragma("writable_schema", 1)
        copy.execute(
            "UPDATE sqlite_schema SET sql = replace(sql, 'NOT NULL', 'NULL') WHERE name = 'holdfast_heads_expired'"
        )
        assert copy.changes() == 1
    assert "damaged" in started.refusal("restore", "copy.db")["message"]


def test_a_restore_that_is_killed_when_half_of_it_is_in_the_file_is_undone(started):
    def content():
        with closing(apsw.Connection(str(started.path("shop.db")))) as home:
            assert home.pragma("quick_check") == "ok"
            return home.execute("SELECT sum(length(x)), min(substr(x, 1, 1)) FROM mine").fetchall()

    with closing(apsw.Connection(str(started.path("shop.db")))) as home:
        home.execute("CREATE TABLE mine (x)")
        home.execute("INSERT INTO mine VALUES (?)", (b"a" * MANY_BYTES,))
        started.json("backup", "copy.db")
        home.execute("UPDATE mine SET x = ?", (b"b" * MANY_BYTES,))
    before = content()
    code = (
        "import os, signal\n"
        "from pathlib import Path\n"
        "from holdfast.backends.sqlite import backup\n"
        "backup.PAGES_AT_ONCE = 100\n"
        "tell = lambda done, of: os.kill(os.getpid(), signal.SIGKILL) if of - done <= 100 else 0\n"
        "backup.restore(Path('copy.db'), 'shop.db', tell=tell)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=started.folder, check=False).returncode == -9
    assert content() == before
