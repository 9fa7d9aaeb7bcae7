"""The ``Store`` and ``SqlTransactions`` ports on one SQLite file.

Writes go through one connection in group commits, reads through another, at once and on the event loop: in WAL mode
neither waits for the other, and a read sees every commit that came before it (https://sqlite.org/isolation.html).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from holdfast.backends.sqlite.batch import BatchRunner, Job
from holdfast.backends.sqlite.connection import WRITER_PRAGMAS, open_connections, settings_in_force
from holdfast.backends.sqlite.database import Database, Row
from holdfast.backends.sqlite.failures import explained
from holdfast.backends.sqlite.integrity import problems
from holdfast.backends.sqlite.listing import HEADS, NUMBERS, STATUSES, Walks, furthest, kind_of, walks_for
from holdfast.backends.sqlite.schema import SALT
from holdfast.backends.sqlite.statements import (
    COLLECT_BLOBS,
    DUE,
    GET_ENTRY,
    GET_HEAD,
    KEEP_BLOBS,
    PURGE,
    PURGE_PLACEHOLDERS,
    QUERY,
    QUERY_ENTRIES,
    SCAN,
    SCAN_BOUNDS,
    end_of_prefix,
)
from holdfast.backends.sqlite.writer import Writer
from holdfast.errors import InvalidInput, StoreUnusable
from holdfast.items import HEAD, Item, Write
from holdfast.ports import Page, SqlCursor

T = TypeVar("T")

Names = tuple[str, str | bytes]
"""The names of partitions from the first one to below the second one."""

BLOB_CHECK_MS: Final = 24 * 3600 * 1000
"""How long a needed blob is not checked again."""

PAGE_ITEMS: Final = 1000
"""The most items one page holds, whatever limit the caller gives."""

PAGE_BYTES: Final = 4 * 2**20
"""A page ends once its bodies are together larger than this."""

SCAN_ROWS: Final = 2_000
"""The most heads that one page of a scan reads: it may be short, or empty, with a cursor to continue from."""


class SqliteStore:
    """Items in one SQLite file. Belongs to the event loop on which it was created."""

    def __init__(self, path: str, writer: Database, reader: Database) -> None:
        self.path = path
        self.runner = BatchRunner(writer, path)
        self._writer = Writer(self.runner)
        self._submit = self._writer.submit
        self._reader = reader
        self._reads = 0
        self._closed = False

    @classmethod
    def open(cls, path: str) -> SqliteStore:
        """Open the file, creating or migrating it as needed; ``StoreUnusable`` says why it cannot be used."""
        return cls(*open_connections(path))

    @property
    def commits(self) -> int:
        """How many transactions were committed so far."""
        return self.runner.commits

    @property
    def statements(self) -> int:
        """How many statements ran so far, reads included, BEGIN and COMMIT not."""
        return self.runner.statements + self._reads

    def salt(self) -> str:
        """The salt of the home (``Home.salt``)."""
        ((salt,),) = self.rows(SALT, ())
        return str(salt)

    # ── Writes ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def write(self, *writes: Write) -> asyncio.Future[Sequence[Item | None]]:
        """See ``Store.write``. Calls of one tick of the event loop share a commit."""
        return self._submit(writes)

    def transact(self, work: Callable[[SqlCursor], tuple[Sequence[Write], T]]) -> asyncio.Future[T]:
        """See ``SqlTransactions.transact``. ``work`` may run in another thread, and may be run again if another
        call of its batch made SQLite roll back: it may use its cursor and must have no other effects.
        """
        return self._submit(lambda runner: runner.transact(work))

    def write_after(
        self, partition: str, sort: str, decide: Callable[[Item | None], Sequence[Write]]
    ) -> asyncio.Future[Sequence[Item | None]]:
        """See ``Sequencer.write_after``."""
        return self._submit(lambda runner: runner.apply(decide(runner.find(partition, sort))))

    async def purge(self, now: int, limit: int = PAGE_ITEMS) -> int:
        """See ``Purges.purge``; call again until it is 0."""
        deleted: int = await self._submit(lambda runner: _purge(runner, now, limit))
        return deleted

    def run(self, job: Job) -> asyncio.Future[Any]:
        """Do other work in the next transaction."""
        return self._submit(job)

    # ── Reads ───────────────────────────────────────────────────────────────────────────────────────────────────────

    async def get(self, partition: str, sort: str = HEAD) -> Item | None:
        """See ``Store.get``."""
        rows = self.rows(GET_HEAD, (partition,)) if sort == HEAD else self.rows(GET_ENTRY, (partition, sort))
        return Item(partition, sort, *rows[0]) if rows else None

    async def query(self, partition: str, *, prefix: str = "", after: str | None = None, limit: int = 1000) -> Page:
        """See ``Store.query``. The cursor is the sort key of the last item."""
        # Behind `after` means from its immediate successor on, which is `after` and a zero character.
        first = prefix if after is None else max(prefix, after + "\0")
        text = QUERY if HEAD.startswith(prefix) else QUERY_ENTRIES
        count = page_size(limit)
        parameters = (partition, first, end_of_prefix(prefix), count + 1)
        return self.read_page(text, parameters, count, lambda row: (row[0], Item(partition, *row)))

    async def due(self, before: int, *, after: str | None = None, limit: int = 1000) -> Page:
        """See ``Store.due``. Heads due at the same time come in the order of their creation.

        Raises ``StoreUnusable`` if the file was deleted or replaced under this process.
        """
        self.runner.identity.check_all()  # every sweep gets here
        when, number = (-(2**63), 0) if after is None else place_in(after, 2)
        count = page_size(limit)
        parameters = (before, when, number, count + 1)
        return self.read_page(DUE, parameters, count, lambda row: (f"{row[0]}:{row[1]}", Item(row[2], HEAD, *row[3:])))

    async def scan(self, prefix: str, *, status: str | None = None, after: str | None = None, limit: int = 100) -> Page:
        """See ``Store.scan``. Newest first. A page may be short, or empty, although there are more."""
        (behind,) = (2**63 - 1,) if after is None else place_in(after, 1)
        count, names = page_size(limit), (prefix, end_of_prefix(prefix))
        if "#" in prefix:
            walks = walks_for(prefix, status)
            return self._walk(walks, names, status, behind, count) if walks else self._merge(names, behind, count)
        ((newest, oldest),) = self.rows(SCAN_BOUNDS, (behind,))
        if newest is None:
            return Page(())
        last = max(newest - SCAN_ROWS + 1, oldest)
        page = self._read_heads(SCAN, (last, newest, *names, status), count)
        if page.cursor is None and last > oldest:
            return Page(page.items, cursor=str(last))
        return page

    def _walk(self, walks: Walks, names: Names, status: str | None, behind: int, count: int) -> Page:
        stretch = furthest(self.rows, walks, status, behind, SCAN_ROWS)
        if stretch is None:
            return Page(())
        last, walk, name = stretch
        page = self._read_heads(walk.heads, (name, status, last, behind, *names), count)
        return Page(page.items, cursor=str(last)) if page.cursor is None and last else page

    def _merge(self, names: Names, behind: int, count: int) -> Page:
        """The heads of a kind, of whatever status: the newest of each."""
        kind = kind_of(names[0])
        # As many rows of the index as there are on the page, if it holds nothing else.
        most_rows = count + 1 if kind == names[0] else SCAN_ROWS
        self._check_open()
        with self._reader:  # one snapshot: a head that changes its status between two reads would be in neither
            statuses = [status for (status,) in self.rows(STATUSES, (kind,))]
            rows = [row for each in statuses for row in self.rows(NUMBERS, (kind, each, behind, most_rows))]
            newest = sorted((number for (number,) in rows), reverse=True)[:most_rows]
            if not newest:
                return Page(())
            page = self._read_heads(HEADS, (kind, json.dumps(statuses), newest[-1], behind, *names), count)
        if page.cursor is None and len(newest) == most_rows:
            return Page(page.items, cursor=str(newest[-1]))
        return page

    def _read_heads(self, text: str, parameters: tuple[Any, ...], count: int) -> Page:
        return self.read_page(
            text, (*parameters, count + 1), count, lambda row: (str(row[0]), Item(row[1], HEAD, *row[2:]))
        )

    def rows(self, text: str, parameters: Sequence[Any]) -> list[Row]:
        """All rows of a statement."""
        self._count_read()
        try:
            return self._reader.execute(text, parameters).fetchall()
        except Exception as error:
            raise explained(error, self.path) from error

    def read_page(
        self, text: str, parameters: Sequence[Any], count: int, entry: Callable[[Row], tuple[str, Item]]
    ) -> Page:
        """The first ``count`` items, fewer if they are large. ``entry`` returns a row's cursor and its item."""
        self._count_read()
        items: list[Item] = []
        behind: str | None = None
        size_bytes = 0
        rows = self._reader.cursor()
        try:
            for row in rows.execute(text, parameters):
                if len(items) == count or size_bytes > PAGE_BYTES:
                    return Page(tuple(items), behind)
                behind, item = entry(row)
                items.append(item)
                size_bytes += len(item.body)
            return Page(tuple(items))
        except Exception as error:
            raise explained(error, self.path) from error
        finally:
            # A statement left half-way would hold its snapshot, and with it the log, without end.
            rows.close(force=True)

    def _count_read(self) -> None:
        self._check_open()
        self._reads += 1

    def _check_open(self) -> None:
        if self._closed:
            raise StoreUnusable("the store is closed; open the home again")

    # ── Care ────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def integrity(self) -> list[str]:
        """What is wrong with the file or the settings in force, one line each; empty if all is well.

        For ``holdfast doctor``: it reads the whole file, and blocks meanwhile.
        Raises ``StoreUnusable`` if the file cannot even be read.
        """
        # The writer's connection may be in use by another thread: this waits for its turn.
        found: list[str] = await self._submit(lambda runner: settings_in_force(runner.connection, WRITER_PRAGMAS))
        self._count_read()
        try:
            return [*(f"writing: {line}" for line in found), *problems(self._reader)]
        except Exception as error:
            raise explained(error, self.path) from error

    async def close(self) -> None:
        """See ``Store.close``. The last process to close the file copies the log back into it and removes it."""
        if self._closed:
            return
        self._closed = True
        await self._writer.close()
        self._reader.close(force=True)
        self.runner.connection.close(force=True)


def _purge(runner: BatchRunner, now: int, limit: int) -> int:
    deleted = 0
    for statement in PURGE:
        deleted += runner.change(statement, (now, max(0, limit - deleted)))  # a negative LIMIT would be none at all
    runner.change(PURGE_PLACEHOLDERS, (limit,))
    if deleted < limit:
        deleted += runner.change(COLLECT_BLOBS, (now, limit - deleted))
    if deleted < limit:
        runner.change(KEEP_BLOBS, (now, BLOB_CHECK_MS))
    return deleted


def page_size(limit: int) -> int:
    """How many items a page has for a limit: one at least, and ``PAGE_ITEMS`` at most."""
    return max(1, min(limit, PAGE_ITEMS))


def place_in(cursor: str, count: int) -> list[int]:
    """The numbers in a cursor. Raises ``InvalidInput``."""
    try:
        numbers = [int(part) for part in cursor.split(":")]
    except ValueError:
        numbers = []
    if len(numbers) != count:
        raise InvalidInput(f"{cursor!r} is not a cursor of this store")
    return numbers
