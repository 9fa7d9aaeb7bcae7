"""The store on DynamoDB keeps the contract of every store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.ports import Store
from holdfast.testing.conformance import StoreConformance
from holdfast.testing.conformance.histories import Histories
from holdfast.testing.conformance.reads import Finding


class OnDynamoDB:
    knows_creation_order = False
    leased_heads_are_due = False
    index_leases = True
    histories = 15

    @pytest.fixture(autouse=True)
    def _on_dynamodb(self, open_store: Any) -> None:
        self.make_store = open_store

    async def open_store(self, folder: Path) -> Store:
        return await self.make_store(index_leases=self.index_leases)


class TestDynamoStore(OnDynamoDB, StoreConformance):
    pass


class TestDynamoStoreWithoutTheIndexOfLeases(OnDynamoDB, Finding, Histories):
    index_leases = False
