"""Files that only the user of this process may change: a file that another user has created, or may write, is not
trusted.

On a machine with several users, a folder that all may write to, such as the one for temporary files, may have a file,
or a link, of one user in the place where another user's is about to be.
"""

from __future__ import annotations

import os
import pwd
import stat
from pathlib import Path
from typing import Final

ROOT_USER: Final = 0
"""The superuser may change everything anyway."""

MOST_LINKS: Final = 40
"""The kernel follows no more than this many (path_resolution(7))."""


def complaint_of(path: str | os.PathLike[str], found: os.stat_result | None = None) -> str:
    """What is wrong with a file or folder of this process's user, and the remedy: another user owns it, may write to
    it, or may have put a link there. Empty if it is all right, or missing. ``found`` is the opened file.
    """
    place = Path(path)
    try:
        there = place.lstat() if found is None else found
    except OSError:
        return ""
    if stat.S_ISLNK(there.st_mode):
        return f"{place} is a symbolic link, and must not be one. {_instead_of(place, there)}"
    if there.st_uid not in {os.geteuid(), ROOT_USER}:
        return (
            f"{place} belongs to the user {_name(there.st_uid)}, who could change it, and this process runs as "
            f"{_name(os.geteuid())}. {_instead_of(place, there)}"
        )
    if there.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return (
            f"{place} can be written by other users (mode {stat.S_IMODE(there.st_mode):04o}). If they have not: "
            f"chmod go-w {place}"
        )
    return ""


def complaint_of_links(path: str | os.PathLike[str]) -> str:
    """What is wrong with the symbolic links on the path of a file: another user owns one, and so chooses what is
    opened. Empty if all are right.
    """
    left = [Path(os.path.abspath(path))]  # noqa: PTH100 - `resolve` would follow the links
    for _ in range(MOST_LINKS):
        if not left:
            return ""
        place = left.pop()
        for each in (place, *place.parents):
            if not each.is_symlink():
                continue
            there = each.lstat()
            if there.st_uid not in {os.geteuid(), ROOT_USER}:
                return (
                    f"{each} is a symbolic link of the user {_name(there.st_uid)}, who could make it lead anywhere. "
                    f"{_instead_of(each, there)}"
                )
            left.append(each.parent / each.readlink())
    return f"there are too many symbolic links on the way to {path}"


def _instead_of(place: Path, there: os.stat_result) -> str:
    """The remedy for a file that is in the way."""
    owner = _name(there.st_uid)
    elsewhere = "choose a path in a folder of your own, for example ~/holdfast"
    if not _may_remove(place, there):
        return f"Only {owner} can remove it from {place.parent}: {elsewhere}"
    if there.st_uid == os.geteuid():
        return f"Remove it, or {elsewhere}"
    return f"If it is not yours, remove it, or {elsewhere}; if it is, run this as {owner}"


def _may_remove(place: Path, there: os.stat_result) -> bool:
    """In a sticky folder only the owners of a file, and of the folder, may remove the file (unlink(2))."""
    me, folder = os.geteuid(), place.parent.stat()
    if me == ROOT_USER:
        return True
    if folder.st_mode & stat.S_ISVTX and me not in {there.st_uid, folder.st_uid}:
        return False
    return os.access(place.parent, os.W_OK, effective_ids=os.access in os.supports_effective_ids)


def _name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)
