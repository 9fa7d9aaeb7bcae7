"""Whether the files that this process has open are still those that have their names.

An unlinked file takes writes as before, and SQLite says nothing: they are gone with the last process that has it open.
"""

from __future__ import annotations

import os
from typing import Final

from holdfast.errors import StoreUnusable

COMPANIONS: Final = ("-wal", "-shm")
"""SQLite keeps both as long as a connection is open (https://sqlite.org/wal.html)."""


class Identity:
    """The files as they were when they were opened. SQLite has them open, so their inodes are not used again."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = _inode(path)
        self._companions = {name: _inode(name) for name in (path + suffix for suffix in COMPANIONS)}

    def check(self) -> None:
        """Raise ``StoreUnusable`` if the database file was deleted, moved or replaced."""
        if _inode(self._path) != self._file:
            raise _gone(self._path)

    def check_all(self) -> None:
        """``check``, and the same for the log and its index."""
        self.check()
        for name, inode in self._companions.items():
            if _inode(name) != inode:
                raise _gone(name)


def _inode(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - once for each commit, and this is the fast way
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _gone(path: str) -> StoreUnusable:
    return StoreUnusable(
        f"{path} was deleted, moved or replaced while this process had it open. Nothing is acknowledged any more, "
        "because nobody else would find it. Stop every process that uses it, restore the file, and start again"
    )
