"""The SQLite store keeps the contract of every store."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from holdfast.backends.sqlite import SqliteStore
from holdfast.backends.sqlite.census import SqliteCensus
from holdfast.ports import Census, Store
from holdfast.testing.conformance import CensusConformance, PurgeConformance, StoreConformance


class TestSqliteStore(StoreConformance, PurgeConformance, CensusConformance):
    async def open_store(self, folder: Path) -> Store:
        return SqliteStore.open(str(folder / "home.db"))

    def census_of(self, store: Store) -> Census:
        return SqliteCensus(cast("SqliteStore", store))
