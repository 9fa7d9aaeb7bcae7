"""The world outside: a file that remembers every attempt of every effect, and accepts each idempotency key once.

It stands for a payment provider that honours idempotency keys: attempts are counted (≥ 1 is allowed, G10), accepted
effects are what it really did (= 1 is demanded). It is a SQLite file of its own, beside the home, never part of it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import apsw

TABLES: Final = """
CREATE TABLE attempts (number INTEGER PRIMARY KEY, key TEXT, execution TEXT, label TEXT, attempt INTEGER, pid INTEGER);
CREATE TABLE effects (number INTEGER PRIMARY KEY, key TEXT UNIQUE, execution TEXT, label TEXT, value TEXT);
CREATE TABLE tokens (execution TEXT PRIMARY KEY, token TEXT);
CREATE TABLE accepted (id TEXT PRIMARY KEY, kind TEXT, number INTEGER);
CREATE TABLE verified (client INTEGER, id TEXT, UNIQUE (client, id));
CREATE TABLE answers (execution TEXT, said TEXT, outcome TEXT);
CREATE TABLE mismatches (id TEXT);
CREATE TABLE violations (number INTEGER PRIMARY KEY, what TEXT, text TEXT);
CREATE INDEX effects_by_execution ON effects (execution);
"""


class Effect(NamedTuple):
    """One accepted effect. ``execution`` is the id at the root: children act in their parent's name."""

    number: int
    key: str
    execution: str
    label: str
    value: str


class Ledger:
    """One process's connection to the ledger. Any thread may use it, one at a time."""

    def __init__(self, path: Path) -> None:
        self._connection = apsw.Connection(str(path))
        self._connection.set_busy_timeout(30_000)
        # Only processes die here, never the machine: what the kernel has is safe.
        self._connection.execute("PRAGMA journal_mode = wal; PRAGMA synchronous = off")
        self._lock = threading.Lock()

    @classmethod
    def create(cls, path: Path) -> Ledger:
        ledger = cls(path)
        ledger._connection.execute(TABLES)
        return ledger

    def close(self) -> None:
        self._connection.close()

    def read(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        """All rows of a query."""
        with self._lock:
            return self._connection.execute(query, values).fetchall()

    @contextmanager
    def _transaction(self) -> Iterator[apsw.Connection]:
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    # ── Effects ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def perform(self, key: str, execution: str, label: str, attempt: int) -> str:
        """Do it, unless this key was accepted before; answers what was accepted, the same for every repeat."""
        value = f"{label}={os.urandom(6).hex()}"
        with self._transaction() as connection:
            _note_attempt(connection, key, execution, label, attempt)
            connection.execute(
                "INSERT INTO effects (key, execution, label, value) VALUES (?, ?, ?, ?) ON CONFLICT (key) DO NOTHING",
                (key, execution, label, value),
            )
            ((accepted,),) = connection.execute("SELECT value FROM effects WHERE key = ?", (key,)).fetchall()
        return str(accepted)

    def attempted(self, key: str, execution: str, label: str, attempt: int) -> None:
        """Count an attempt that the world refused."""
        with self._transaction() as connection:
            _note_attempt(connection, key, execution, label, attempt)

    def effects(self) -> list[Effect]:
        """Every accepted effect, in the order of acceptance."""
        return [Effect(*row) for row in self.read("SELECT * FROM effects ORDER BY number")]

    # ── What clients did ────────────────────────────────────────────────────────────────────────────────────────────

    def hand_out(self, execution: str, token: str) -> None:
        """Publish a callback's token. Every attempt must publish the same one."""
        self._write("INSERT INTO tokens VALUES (?, ?) ON CONFLICT (execution) DO NOTHING", (execution, token))
        if self.token(execution) != token:
            self.violation("token", f"{execution} handed out two tokens for one callback")

    def token(self, execution: str) -> str | None:
        rows = self.read("SELECT token FROM tokens WHERE execution = ?", (execution,))
        return rows[0][0] if rows else None

    def accept(self, id: str, kind: str, number: int) -> None:
        """The store said yes to this start: the execution may never be lost (G1)."""
        self._write("INSERT INTO accepted VALUES (?, ?, ?) ON CONFLICT DO NOTHING", (id, kind, number))

    def accepted(self) -> list[tuple[str, str, int]]:
        return [(str(id), str(kind), int(number)) for id, kind, number in self.read("SELECT * FROM accepted")]

    def verify(self, client: int, id: str) -> None:
        """This client has seen the execution's end."""
        self._write("INSERT INTO verified VALUES (?, ?) ON CONFLICT DO NOTHING", (client, id))

    def verified(self, client: int) -> set[str]:
        return {id for (id,) in self.read("SELECT id FROM verified WHERE client = ?", (client,))}

    def answered(self, execution: str, said: str, outcome: str) -> None:
        """A client answered the callback: the token was ``taken``, or it was ``late``."""
        self._write("INSERT INTO answers VALUES (?, ?, ?)", (execution, said, outcome))

    def mismatched(self, id: str) -> None:
        """A start with the same id and other input was refused, as it must be (G11)."""
        self._write("INSERT INTO mismatches VALUES (?)", (id,))

    def violation(self, what: str, text: str) -> None:
        """Something that must never happen did: the run is red."""
        self._write("INSERT INTO violations (what, text) VALUES (?, ?)", (what, text))

    def _write(self, statement: str, values: Sequence[Any]) -> None:
        with self._transaction() as connection:
            connection.execute(statement, values)


def _note_attempt(connection: apsw.Connection, key: str, execution: str, label: str, attempt: int) -> None:
    connection.execute(
        "INSERT INTO attempts (key, execution, label, attempt, pid) VALUES (?, ?, ?, ?, ?)",
        (key, execution, label, attempt, os.getpid()),
    )
