"""The SQLite store keeps the contract of every store."""

from __future__ import annotations

from pathlib import Path

from holdfast.backends.sqlite import SqliteStore
from holdfast.ports import Store
from holdfast.testing.conformance import PurgeConformance, StoreConformance


class TestSqliteStore(StoreConformance, PurgeConformance):
    async def open_store(self, folder: Path) -> Store:
        return SqliteStore.open(str(folder / "home.db"))
