"""The store on DynamoDB keeps the contract of every store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import pytest

from holdfast.backends.aws import DynamoStore
from holdfast.items import UNOWNED, Item, LeaseLapsed, OwnerIs, Put, Update
from holdfast.ports import Store
from holdfast.testing.conformance import StoreConformance
from holdfast.testing.conformance.histories import Histories
from holdfast.testing.conformance.reads import Finding
from holdfast.testing.conformance.suite import SORTS


class OnDynamoDB:
    knows_creation_order = False
    leased_heads_are_due = False
    index_leases = True
    histories = 6
    judged_sorts = SORTS[:1]  # one table, whatever the key; test_expressions tries both

    @pytest.fixture(autouse=True)
    def _on_dynamodb(self, open_store: Any) -> None:
        self.make_store = open_store

    async def open_store(self, folder: Path) -> Store:
        return await self.make_store(index_leases=self.index_leases)


class TestDynamoStore(OnDynamoDB, StoreConformance):
    pass


class TestDynamoStoreWithoutTheIndexOfLeases(OnDynamoDB, Finding, Histories):
    index_leases = False


OpenStore = Callable[..., Awaitable[DynamoStore]]

LEFT_BEHIND: Final = Item("p", status="RUNNING", owner="me", lease_until=500, epoch=1)


class TestIndexOfLeases:
    """What a dead process has left behind is found, whatever its head was due before."""

    @pytest.mark.parametrize("due_at", [None, 100, 9_000])
    async def test_a_lease_that_ran_out_is_due(self, due_at: int | None, open_store: OpenStore) -> None:
        store = await open_store()
        await store.write(Put(Item("p", status="READY", due_at=due_at)))
        await store.write(
            Update(partition="p", when=UNOWNED, status="RUNNING", owner="me", lease_until=500, add_epoch=1)
        )
        left = Item("p", status="RUNNING", owner="me", lease_until=500, epoch=1, due_at=due_at)
        assert [(await store.due(before)).items for before in (499, 500)] == [(), (left,)]
        await store.close()

    async def test_one_that_is_born_with_a_lease_is_found_too(self, open_store: OpenStore) -> None:
        store = await open_store()
        await store.write(Put(LEFT_BEHIND))
        assert (await store.due(500)).items == (LEFT_BEHIND,)
        await store.close()

    async def test_a_lease_that_was_renewed_is_due_later(self, open_store: OpenStore) -> None:
        store = await open_store()
        await store.write(Put(LEFT_BEHIND))
        await store.write(Update(partition="p", when=LeaseLapsed(900), lease_until=900))
        assert [len((await store.due(before)).items) for before in (500, 899, 900)] == [0, 0, 1]
        await store.close()

    async def test_a_lease_that_was_released_leaves_the_index(self, open_store: OpenStore, client: Any) -> None:
        store = await open_store()
        await store.write(Put(LEFT_BEHIND))
        await store.write(Update(partition="p", when=OwnerIs("me", 1), owner=None, lease_until=None))
        assert (await store.due(10_000)).items == ()
        assert client.scan(TableName=store.table, IndexName="leases")["Items"] == []
        await store.close()

    async def test_a_store_without_it_leaves_them_out(self, open_store: OpenStore, client: Any) -> None:
        store = await open_store(index_leases=False)
        await store.write(Put(LEFT_BEHIND))
        await store.write(Update(partition="p", owner="you", lease_until=600, add_epoch=1))
        assert (await store.due(10_000)).items == ()
        assert client.scan(TableName=store.table, IndexName="leases")["Items"] == []
        await store.close()
