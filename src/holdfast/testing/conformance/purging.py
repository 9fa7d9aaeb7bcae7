"""``purge``, of stores that leave it to their user to delete what has expired."""

from __future__ import annotations

from typing import cast

from holdfast.items import ABSENT, Item, Put
from holdfast.ports import Purges, Store
from holdfast.testing.conformance.suite import Opened, on_store


class PurgeConformance(Opened):
    """Subclass it too, if the store has ``holdfast.ports.Purges``."""

    @on_store
    async def test_purge_deletes_what_has_expired_and_nothing_else(self, store: Store) -> None:
        purge = cast("Purges", store).purge
        kept = [
            Item("kept"),
            Item("kept", "i/1", expires_at=101),
            Item("later", expires_at=101),
            Item("headless", "i/1"),
            Item("headless", "i/2", expires_at=999),
        ]
        expired = [
            Item("kept", "i/2", expires_at=100),
            Item("gone", expires_at=100),
            Item("gone", "j/1"),
            Item("gone", "j/2", expires_at=999),
            Item("alone", expires_at=1),
            Item("headless", "i/3", expires_at=100),
            Item("nothing left", "i/1", expires_at=0),
        ]
        for item in kept + expired:
            await store.write(Put(item, ABSENT))
        assert await purge(100, 0) == 0
        assert [await purge(100, 3), await purge(100, 3), await purge(100, 3), await purge(100, 3)] == [3, 3, 1, 0]
        for item in kept:
            assert await store.get(item.partition, item.sort) == item
        for item in expired:
            assert await store.get(item.partition, item.sort) is None
            await store.write(Put(item, ABSENT))
            assert await store.get(item.partition, item.sort) == item
