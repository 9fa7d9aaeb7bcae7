"""The store on DynamoDB keeps the contract of every store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import pytest

from holdfast.backends.aws import DynamoStore
from holdfast.errors import Refused
from holdfast.items import UNOWNED, Item, LeaseLapsed, Put, Update
from holdfast.ports import Store
from holdfast.testing.conformance import StoreConformance
from holdfast.testing.conformance.suite import SORTS


class OnDynamoDB:
    knows_creation_order = False
    leased_heads_are_due = False
    histories = message_histories = 6
    judged_sorts = SORTS[:1]  # one table, whatever the key; test_expressions tries both

    @pytest.fixture(autouse=True)
    def _on_dynamodb(self, open_store: Any) -> None:
        self.make_store = open_store

    async def open_store(self, folder: Path) -> Store:
        return await self.make_store()


class TestDynamoStore(OnDynamoDB, StoreConformance):
    pass


OpenStore = Callable[..., Awaitable[DynamoStore]]

LEFT_BEHIND: Final = Item("p", status="RUNNING", owner="me", lease_until=500, epoch=1, due_at=400)


class TestLeftBehind:
    """What a dead process has left behind is found by when its head was due; with nothing due there is nothing."""

    @pytest.mark.parametrize(("due_at", "found_from"), [(100, 500), (700, 700), (None, None)])
    async def test_a_lease_that_ran_out_is_due_by_what_is_to_be_done(
        self, due_at: int | None, found_from: int | None, open_store: OpenStore
    ) -> None:
        store = await open_store()
        await store.write(Put(Item("p", status="READY", due_at=due_at)))
        await store.write(
            Update(partition="p", when=UNOWNED, status="RUNNING", owner="me", lease_until=500, add_epoch=1)
        )
        left = Item("p", status="RUNNING", owner="me", lease_until=500, epoch=1, due_at=due_at)
        for before in (499, 500, 699, 700, 10_000):
            due = found_from is not None and before >= found_from
            assert (await store.due(before)).items == ((left,) if due else ()), before
        await store.close()

    async def test_one_that_is_born_with_a_lease_is_found_too(self, open_store: OpenStore) -> None:
        store = await open_store()
        await store.write(Put(LEFT_BEHIND))
        assert [(await store.due(before)).items for before in (499, 500)] == [(), (LEFT_BEHIND,)]
        await store.close()

    async def test_a_lease_that_was_renewed_is_due_later(self, open_store: OpenStore) -> None:
        store = await open_store()
        await store.write(Put(LEFT_BEHIND))
        await store.write(Update(partition="p", when=LeaseLapsed(900), lease_until=900))
        assert [len((await store.due(before)).items) for before in (500, 899, 900)] == [0, 0, 1]
        await store.close()

    async def test_a_lease_takes_no_index(self, open_store: OpenStore, client: Any) -> None:
        store = await open_store()
        indexes = client.describe_table(TableName=store.table)["Table"]["GlobalSecondaryIndexes"]
        assert [each["IndexName"] for each in indexes] == ["due"]
        await store.write(Put(Item("p", owner="me", lease_until=500, epoch=1)))
        assert client.scan(TableName=store.table, IndexName="due")["Items"] == []
        await store.close()


async def test_an_update_of_a_message_that_is_gone_is_refused_by_one_request(open_store: OpenStore) -> None:
    """Only a deletion may be for a message in the other form, and looks again."""
    store = await open_store()
    await store.write(Put(Item("p")))
    store.meter.reset()
    with pytest.raises(Refused) as refused:
        await store.write(Update(partition="p", sort="i#await#1", status="used"))
    assert (refused.value.index, refused.value.item) == (0, None)
    assert store.meter.total.requests == 1
    await store.close()
