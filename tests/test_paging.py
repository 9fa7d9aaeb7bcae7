"""Reading everything of a query, page after page."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from holdfast.backends.memory.data import MemoryData
from holdfast.backends.memory.store import MemoryStore
from holdfast.items import Item, Put
from holdfast.paging import Pages, heads, items
from holdfast.ports import Page


class CountedStore(MemoryStore):
    """Counts the pages it is asked for."""

    def __init__(self) -> None:
        super().__init__(MemoryData())
        self.asked = 0

    async def query(self, partition: str, *, prefix: str = "", after: str | None = None, limit: int = 1000) -> Page:
        self.asked += 1
        return await super().query(partition, prefix=prefix, after=after, limit=limit)


async def a_store_of(sorts: Sequence[str]) -> CountedStore:
    store = CountedStore()
    for sort in sorts:
        await store.write(Put(Item(partition="p", sort=sort)))
    return store


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 1000])
async def test_all_items_are_read_whatever_the_pages(limit: int) -> None:
    store = await a_store_of(["a", "j/1", "j/2", "j/3", "j/4", "k"])
    assert [item.sort async for item in items(store, "p", prefix="j/", limit=limit)] == ["j/1", "j/2", "j/3", "j/4"]
    assert [item.sort async for item in items(store, "p", prefix="j/", after="j/2", limit=limit)] == ["j/3", "j/4"]


async def test_no_page_is_asked_for_before_it_is_needed_and_none_behind_the_last() -> None:
    store = await a_store_of(["1", "2", "3"])
    found = items(store, "p", limit=2)
    assert store.asked == 0
    await anext(found)
    await anext(found)
    assert store.asked == 1
    assert [item.sort async for item in found] == ["3"]
    assert [item async for item in found] == []
    assert store.asked == 2


async def test_a_page_may_be_empty_although_there_are_more() -> None:
    pages = {None: Page((), "1"), "1": Page((), "2"), "2": Page((Item("p"),))}

    async def read(after: str | None) -> Page:
        return pages[after]

    assert [len(page.items) async for page in Pages(read)] == [0, 0, 1]


async def test_heads_are_found_by_prefix_and_status() -> None:
    store = MemoryStore(MemoryData())
    for number in range(5):
        await store.write(Put(Item(partition=f"p{number}", status="odd" if number % 2 else "even")))
    found = [head.partition async for head in heads(store, "p", status="even", limit=1)]
    assert sorted(found) == ["p0", "p2", "p4"]
