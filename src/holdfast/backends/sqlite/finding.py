"""The ``Finder`` port on one SQLite file: executions by their tags and times.

Each tag is a walk more than a list has (``listing``), and the one that goes furthest back is taken. Times leave out
blocks of numbers.
"""

from __future__ import annotations

import json
from typing import Final

from holdfast.backends.sqlite import store
from holdfast.backends.sqlite.listing import (
    FORGET_TAGS,
    NEWEST_BLOCK,
    OF_ALL,
    OF_TAG,
    OTHER_BLOCK,
    furthest,
    walks_for,
)
from holdfast.backends.sqlite.schema import BLOCK_BITS
from holdfast.backends.sqlite.statements import end_of_prefix
from holdfast.backends.sqlite.store import SqliteStore, page_size, place_in
from holdfast.finder import Found, Sought

NOTHING: Final = Found(())
ANY_TIME: Final = (Sought({}).since, Sought({}).until)


class SqliteFinder:
    """Finds executions in the file."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store

    async def find(
        self, prefix: str, sought: Sought, *, status: str | None = None, after: str | None = None, limit: int = 100
    ) -> Found:
        """See ``Finder.find``. The cursor is that of a scan."""
        (behind,) = (2**63 - 1,) if after is None else place_in(after, 1)
        stretch = self._blocks(sought, behind)
        if stretch is None:
            return NOTHING
        last, behind = stretch
        tags = [f"{name}={value}" for name, value in sought.tags.items()]
        walks = [*((OF_TAG, tag) for tag in tags), *walks_for(prefix, status)] or [(OF_ALL, "")]
        way = furthest(self._store.rows, walks, status, behind, store.SCAN_ROWS)
        if way is None:
            return NOTHING
        seen, walk, name = way
        last, count = max(seen, last), page_size(limit)
        names = (prefix, end_of_prefix(prefix))
        wanted = (json.dumps(tags), sought.since, sought.until)
        rows = self._store.rows(walk.names, (name, status, last, behind, *names, count + 1, *wanted))
        found = tuple(partition for _, partition in rows[:count])
        if len(rows) > count:
            return Found(found, str(rows[count - 1][0]))
        return Found(found, str(last) if last else None)

    def _blocks(self, sought: Sought, behind: int) -> tuple[int, int] | None:
        """The newest stretch of numbers below ``behind`` in which there may be executions of these times."""
        times = (sought.since, sought.until)
        if times == ANY_TIME:
            return 0, behind
        ((newest,),) = self._store.rows(NEWEST_BLOCK, ((behind - 1 >> BLOCK_BITS) + 1, *times))
        if newest is None:
            return None
        ((other,),) = self._store.rows(OTHER_BLOCK, (newest, *times))
        return 0 if other is None else other + 1 << BLOCK_BITS, min(behind, newest + 1 << BLOCK_BITS)

    async def forget(self) -> None:
        """See ``Finder.forget``."""
        await self._store.run(lambda runner: runner.change(FORGET_TAGS, ()))
