"""The part of ``apsw.Connection`` that the store uses, with narrower types.

The types of rows in apsw's own stubs are so wide that every use of a row would need a cast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, Self, cast
from urllib.parse import quote

import apsw

Row = tuple[Any, ...]
Parameters = Sequence[Any] | Mapping[str, Any]


class Rows(Protocol):
    """The result of a statement, read on demand (``apsw.Cursor``)."""

    def __iter__(self) -> Iterator[Row]:
        """The rows that were not read yet."""
        ...

    def fetchall(self) -> list[Row]:
        """The rows that were not read yet; the statement ends."""
        ...


class Cursor(Rows, Protocol):
    """Runs one statement after another (``apsw.Cursor``)."""

    def execute(self, statements: str, bindings: Parameters = ()) -> Rows:
        """Run up to the first row. The cursor's earlier statement ends."""
        ...

    def close(self, force: bool = False) -> None:  # noqa: FBT001, FBT002 - apsw's own signature
        """End its statement; ``force`` says that unread rows are no mistake."""
        ...


class Copying(Protocol):
    """A copy of a whole database into another (``apsw.Backup``)."""

    done: bool
    remaining: int
    page_count: int

    def step(self, npages: int = -1) -> bool:
        """Copy some pages; returns whether it is done."""
        ...

    def finish(self) -> None:
        """Commit what is done, or give up what is not."""
        ...

    def close(self, force: bool = False) -> None:  # noqa: FBT001, FBT002 - apsw's own signature
        """Give up what is not finished; ``force`` ignores errors."""
        ...


class Database(Protocol):
    """An open database (``apsw.Connection``)."""

    authorizer: Callable[[int, str | None, str | None, str | None, str | None], int] | None

    def __enter__(self) -> Self:
        """Begin a savepoint: what is read until its end is of one moment."""
        ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, frames: object) -> bool | None:
        """End it; after an error, undo what was written in it."""
        ...

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        ...

    def execute(self, statements: str, bindings: Parameters = (), *, prepare_flags: int = 0) -> Rows:
        """Run up to the first row, on a cursor of its own."""
        ...

    def cursor(self) -> Cursor:
        """A new cursor."""
        ...

    def changes(self) -> int:
        """How many rows the last INSERT, UPDATE or DELETE changed."""
        ...

    def pragma(self, name: str, value: int | str | None = None) -> Any:
        """Read a setting, or change it."""
        ...

    def status(self, op: int) -> tuple[int, int]:
        """A counter of the connection: its current and its highest value."""
        ...

    def config(self, op: int, value: int) -> int:
        """Change an option that is not a pragma."""
        ...

    def backup(self, databasename: str, sourceconnection: Any, sourcedatabasename: str) -> Copying:
        """Begin to copy another database over this one."""
        ...

    def readonly(self, name: str) -> bool:
        """Whether the database cannot be written."""
        ...

    def set_busy_timeout(self, milliseconds: int) -> None:
        """How long a statement waits for locks of others."""
        ...

    def close(self, force: bool = False) -> None:  # noqa: FBT001, FBT002 - apsw's own signature
        """Close the file; ``force`` says that unfinished statements are no mistake."""
        ...


def connect(path: str, *, statement_cache: int) -> Database:
    """Open the file at the real path ``path``, which must exist.

    No URI flag, so that a name that begins with "file:" is only a name. No symbolic links: the path is real already.
    """
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOFOLLOW
    return cast("Database", apsw.Connection(path, flags=flags, statementcachesize=statement_cache))


def connect_alone(path: str) -> Database:
    """Open a file that nothing writes, for reading, without the files next to it: what is not in it is not seen.

    See https://sqlite.org/uri.html, "immutable".
    """
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI | apsw.SQLITE_OPEN_NOFOLLOW
    return cast("Database", apsw.Connection(f"file:{quote(path)}?immutable=1", flags=flags))
