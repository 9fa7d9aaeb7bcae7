"""A copy of a database file while processes work on it, and back.

SQLite's online backup copies page by page (https://sqlite.org/backup.html). It begins again whenever another process
commits, unless the source is in a read transaction: then all pages are of one moment (https://sqlite.org/isolation.html).
Writers do not wait for it; their log cannot be reset before it ends (https://sqlite.org/wal.html, "Avoiding Excessively
Large WAL Files").
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from holdfast import ids
from holdfast.backends.sqlite.connection import OPEN_WAIT_MS, check_identity, check_sqlite_version
from holdfast.backends.sqlite.database import Database, connect, connect_alone
from holdfast.backends.sqlite.failures import explained
from holdfast.backends.sqlite.identity import Identity
from holdfast.backends.sqlite.integrity import damage
from holdfast.backends.sqlite.private_file import COMPANIONS, real_path
from holdfast.backends.sqlite.schema import APPLICATION_ID, BLOBS_SINCE_VERSION, COUNT_BLOBS, COUNT_ITEMS
from holdfast.errors import InvalidInput, InvalidState, StoreUnusable
from holdfast.files import give_name, new_file, sync_folder

PAGES_AT_ONCE: Final = 2_000
"""How many pages are copied between two reports of the progress: 8 MB."""

STATEMENTS_KEPT: Final = 16


class Copied(Struct, frozen=True, kw_only=True):
    """What a verified copy holds. ``items`` are heads and entries; ``salt`` is the home's: its keys follow from it."""

    items: int
    blobs: int
    size_bytes: int
    schema_version: int


Tell = Callable[[int, int], object]
"""Gets the number of pages that are copied, and of all."""


def back_up(database: str, to: Path, *, replace: bool = False, tell: Tell = lambda _done, _of: None) -> Copied:
    """Copy the database file into the new file ``to``, for its owner alone, while processes may write it.

    The copy is of one moment. It has its name only when it is complete, durable, and was checked by opening it; a
    process that dies before leaves a file that ends in ``.part``. Raises ``StoreUnusable`` for what is no database of
    ours, ``InvalidState`` if ``to`` exists and is not to be replaced, ``InvalidInput`` if it cannot be written.
    """
    check_sqlite_version()
    real = real_path(database)
    if not real.is_file():
        raise StoreUnusable(f"there is no database {real}")
    _check_target(real, to, replace=replace)
    with _one_moment(real) as source:
        return _copied(source, to, tell, replace=replace)


def restore(backup: Path, database: str, *, tell: Tell = lambda _done, _of: None) -> tuple[Copied, Path | None]:
    """Put a backup in the place of a database file that no process has open; returns what it holds, and the copy that
    was made of what was there before, if anything was.

    It is one transaction: after a death in the middle the file is as it was. Raises ``InvalidState`` while another
    process has the database open.
    """
    check_sqlite_version()
    verify(backup)
    real = real_path(database)
    if not os.path.lexists(real):
        return back_up(str(backup), real, tell=tell), None
    if real.samefile(backup):
        raise InvalidInput(f"{backup} is the home itself")
    with _open(real) as there:
        with _reported(str(real)):
            if there.readonly("main"):
                raise StoreUnusable(f"{real} is read-only for this user")
            _check_ours(there, real)
            _take_alone(there, real)
        kept = real.with_name(f"{real.name}.before-{ids.new_id()[:12]}")
        _copied(there, kept, lambda _done, _of: None)
        with _alone(real_path(backup)) as source:
            _copy(source, there, str(real), tell)
    return verify(real), kept


def verify(path: Path) -> Copied:
    """Open a copy, check all of it, and count. Raises ``StoreUnusable`` with what is wrong."""
    real = real_path(path)
    if not real.is_file():
        raise InvalidInput(f"there is no file {path}")
    if beside := _beside(real):
        raise InvalidState(f"{beside} is next to {real}: it is a home in use, and no backup. Use holdfast backup")
    with _alone(real) as copy, _reported(str(real)):
        _check_ours(copy, real)
        if wrong := list(damage(copy)):
            raise StoreUnusable(f"{real} is damaged: {wrong[0]}")
        items, blobs = _counted(copy)
        return Copied(
            items=items, blobs=blobs, size_bytes=real.stat().st_size, schema_version=copy.pragma("user_version")
        )


# ── Parts ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def _reported(path: str) -> Generator[None]:
    """Errors of SQLite and of the system as ours."""
    try:
        yield
    except OSError as error:
        raise InvalidInput(
            f"{path} cannot be written: {error.strerror or error}. Name a file in a folder that exists, that can be "
            "written and has room"
        ) from error
    except Exception as error:
        raise explained(error, path) from error


@contextmanager
def _open(path: Path) -> Generator[Database]:
    with _reported(str(path)):
        connection = connect(str(path), statement_cache=STATEMENTS_KEPT)
    try:
        with _reported(str(path)):
            connection.set_busy_timeout(OPEN_WAIT_MS)
            for name, value in (("mmap_size", 0), ("trusted_schema", 0), ("synchronous", 2)):
                connection.pragma(name, value)
        yield connection
    finally:
        connection.close(force=True)


@contextmanager
def _alone(path: Path) -> Generator[Database]:
    with _reported(str(path)):
        connection = connect_alone(str(path))
    try:
        yield connection
    finally:
        connection.close(force=True)


@contextmanager
def _one_moment(path: Path) -> Generator[Database]:
    """The database as it is now, whatever others commit."""
    with _open(path) as source:
        with _reported(str(path)):
            source.pragma("query_only", 1)
            source.execute("BEGIN")
            _check_ours(source, path)  # the first read: from here on it is one moment
            identity = Identity(str(path))
        yield source
        identity.check_after()


def _check_ours(connection: Database, path: Path) -> None:
    check_identity(connection, str(path))
    if connection.pragma("application_id") != APPLICATION_ID:
        raise StoreUnusable(f"{path} holds no home: it is empty, or a database without one")


def _counted(connection: Database) -> tuple[int, int]:
    """How many items and blobs there are. A file of an older release is copied as it is, and not migrated."""
    ((items,),) = connection.execute(COUNT_ITEMS).fetchall()
    if connection.pragma("user_version") < BLOBS_SINCE_VERSION:
        return items, 0
    ((blobs,),) = connection.execute(COUNT_BLOBS).fetchall()
    return items, blobs


def _take_alone(connection: Database, path: Path) -> None:
    """Leave WAL mode: that moves the log into the file, and is refused while another process has it open
    (https://sqlite.org/pragma.html#pragma_journal_mode). Copying another database over this one returns to it.
    """
    with _reported(str(path)):
        connection.set_busy_timeout(0)
        try:
            connection.pragma("journal_mode", "delete")
            connection.pragma("locking_mode", "exclusive")
            connection.execute("BEGIN EXCLUSIVE; COMMIT")
        except Exception as error:
            if type(error).__name__ not in {"BusyError", "LockedError"}:
                raise
            raise InvalidState(
                f"{path} is open in another process. Stop every worker and client of it, and restore again"
            ) from error


def _copied(source: Database, to: Path, tell: Tell, *, replace: bool = False) -> Copied:
    with _new_part(to) as part:
        with _open(part) as copy:
            copy.pragma("journal_mode", "off")  # a copy that is not complete is thrown away
            _copy(source, copy, str(to), tell)
        found = verify(part)
        with _reported(str(to)):
            items, blobs = _counted(source)
        if (found.items, found.blobs) != (items, blobs):
            raise StoreUnusable(f"the copy holds {found.items} items and not {items}: it was not kept")
        _keep(part, to, replace=replace)
    return found


def _copy(source: Database, to: Database, path: str, tell: Tell) -> None:
    with _reported(path):
        copying = to.backup("main", source, "main")
        try:
            while not copying.done:
                copying.step(PAGES_AT_ONCE)
                tell(copying.page_count - copying.remaining, copying.page_count)
            copying.finish()
        finally:
            copying.close(force=True)


def _check_target(database: Path, to: Path, *, replace: bool) -> None:
    with _reported(str(to)):
        str(to).encode()  # SQLite's names are UTF-8
        if beside := _beside(to):
            raise InvalidState(f"{beside} is there, so {to} is or was a database in use. Name another file")
        if Path(os.path.realpath(to)) in [database.with_name(f"{database.name}{end}") for end in COMPANIONS[1:]]:
            raise InvalidInput(f"{to} is a file of the home itself. Name another file")
        if not os.path.lexists(to):
            return
        if not replace:
            raise InvalidState(f"{to} exists already; name another file, remove it, or add --force")
        if to.is_dir():
            raise InvalidInput(f"{to} is a folder. Name a file in it")
        if to.exists() and to.samefile(database):
            raise InvalidInput(f"{to} is the home itself")


def _beside(path: Path) -> Path | None:
    """A file that SQLite would take for a part of this one."""
    return next((each for end in COMPANIONS[1:] if os.path.lexists(each := Path(f"{path}{end}"))), None)


@contextmanager
def _new_part(to: Path) -> Generator[Path]:
    """An empty file next to ``to``, in which it is made."""
    part = to.with_name(f"{to.name}.{ids.new_id()[:12]}.part")
    with _reported(str(to)):
        new_file(part).close()
    try:
        yield part
    finally:
        with suppress(OSError):
            part.unlink()


def _keep(part: Path, to: Path, *, replace: bool) -> None:
    with _reported(str(to)):
        descriptor = os.open(part, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        try:
            if replace:
                part.rename(to)
            else:
                give_name(part, to)
        except FileExistsError:
            raise InvalidState(f"{to} exists already; name another file, remove it, or add --force") from None
        sync_folder(to.parent)
