"""Files that are made and read where others may have put something."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast import files
from holdfast.errors import ConfigurationError, InvalidInput
from holdfast.files import give_name, new_file, open_file
from holdfast.moving.reading import Filed
from holdfast.token_file import token_file, token_of_database


def pipe(path: Path) -> None:
    """Who opens it to read waits for somebody who writes."""
    os.mkfifo(path, 0o600)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def listening(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(path.name)


ODD: dict[str, Callable[[Path], None]] = {"pipe": pipe, "device": device, "folder": Path.mkdir, "socket": listening}


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the name of a socket must be short


@pytest.mark.parametrize("name", ODD)
def test_what_is_no_regular_file_is_refused_at_once(tmp_path, name):
    ODD[name](tmp_path / "odd")
    with pytest.raises(OSError, match=r"not a regular file|symbolic links|No such device"):
        open_file(tmp_path / "odd")


@pytest.mark.parametrize("name", ODD)
def test_a_token_file_that_is_none_is_refused_by_name(tmp_path, name):
    place = token_file(str(tmp_path / "shop.db"))
    ODD[name](place)
    with pytest.raises(ConfigurationError, match=str(place)):
        token_of_database(str(tmp_path / "shop.db"))


@pytest.mark.parametrize("name", ODD)
def test_an_export_that_is_no_file_is_refused_by_name(tmp_path, name):
    ODD[name](tmp_path / "odd")
    with pytest.raises(InvalidInput, match=r"odd cannot be read"):
        list(Filed(tmp_path / "odd").records())


def test_a_file_is_read(tmp_path):
    (tmp_path / "a").write_bytes(b"1")
    with open_file(tmp_path / "a") as file:
        assert file.read() == b"1"


def test_a_new_file_is_its_owners_alone_and_takes_nobodys_place(tmp_path):
    before = os.umask(0)
    try:
        with new_file(tmp_path / "a") as file:
            file.write(b"1")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o600
    (tmp_path / "link").symlink_to(tmp_path / "victim")
    for name in ("a", "link"):
        with pytest.raises(FileExistsError):
            new_file(tmp_path / name)
    assert not (tmp_path / "victim").exists()


@pytest.mark.parametrize("has_links", [True, False])
def test_a_name_is_given_and_never_taken_away(tmp_path, monkeypatch, has_links):
    def none(*_: object, **__: object) -> None:
        raise PermissionError

    if not has_links:
        monkeypatch.setattr(files.os, "link", none)
    for name, target in (("first", "a"), ("second", "b")):
        (tmp_path / name).write_text(name)
        give_name(tmp_path / name, tmp_path / target)
    (tmp_path / "third").write_text("third")
    (tmp_path / "dangling").symlink_to("nowhere")
    for target in ("a", "dangling"):
        with pytest.raises(FileExistsError):
            give_name(tmp_path / "third", tmp_path / target)
    assert (tmp_path / "a").read_text() == "first"


def test_two_who_make_a_token_at_once_have_one(tmp_path, monkeypatch):
    database = str(tmp_path / "shop.db")
    first = token_of_database(database)
    made: list[str] = []

    def too_late(part: Path, path: Path) -> None:
        made.append(part.read_text())
        raise FileExistsError

    token_file(database).rename(tmp_path / "aside")

    def meanwhile(part: Path, path: Path) -> None:
        (tmp_path / "aside").rename(path)
        too_late(part, path)

    monkeypatch.setattr("holdfast.token_file.give_name", meanwhile)
    assert token_of_database(database) == first
    assert made and first not in made[0]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["shop.db-token"]
