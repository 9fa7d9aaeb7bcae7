"""The user's own SQL inside the store's transaction: what it may do, and what it may not."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import apsw

from holdfast.backends.sqlite.database import Database, Row
from holdfast.backends.sqlite.schema import TABLE_PREFIX
from holdfast.errors import InvalidInput

_FORBIDDEN: Final = {
    apsw.SQLITE_TRANSACTION: "begin, commit or roll back: the step's transaction is the store's",
    apsw.SQLITE_SAVEPOINT: "use savepoints: raise an error to undo everything",
    apsw.SQLITE_PRAGMA: "change settings of the connection, which belongs to the store",
    apsw.SQLITE_ATTACH: "attach databases to the connection, which belongs to the store",
    apsw.SQLITE_DETACH: "detach databases from the connection, which belongs to the store",
    apsw.SQLITE_CREATE_TEMP_INDEX: "make temporary objects: they would outlive the step",
    apsw.SQLITE_CREATE_TEMP_TABLE: "make temporary objects: they would outlive the step",
    apsw.SQLITE_CREATE_TEMP_TRIGGER: "make temporary objects: they would outlive the step",
    apsw.SQLITE_CREATE_TEMP_VIEW: "make temporary objects: they would outlive the step",
}
_READING: Final = {apsw.SQLITE_READ, apsw.SQLITE_SELECT, apsw.SQLITE_FUNCTION, apsw.SQLITE_RECURSIVE}

# The cache of prepared statements distinguishes flags. Ours have none; with this harmless one the user's can never get
# a statement that was prepared, and so authorised, for the store itself.
_USERS_FLAGS: Final = apsw.SQLITE_PREPARE_PERSISTENT


class Guard:
    """Decides which statements may be compiled on the writer's connection
    (https://sqlite.org/c3ref/set_authorizer.html).

    SQLite asks while it compiles a statement. The guard stays installed and is only switched on and off: installing
    it again would discard every prepared statement.
    """

    def __init__(self, connection: Database) -> None:
        self._connection = connection
        self._on = False
        self.refusal = ""
        connection.authorizer = self._authorize

    @contextmanager
    def on(self) -> Generator[GuardedCursor]:
        """A cursor for the user; closed, and the guard off again, at the end of the block."""
        cursor = GuardedCursor(self._connection, self)
        self._on = True
        try:
            yield cursor
        finally:
            self._on = False
            cursor.closed = True

    def _authorize(
        self, action: int, first: str | None, second: str | None, _database: str | None, _trigger: str | None
    ) -> int:
        if not self._on or action in _READING:
            return apsw.SQLITE_OK
        if action in _FORBIDDEN:
            self.refusal = f"a transactional step may not {_FORBIDDEN[action]}"
            return apsw.SQLITE_DENY
        for name in (first, second):
            if name is not None and name.lower().startswith(TABLE_PREFIX):
                self.refusal = f"a transactional step may not change {name}: names in {TABLE_PREFIX} are the store's"
                return apsw.SQLITE_DENY
        return apsw.SQLITE_OK


class GuardedCursor:
    """The ``SqlCursor`` of one transactional step."""

    __slots__ = ("_connection", "_guard", "closed", "full")

    def __init__(self, connection: Database, guard: Guard) -> None:
        self._connection = connection
        self._guard = guard
        self.closed = False
        self.full: apsw.FullError | None = None
        """The disk was full. That is not the step's own outcome, however its code handles it."""

    def execute(self, statement: str, parameters: Sequence[Any] | dict[str, Any] = ()) -> list[Row]:
        """Run ``statement`` to its end and return all its rows.

        Raises ``InvalidInput`` for a statement that is forbidden here; other errors are SQLite's own (``apsw``).
        """
        if self.closed:
            msg = "this cursor ended with its transactional step"
            raise InvalidInput(msg)
        if not self._connection.in_transaction:
            # ON CONFLICT ROLLBACK or RAISE(ROLLBACK): later statements would commit on their own.
            msg = "the step's own SQL has rolled the transaction back; nothing more can run in it"
            raise InvalidInput(msg)
        try:
            return self._connection.execute(statement, parameters, prepare_flags=_USERS_FLAGS).fetchall()
        except apsw.AuthError as error:
            raise InvalidInput(self._guard.refusal) from error
        except apsw.FullError as error:
            self.full = error
            raise


Work = Callable[[GuardedCursor], Any]
"""The argument of ``transact``, as the writer sees it."""
