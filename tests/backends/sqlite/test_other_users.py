"""A database in a folder where other users may put things."""

from __future__ import annotations

import os
import subprocess
import sys
from asyncio import Runner
from pathlib import Path

import apsw
import pytest
from tests.strangers import given_away

from holdfast.backends.sqlite import open_sqlite_home
from holdfast.backends.sqlite.bell_folder import beside
from holdfast.errors import StoreUnusable
from holdfast.items import Item, Put
from holdfast.ports import Home


async def made(path: Path) -> None:
    home = await open_sqlite_home(path)
    await home.store.write(Put(Item("p", body=b"mine")))
    await home.doorbell.close()
    await home.store.close()


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm", "-journal", "-bells"])
async def test_what_belongs_to_another_user_is_refused_by_name(tmp_path, monkeypatch, suffix):
    path = tmp_path / "shop.db"
    await made(path)
    theirs = Path(f"{path}{suffix}")
    if not theirs.exists():
        theirs.touch(mode=0o600)
    given_away(theirs, monkeypatch)
    with pytest.raises(StoreUnusable, match="belongs to the user") as raised:
        await open_sqlite_home(path)
    assert str(path) in str(raised.value)


@pytest.mark.parametrize("suffix", ["", "-wal", "-bells"])
async def test_what_another_user_may_write_is_refused_by_name(tmp_path, suffix):
    path = tmp_path / "shop.db"
    await made(path)
    theirs = Path(f"{path}{suffix}")
    if not theirs.exists():
        theirs.touch()
    theirs.chmod(theirs.stat().st_mode | 0o022)
    with pytest.raises(StoreUnusable, match="written by other users") as raised:
        await open_sqlite_home(path)
    theirs.chmod(theirs.stat().st_mode & ~0o022)
    await made(path)
    assert f"chmod go-w {theirs}" in str(raised.value)


async def test_a_link_that_another_user_has_put_there_is_not_followed(tmp_path, monkeypatch):
    """A file of the victim's own, of which the victim makes a database for the one who has put the link there."""
    victims = tmp_path / "precious.db"
    with_tables = apsw.Connection(str(victims))
    with_tables.execute("CREATE TABLE precious (x)")
    with_tables.close()
    before = victims.read_bytes()
    link = tmp_path / "shop.db"
    link.symlink_to(victims)
    given_away(link, monkeypatch)
    with pytest.raises(StoreUnusable, match="is a symbolic link of the user"):
        await open_sqlite_home(link)
    assert victims.read_bytes() == before


async def test_a_link_to_nothing_makes_no_file_where_it_leads(tmp_path, monkeypatch):
    link = tmp_path / "shop.db"
    link.symlink_to(tmp_path / "made for somebody else")
    given_away(link, monkeypatch)
    with pytest.raises(StoreUnusable, match="symbolic link"):
        await open_sqlite_home(link)
    assert [each.name for each in tmp_path.iterdir()] == ["shop.db"]


async def test_a_database_that_is_put_there_while_it_is_opened_is_refused(tmp_path, monkeypatch):
    from holdfast.backends.sqlite import connection

    path = tmp_path / "shop.db"
    await made(path)
    connect = connection._connect

    def too_late(real_path: str):
        opened = connect(real_path)
        given_away(path, monkeypatch)
        return opened

    monkeypatch.setattr(connection, "_connect", too_late)
    with pytest.raises(StoreUnusable, match="belongs to the user"):
        await open_sqlite_home(path)


LOOKS_FOR = """
import asyncio, sys
from holdfast.backends.sqlite import open_sqlite_home

async def main():
    home = await open_sqlite_home(sys.argv[1])
    print(home.doorbell.alive(sys.argv[2]), flush=True)
    await home.doorbell.close()
    await home.store.close()

asyncio.run(main())
"""


@pytest.mark.process
@pytest.mark.parametrize("folder", ["there", "gone"])
def test_a_process_with_another_folder_for_temporary_files_takes_nobody_for_dead(tmp_path, folder):
    path, elsewhere = tmp_path / "shop.db", tmp_path / "elsewhere"
    elsewhere.mkdir()
    with Runner() as runner:
        home = runner.run(open_here(path))
        if folder == "gone":
            for each in beside(str(path)).iterdir():
                each.unlink()
            beside(str(path)).rmdir()
        environment = {**os.environ, "TMPDIR": str(elsewhere)}
        command = [sys.executable, "-c", LOOKS_FOR, str(path), home.owner]
        said = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
        assert said.stdout == "True\n"
        runner.run(home.doorbell.close())
        runner.run(home.store.close())
        said = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
        assert said.stdout == "False\n", "the kernel says so, wherever its temporary files are"


async def open_here(path: Path) -> Home:
    return await open_sqlite_home(path)
