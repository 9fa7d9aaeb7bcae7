"""The ``Census`` port on one SQLite file: counts and lists of one kind by an index."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.backends.sqlite.database import Row
from holdfast.backends.sqlite.statements import COUNT_KIND, ENTRIES_BY_NAME, HEADS_BY_NAME, end_of_prefix
from holdfast.backends.sqlite.store import PAGE_ITEMS, SqliteStore, page_size
from holdfast.items import HEAD, Item
from holdfast.paging import entry_cursor, entry_place
from holdfast.ports import Page


class SqliteCensus:
    """What is of one kind in the file."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store

    async def count(self, kind: str) -> Mapping[str, int]:
        """See ``Census.count``. It reads the index alone: about 5 ms for 100,000 heads."""
        return {str(status): int(count) for status, count in self._store.rows(COUNT_KIND, (kind,))}

    async def heads(self, prefix: str, *, after: str | None = None, limit: int = PAGE_ITEMS) -> Page:
        """See ``Census.heads``. The cursor is the name of the last partition."""
        first = prefix if after is None else max(prefix, after + "\0")
        count = page_size(limit)
        parameters = (first, end_of_prefix(prefix), count + 1)
        return self._store.read_page(
            HEADS_BY_NAME, parameters, count, lambda row: (row[0], Item(row[0], HEAD, *row[1:]))
        )

    async def entries(self, prefix: str, *, after: str | None = None, limit: int = PAGE_ITEMS) -> Page:
        """See ``Census.entries``."""
        partition, sort = ("", "") if after is None else entry_place(after)
        count = page_size(limit)
        parameters = (max(prefix, partition), end_of_prefix(prefix), partition, sort, count + 1)
        return self._store.read_page(ENTRIES_BY_NAME, parameters, count, _entry)


def _entry(row: Row) -> tuple[str, Item]:
    item = Item(*row)
    return entry_cursor(item), item
