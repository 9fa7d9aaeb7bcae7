"""A simulated world on a real SQLite file: several processes, one file, virtual time.

Each process has connections of its own. A commit happens in one piece on the loop, as it does in the library while the
disk is fast, so processes never wait for each other's locks; doorbells are simulated.
"""

from __future__ import annotations

import math
from pathlib import Path
from unittest import mock

from holdfast.backends.memory import MemoryData, MemoryDoorbell
from holdfast.backends.sqlite import writer
from holdfast.backends.sqlite.store import SqliteStore
from holdfast.items import Item
from holdfast.ports import Home
from holdfast.testing.oracles import SALT, WatchedData
from holdfast.testing.virtual_time import outside


class SqliteDatabase:
    """One new file in ``folder``, which must exist. Give a folder in memory if there is one: it is synced for real."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / f"world-{sum(1 for _ in folder.iterdir())}.db"
        self._bells = MemoryData()
        self._stores: list[SqliteStore] = []
        self._patience = mock.patch.object(writer, "SLOW_COMMIT_SECONDS", math.inf)
        self._patience.start()
        self._violations: list[str] = []

    async def open(self, owner: str) -> Home:
        store = self._open_store()
        return Home(
            url=f"sqlite:///{self._path}",
            owner=owner,
            store=store,
            doorbell=MemoryDoorbell(self._bells, owner),
            transactions=store,
            salt=SALT,
        )

    def _open_store(self) -> SqliteStore:
        store = outside().run(SqliteStore.open, str(self._path))
        self._stores.append(store)
        return store

    async def items(self) -> list[Item]:
        store = self._open_store()
        found: list[Item] = []
        after: str | None = None
        while True:
            heads = await store.scan("", after=after)
            for head in heads.items:
                found += await self._entity(store, head.partition)
            if (after := heads.cursor) is None:
                break
        await store.close()
        self._stores.remove(store)
        self._check(found)
        return found

    async def _entity(self, store: SqliteStore, partition: str) -> list[Item]:
        found: list[Item] = []
        after: str | None = None
        while True:
            page = await store.query(partition, after=after)
            found += page.items
            if (after := page.cursor) is None:
                return found

    def _check(self, items: list[Item]) -> None:
        """What the watched memory checks at every write is checked here from time to time."""
        watched = WatchedData()
        for item in sorted(items, key=lambda item: (item.partition, item.sort)):
            watched.check_segment_at_rest(item)
        self._violations = watched.violations

    def attempted(self, key: str, process: str, *, excused: bool) -> None:
        pass  # a file is only looked at when all is over

    def watch_queues(self, allowed: object) -> None:
        pass

    def violations(self) -> list[str]:
        return self._violations

    def forget(self, owner: str) -> None:
        self._bells.listeners.pop(owner, None)

    async def close(self) -> None:
        for store in self._stores:
            await store.close()
        self._patience.stop()
