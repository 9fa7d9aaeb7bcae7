"""Whether the files that this process has open still have their names.

An unlinked file accepts writes, and SQLite reports nothing: they are lost with the last process that has it open.
"""

from __future__ import annotations

import os
from typing import Final

from holdfast.errors import StoreUnusable

LOG: Final = "-wal"
INDEX: Final = "-shm"
"""SQLite creates both at a connection's first read, at most truncates the log, and deletes both when the last
connection closes (https://sqlite.org/wal.html, "The WAL File"): as long as this process has the file open, they keep
their names.
"""


class Identity:
    """The files as they were when they were opened. SQLite keeps them open, so their inodes are not used again."""

    def __init__(self, path: str) -> None:
        self._inodes = {name: _inode(name) for name in (path, path + LOG, path + INDEX)}
        self._all = tuple(self._inodes)
        self._before: tuple[str, ...] = (path,)
        self._after = (path, path + LOG)

    def check_before(self) -> None:
        """Raise ``StoreUnusable`` if the database file was deleted, moved or replaced: then nothing may be written.

        Once a file was found gone, all are checked, so that at most one transaction is lost.
        """
        self._check(self._before)

    def check_after(self) -> None:
        """The same for the file and its log, which holds a commit until it is moved into the file (G7)."""
        self._check(self._after)

    def check_all(self) -> None:
        """The same for every file: for the log's index too."""
        self._check(self._all)

    def _check(self, names: tuple[str, ...]) -> None:
        for name in names:
            if _inode(name) != self._inodes[name]:
                self._before = self._all
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
        "because no other process would find it. Stop every process that uses it, restore the file, and start again"
    )
