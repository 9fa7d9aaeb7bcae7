"""``Census``, of stores that count and list what is of one kind by an index."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import cast

from holdfast.items import ABSENT, EXISTS, HEAD, Delete, Item, Put, Update
from holdfast.ports import Census, Page, Store
from holdfast.testing.conformance.suite import Opened, on_store


class CensusConformance(Opened):
    """Subclass it too, if the home has ``holdfast.ports.Census``."""

    def census_of(self, store: Store) -> Census:
        """The census of an open store."""
        return cast("Census", store)

    @on_store
    async def test_heads_are_counted_by_kind_and_status(self, store: Store) -> None:
        count = self.census_of(store).count
        assert dict(await count("wf#")) == {}
        for number in range(3):
            await store.write(Put(Item(f"wf#a#{number}", status="READY"), ABSENT))
        for item in (Item("wf#b#1", status="DONE"), Item("wfx#1", status="READY"), Item("actor#a#1", status="READY")):
            await store.write(Put(item, ABSENT))
        await store.write(Put(Item("wf#headless#1", "i/1", status="READY"), ABSENT))
        assert dict(await count("wf#")) == {"READY": 3, "DONE": 1}
        await store.write(Update(partition="wf#a#0", when=EXISTS, status="DONE"))
        await store.write(Put(Item("wf#a#1", "i/1"), ABSENT))
        await store.write(Delete("wf#a#1", HEAD))
        assert dict(await count("wf#")) == {"READY": 1, "DONE": 2}
        assert dict(await count("actor#")) == {"READY": 1}

    @on_store
    async def test_heads_are_listed_by_name(self, store: Store) -> None:
        names = ["out#b", "out#a", "out#", "out", "out$", "out#a#1", "out#\U0010ffff", "other"]
        for name in names:
            await store.write(Put(Item(name, status="READY", body=name.encode()), ABSENT))
        await store.write(Put(Item("out#headless", "i/1"), ABSENT))
        wanted = sorted(name for name in names if name.startswith("out#"))
        for limit in (1, 2, 100):
            found = await _all(self.census_of(store).heads, "out#", limit)
            assert [(item.partition, item.sort, item.body) for item in found] == [
                (name, "@", name.encode()) for name in wanted
            ]
        assert [item.partition for item in await _all(self.census_of(store).heads, "out#a", 1)] == ["out#a", "out#a#1"]

    @on_store
    async def test_other_items_are_listed_by_partition_and_sort_key(self, store: Store) -> None:
        places = [(f"lease#{name}", sort) for name in ("b", "a:1", "a", "") for sort in ("p#2", "p#1", "x", "p#1:")]
        for number, place in enumerate(places):
            await store.write(Put(Item(*place, status="LEASE", owner="ann", lease_until=5, epoch=number), ABSENT))
        for item in (Item("lease#a"), Item("lease", "p#1"), Item("other#a", "p#1")):
            await store.write(Put(item, ABSENT))
        for limit in (1, 3, 100):
            found = await _all(self.census_of(store).entries, "lease#", limit)
            assert [(item.partition, item.sort) for item in found] == sorted(places)
            assert {item.epoch for item in found} == set(range(len(places)))

    @on_store
    async def test_a_status_of_a_kind_is_listed_newest_first(self, store: Store) -> None:
        for number in range(12):
            status = "FAILED" if number % 3 else "DONE"
            await store.write(Put(Item(f"wf#{'ab'[number % 2]}#{number}", status=status), ABSENT))
        await store.write(Put(Item("actor#a#1", status="FAILED"), ABSENT))
        await store.write(Update(partition="wf#a#2", when=EXISTS, status="DONE"))
        for limit in (1, 2, 100):
            found = await _all(partial(store.scan, status="FAILED"), "wf#", limit)
            assert [item.partition for item in found] == [
                f"wf#{'ab'[number % 2]}#{number}" for number in (11, 10, 8, 7, 5, 4, 1)
            ]
            found = await _all(partial(store.scan, status="FAILED"), "wf#a#", limit)
            assert [item.partition for item in found] == ["wf#a#10", "wf#a#8", "wf#a#4"]


async def _all(read: Callable[..., Awaitable[Page]], prefix: str, limit: int) -> list[Item]:
    found: list[Item] = []
    after: str | None = None
    while True:
        page = await read(prefix, after=after, limit=limit)
        assert len(page.items) <= limit
        found += page.items
        if (after := page.cursor) is None:
            return found
