"""Facts about an open database file, for ``holdfast doctor``. Reads only."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path
from typing import Final

import apsw
from msgspec import Struct

from holdfast.backends.sqlite.bell_folder import beside
from holdfast.backends.sqlite.connection import WRITER_PRAGMAS
from holdfast.backends.sqlite.store import SqliteStore

COMPANIONS: Final = ("", "-wal", "-shm")
"""The file itself, its log and the index of its log."""


class Checkup(Struct, frozen=True, kw_only=True):
    """The facts. ``modes`` are the permission bits by path; ``settings`` are those of the writing connection."""

    path: str
    sqlite_version: str
    schema_version: int
    settings: dict[str, int | str]
    modes: dict[str, int]
    foreign: list[str]
    """Paths that belong to a user other than this process's."""
    size_bytes: int
    log_bytes: int
    free_bytes: int


def check_up(store: SqliteStore) -> Checkup:
    """The facts about the file that ``store`` has open."""
    connection = store.runner.connection
    paths = [Path(store.path + suffix) for suffix in COMPANIONS]
    found = {path: path.stat() for path in [*paths, beside(store.path)] if path.exists()}
    sizes = {str(path): state.st_size for path, state in found.items()}
    return Checkup(
        path=store.path,
        sqlite_version=apsw.sqlite_lib_version(),
        schema_version=connection.pragma("user_version"),
        settings={name: connection.pragma(name) for name in WRITER_PRAGMAS},
        modes={str(path): stat.S_IMODE(state.st_mode) for path, state in found.items()},
        foreign=[str(path) for path, state in found.items() if state.st_uid != os.geteuid()],
        size_bytes=sizes[store.path],
        log_bytes=sizes.get(f"{store.path}-wal", 0),
        free_bytes=shutil.disk_usage(Path(store.path).parent).free,
    )
