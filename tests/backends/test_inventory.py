"""What a store holds, by name: with a head or without, in pages, and nothing that is gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.errors import InvalidInput, StoreUnusable
from holdfast.items import HEAD, Delete, Item, Put
from holdfast.opening import open_home
from holdfast.ports import Home, Inventory


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/home.db"


async def names(home: Home, limit: int) -> list[str]:
    assert home.inventory is not None
    found: list[str] = []
    cursor = None
    while True:
        page = await home.inventory.partitions(after=cursor, limit=limit)
        assert len(page.names) <= limit
        found += page.names
        if (cursor := page.cursor) is None:
            return found


@pytest.mark.parametrize("limit", [1, 2, 100])
async def test_every_partition_is_named_once_the_oldest_first(url: str, limit: int) -> None:
    home = await open_home(url)
    assert await names(home, limit) == []
    for partition in ("c", "a", "b"):
        await home.store.write(Put(Item(partition)), Put(Item(partition, "j#1")))
    await home.store.write(Put(Item("headless", "i#1")), Put(Item("headless", "i#2")))
    await home.store.write(Put(Item("gone")), Put(Item("emptied", "i#1")))
    await home.store.write(Delete("gone", HEAD), Delete("emptied", "i#1"))
    assert await names(home, limit) == ["c", "a", "b", "headless"]
    await home.doorbell.close()
    await home.store.close()


async def test_a_cursor_is_checked_and_so_is_an_open_store(url: str) -> None:
    home = await open_home(url)
    inventory: Inventory | None = home.inventory
    assert inventory is not None
    await home.store.write(Put(Item("a")))
    with pytest.raises(InvalidInput):
        await inventory.partitions(after="nonsense")
    await home.doorbell.close()
    await home.store.close()
    with pytest.raises(StoreUnusable):
        await inventory.partitions()
