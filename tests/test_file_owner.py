"""Whose files are believed, and the advice about those that are not."""

from __future__ import annotations

import os

import pytest
from tests.strangers import STRANGER, given_away, sticky_folder

from holdfast.file_owner import complaint_of, complaint_of_links


def test_ones_own_file_and_one_that_is_not_there_are_fine(tmp_path):
    (tmp_path / "mine").touch(mode=0o600)
    assert complaint_of(tmp_path / "mine") == complaint_of(tmp_path / "nothing") == ""


def test_what_root_owns_is_believed():
    assert complaint_of("/etc") == ""


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_may_write_is_told_with_what_to_do(tmp_path, mode):
    (tmp_path / "mine").touch()
    (tmp_path / "mine").chmod(mode)
    complaint = complaint_of(tmp_path / "mine")
    assert f"{tmp_path / 'mine'} can be written by other users (mode {mode:04o})" in complaint
    assert f"chmod go-w {tmp_path / 'mine'}" in complaint


def test_a_file_of_another_user_is_told_by_name(tmp_path, monkeypatch):
    (tmp_path / "theirs").touch(mode=0o600)
    given_away(tmp_path / "theirs", monkeypatch)
    complaint = complaint_of(tmp_path / "theirs")
    assert str(tmp_path / "theirs") in complaint
    assert str(STRANGER) in complaint


def test_the_advice_works_in_a_sticky_folder(monkeypatch):
    """There a file of another user cannot be removed, so nobody is told to remove it."""
    with sticky_folder(monkeypatch) as folder:
        complaint = complaint_of(folder / "theirs")
        if os.getuid() == 0:  # the kernel takes us for somebody else, too
            with pytest.raises(PermissionError):
                (folder / "theirs").unlink()
    assert f"can remove it from {folder}: choose a path in a folder of your own" in complaint
    assert "emove it, or" not in complaint


def test_in_a_folder_of_ones_own_it_can_be_removed(tmp_path, monkeypatch):
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    assert "Remove it" in complaint_of(tmp_path / "link")
    given_away(tmp_path / "link", monkeypatch)
    assert "symbolic link" in complaint_of(tmp_path / "link")


@pytest.mark.parametrize("planted", ["the file", "its folder", "behind another link"])
def test_a_link_that_another_user_has_put_on_the_way_is_told(tmp_path, monkeypatch, planted):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "shop.db").touch()
    match planted:
        case "the file":
            link = path = tmp_path / "link.db"
            link.symlink_to(tmp_path / "mine" / "shop.db")
        case "its folder":
            link = tmp_path / "link"
            link.symlink_to("mine")
            path = link / "shop.db"
        case _:
            link = tmp_path / "second"
            link.symlink_to("mine/shop.db")
            path = tmp_path / "first"
            path.symlink_to("second")
    assert complaint_of_links(path) == ""
    given_away(link, monkeypatch)
    # Where this process only says that it is another user, all are strangers' files, the first link too.
    assert any(f"{each} is a symbolic link of the user" in complaint_of_links(path) for each in (link, path))


def test_links_that_go_round_are_told(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert "too many" in complaint_of_links(tmp_path / "a")
