"""Opening the database file: its settings and its version.

Open it after ``fork``, never before: SQLite connections must not be carried across a fork
(https://sqlite.org/howtocorrupt.html, section 2.6).
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import apsw

from holdfast.backends.sqlite.database import Database, connect
from holdfast.backends.sqlite.failures import explained
from holdfast.backends.sqlite.private_file import check_ownership, create
from holdfast.backends.sqlite.schema import APPLICATION_ID, COUNT_TABLES, MIGRATIONS, SCHEMA_VERSION
from holdfast.clock import elapsed_seconds
from holdfast.errors import StoreUnusable

FIRST_SOUND_SQLITE: Final = (3, 51, 3)
"""3.7.0 to 3.51.2 can corrupt a WAL file when one process checkpoints while another commits ("WAL-reset bug",
https://sqlite.org/wal.html); several processes on one file are our normal case."""

OPEN_WAIT_MS: Final = 10_000
"""How long opening waits for other processes that are opening or migrating the same file."""

READ_WAIT_MS: Final = 2_000
"""How long a read waits. In WAL mode readers do not wait, except while a crashed process's log is recovered."""

CHECKPOINT_PAGES: Final = 1000
"""A commit that leaves the log longer than this copies it back into the file. Longer logs slow the commits down."""

WAL_LIMIT_BYTES: Final = 16 * 2**20
"""A log that grew beyond this is truncated at the next reset (https://sqlite.org/pragma.html)."""

STATEMENT_CACHE: Final = 256
"""More than the number of statements that the store uses at once."""

_COMMON: Final[Mapping[str, int | str]] = {
    "journal_mode": "wal",
    # FULL syncs at every commit: an acknowledged write survives a power cut (G7). NORMAL would lose it
    # (https://sqlite.org/pragma.html#pragma_synchronous).
    "synchronous": 2,
    "foreign_keys": 1,
    # Never memory-mapped I/O: an I/O error would become a signal that kills the process (https://sqlite.org/mmap.html).
    "mmap_size": 0,
    # A schema planted in the file may not call dangerous functions (https://sqlite.org/security.html).
    "trusted_schema": 0,
    # macOS: fsync leaves the data in the drive's cache; only F_FULLFSYNC gets it out.
    **({"fullfsync": 1, "checkpoint_fullfsync": 1} if sys.platform == "darwin" else {}),
}

WRITER_PRAGMAS: Final[Mapping[str, int | str]] = {
    **_COMMON,
    "wal_autocheckpoint": CHECKPOINT_PAGES,
    "journal_size_limit": WAL_LIMIT_BYTES,
    "query_only": 0,
}
READER_PRAGMAS: Final[Mapping[str, int | str]] = {**_COMMON, "wal_autocheckpoint": 0, "query_only": 1}


def open_connections(path: str | os.PathLike[str]) -> tuple[str, Database, Database]:
    """Open the file, creating or migrating it as needed. Returns its real path, the writer and the reader.

    Raises ``StoreUnusable`` with the reason and the remedy if the file cannot serve as a store.
    """
    check_sqlite_version()
    real_path = create(path)
    opened: list[Database] = []
    try:
        for pragmas in (WRITER_PRAGMAS, READER_PRAGMAS):
            # Appended at once, so that it is closed whatever fails afterwards.
            opened.append(_connect(real_path))
            _prepare(opened[-1], real_path, pragmas)
        check_ownership(Path(real_path))  # of the opened file: it may have been put there just before
    except BaseException as error:
        for connection in opened:
            connection.close(force=True)
        if isinstance(error, Exception):
            raise explained(error, real_path) from error
        raise
    writer, reader = opened
    # From here on the writer itself decides how to wait for other processes.
    writer.set_busy_timeout(0)
    reader.set_busy_timeout(READ_WAIT_MS)
    return real_path, writer, reader


def check_sqlite_version() -> None:
    """Refuse a SQLite with the WAL-reset bug."""
    version = tuple(int(part) for part in apsw.sqlite_lib_version().split("."))
    if version < FIRST_SOUND_SQLITE:
        needed = ".".join(map(str, FIRST_SOUND_SQLITE))
        msg = (
            f"SQLite {apsw.sqlite_lib_version()} can corrupt a database that several processes write;"
            f" {needed} or newer is needed. Install a current `apsw` wheel (pip install -U apsw)"
        )
        raise StoreUnusable(msg)


def settings_in_force(connection: Database, pragmas: Mapping[str, int | str]) -> list[str]:
    """One line for each wrong setting."""
    found = {name: connection.pragma(name) for name in pragmas}
    return [f"{name} is {found[name]!r}, not {value!r}" for name, value in pragmas.items() if found[name] != value]


def _connect(path: str) -> Database:
    connection = connect(path, statement_cache=STATEMENT_CACHE)
    connection.set_busy_timeout(OPEN_WAIT_MS)
    return connection


def _prepare(connection: Database, path: str, pragmas: Mapping[str, int | str]) -> None:
    if connection.readonly("main"):
        # SQLite opens a file it may not write for reading, silently (https://sqlite.org/c3ref/open.html).
        msg = f"{path} is read-only for this user. Make the file and its folder writable"
        raise StoreUnusable(msg)
    # User SQL may not edit the schema table directly (https://sqlite.org/c3ref/c_dbconfig_defensive.html).
    connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
    check_identity(connection, path)
    _patiently(lambda: connection.pragma("journal_mode", "wal"))
    for name, value in pragmas.items():
        if name not in {"journal_mode", "query_only"}:
            connection.pragma(name, value)
    if connection.pragma("user_version") < SCHEMA_VERSION:
        _patiently(lambda: _migrate(connection, path))
    connection.pragma("query_only", pragmas["query_only"])
    if wrong := settings_in_force(connection, pragmas):
        msg = f"{path} does not accept the settings that durability needs: {'; '.join(wrong)}"
        raise StoreUnusable(msg)


def check_identity(connection: Database, path: str) -> None:
    """Refuse a file of another application, or of a newer Holdfast."""
    # One transaction, so that both numbers are of the same moment: another process may be migrating the file. Outside a
    # transaction a savepoint begins one, inside it does no harm (https://sqlite.org/lang_savepoint.html).
    connection.execute("SAVEPOINT holdfast")
    try:
        application_id, version = connection.pragma("application_id"), connection.pragma("user_version")
        has_tables = connection.execute(COUNT_TABLES).fetchall() != [(0,)]
    finally:
        connection.execute("RELEASE holdfast")
    if application_id == APPLICATION_ID:
        if version > SCHEMA_VERSION:
            msg = (
                f"{path} was written by a newer Holdfast (schema {version}, this one knows {SCHEMA_VERSION})."
                " Upgrade Holdfast here"
            )
            raise StoreUnusable(msg)
    elif application_id or version or has_tables:
        # A file of the user's own is fine if it leaves us the two numbers for the application and the version.
        msg = (
            f"{path} belongs to another application (application_id {application_id:#x}, user_version {version})."
            " Choose another path"
        )
        raise StoreUnusable(msg)


def _migrate(connection: Database, path: str) -> None:
    """Bring the schema up to date in one transaction; a second process finds it done."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        check_identity(connection, path)
        for migration in MIGRATIONS[connection.pragma("user_version") :]:
            for statement in migration:
                connection.execute(statement)
        connection.pragma("application_id", APPLICATION_ID)
        connection.pragma("user_version", SCHEMA_VERSION)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _patiently(action: Callable[[], object]) -> None:
    """Retry ``action`` while the file is locked, up to ``OPEN_WAIT_MS``.

    The busy timeout does not cover the change to WAL mode: SQLite returns BUSY at once where waiting could deadlock
    (https://sqlite.org/c3ref/busy_handler.html).
    """
    give_up_at = elapsed_seconds() + OPEN_WAIT_MS / 1000
    while True:
        try:
            action()
        except apsw.BusyError:
            if elapsed_seconds() > give_up_at:
                raise
            threading.Event().wait(0.005)
        else:
            return
