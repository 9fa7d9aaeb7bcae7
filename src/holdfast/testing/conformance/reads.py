"""``Store.get``, ``query``, ``due``, ``scan`` and ``close``."""

from __future__ import annotations

from functools import partial

import pytest

from holdfast.errors import StoreError
from holdfast.items import ABSENT, HEAD, Delete, Item, Put, Update
from holdfast.ports import Store
from holdfast.testing.conformance.suite import SORTS, Opened, on_store, pages


class Reading(Opened):
    """``get`` and ``query``: the items of one partition."""

    @on_store
    async def test_get_answers_nothing_where_nothing_is(self, store: Store) -> None:
        await store.write(Put(Item("p", "j/1")), Put(Item("q")))
        assert await store.get("p") is None
        assert await store.get("q", "j/1") is None
        assert await store.get("none") is None
        assert await store.get("none", "j/1") is None

    @on_store
    async def test_get_sees_every_acknowledged_write(self, store: Store) -> None:
        for sort in SORTS:
            await store.write(Put(Item("p", sort)))
            for revision in range(1, 20):
                await store.write(Update(partition="p", sort=sort, add_revision=1))
                assert await store.get("p", sort) == Item("p", sort, revision=revision)

    @on_store
    async def test_expired_items_are_read_until_they_are_deleted(self, store: Store) -> None:
        for sort in SORTS:
            await store.write(Put(Item("p", sort, expires_at=1)))
            assert await store.get("p", sort) == Item("p", sort, expires_at=1)

    @on_store
    async def test_query_goes_by_sort_key(self, store: Store) -> None:
        # By code point, as Python compares: U+FFFF comes before U+10000, unlike in UTF-16.
        sorts = ["!", "0", "9", HEAD, "A", "a", "a/1", "a/10", "a/2", "é", "\uffff", "\U00010000"]
        assert sorts == sorted(sorts)
        for sort in reversed(sorts):
            await store.write(Put(Item("p", sort, body=sort.encode())), Put(Item("q", sort)))
        page = await store.query("p")
        assert page.items == tuple(Item("p", sort, body=sort.encode()) for sort in sorts)
        assert page.cursor is None
        for limit in (1, 2, 5, 11, 12, 13):
            found = await pages(partial(store.query, "p", limit=limit))
            assert [item.sort for item in found] == sorts

    @on_store
    async def test_query_takes_only_what_begins_with_the_prefix(self, store: Store) -> None:
        sorts = [
            "%",
            "%a",
            HEAD,
            "@@",
            "J/1",
            "_",
            "a",
            "j",
            "j/",
            "j/1",
            "j/\uffff",
            "j/\U0010ffff",
            "j0",
            "k",
            "é",
            "\ud7ff",
            "\ue000",
        ]
        for sort in sorts:
            await store.write(Put(Item("p", sort)))
        for prefix in ("", "%", "_", "@", "j", "j/", "j/\U0010ffff", "\U0010ffff", "é", "\ud7ff", "x"):
            for limit in (1, 3, 100):
                found = await pages(partial(store.query, "p", prefix=prefix, limit=limit))
                assert [item.sort for item in found] == [sort for sort in sorts if sort.startswith(prefix)], prefix
        assert (await store.query("none")).items == ()

    @on_store
    async def test_a_query_goes_on_while_items_come_and_go(self, store: Store) -> None:
        for number in range(10):
            await store.write(Put(Item("p", f"j/{number}")))
        page = await store.query("p", prefix="j/", limit=4)
        assert page.cursor is not None
        await store.write(Delete("p", "j/3"), Delete("p", "j/4"), Put(Item("p", "j/11")), Put(Item("p", "j/90")))
        page = await store.query("p", prefix="j/", after=page.cursor)
        assert [item.sort for item in page.items] == ["j/5", "j/6", "j/7", "j/8", "j/9", "j/90"]

    @on_store
    async def test_pages_are_bounded(self, store: Store) -> None:
        for start in range(0, 1500, 100):
            await store.write(*(Put(Item("p", f"{number:05}")) for number in range(start, start + 100)))
        page = await store.query("p", limit=10**9)
        assert 0 < len(page.items) <= 1000
        assert page.cursor is not None
        assert len(await pages(partial(store.query, "p", limit=10**9))) == 1500
        assert len((await store.query("p", limit=0)).items) == 1

    @on_store
    async def test_closing_finishes_the_writes_already_accepted(self, store: Store) -> None:
        answers = [store.write(Put(Item("p", f"{number}"), ABSENT)) for number in range(10)]
        await store.close()
        for answer in answers:
            assert list(await answer) == [None]
        with pytest.raises(StoreError):
            await store.write(Put(Item("q")))
        with pytest.raises(StoreError):
            await store.get("p")
        await store.close()


class Finding(Opened):
    """``due`` and ``scan``: heads of all partitions."""

    @on_store
    async def test_due_goes_by_time(self, store: Store) -> None:
        await store.write(
            Put(Item("never")),
            Put(Item("late", due_at=300)),
            Put(Item("early", due_at=100)),
            Put(Item("middle", due_at=200, status="waiting")),
            Put(Item("middle", "j/1", due_at=50)),
        )
        assert (await store.due(99)).items == ()
        assert [item.partition for item in (await store.due(100)).items] == ["early"]
        assert [item.partition for item in (await store.due(200)).items] == ["early", "middle"]
        assert (await store.due(1000)).items == (
            Item("early", due_at=100),
            Item("middle", due_at=200, status="waiting"),
            Item("late", due_at=300),
        )

    @on_store
    async def test_a_leased_head_is_due_when_its_lease_runs_out(self, store: Store) -> None:
        await store.write(Put(Item("leased", owner="me", lease_until=500, due_at=100)), Put(Item("free", due_at=300)))
        assert [item.partition for item in (await store.due(499)).items] == ["free"]
        found = [item.partition for item in (await store.due(500)).items]
        assert found == ["free", "leased"] or ("free" in found and not self.leased_heads_are_due)
        await store.write(Update(partition="leased", owner=None, lease_until=None))
        assert [item.partition for item in (await store.due(500)).items] == ["leased", "free"]

    @on_store
    async def test_due_pages_lose_and_repeat_nothing(self, store: Store) -> None:
        heads = [Item(f"p:{number}", due_at=number // 10) for number in range(50)]
        for head in heads:
            await store.write(Put(head))
        for limit in (1, 3, 10, 49, 50, 51):
            found = await pages(partial(store.due, 100, limit=limit))
            assert [head.due_at for head in found] == [head.due_at for head in heads]
            assert {head.partition for head in found} == {head.partition for head in heads}

    @on_store
    async def test_due_goes_on_while_heads_move(self, store: Store) -> None:
        for number in range(20):
            await store.write(Put(Item(f"p{number:02}", due_at=7)))
        page = await store.due(10, limit=10)
        assert page.cursor is not None
        seen = [head.partition for head in page.items]
        rest = {f"p{number:02}" for number in range(20)} - set(seen)
        # The heads seen are handled, as by the sweep: they are not due any more.
        for partition in seen:
            await store.write(Update(partition=partition, due_at=None))
        await store.write(Put(Item("later", due_at=8)), Put(Item("earlier", due_at=1)))
        found = await pages(partial(store.due, 10, limit=3), page.cursor)
        assert {head.partition for head in found} == rest | {"later"}

    @on_store
    async def test_scan_finds_heads_by_prefix_and_status(self, store: Store) -> None:
        heads = [
            Item("w/a/1", status="done", body=b"body", revision=3),
            Item("w/a/2", status="failed"),
            Item("w/b/1", status="done"),
            Item("w/a%", status="done"),
            Item("v/a/1", status=""),
        ]
        for head in heads:
            await store.write(Put(head), Put(Item(head.partition, "j/1", status="done")))
        for prefix in ("", "w/", "w/a/", "w/a", "w/a%", "v", "x", "%"):
            for status in (None, "done", "failed", "", "none"):
                for limit in (1, 2, 100):
                    found = await pages(partial(store.scan, prefix, status=status, limit=limit))
                    expected = [
                        head
                        for head in reversed(heads)
                        if head.partition.startswith(prefix) and status in {None, head.status}
                    ]
                    if self.knows_creation_order:
                        assert found == expected
                    else:
                        assert sorted(map(repr, found)) == sorted(map(repr, expected))

    @on_store
    async def test_a_scan_goes_on_while_heads_come_and_go(self, store: Store) -> None:
        for number in range(10):
            await store.write(Put(Item(f"p{number}")))
        page = await store.scan("p", limit=4)
        assert page.cursor is not None
        seen = [head.partition for head in page.items]
        last = seen[-1]
        await store.write(Delete(last, HEAD), Put(Item("p/new")))
        rest = [head.partition for head in await pages(partial(store.scan, "p"), page.cursor)]
        assert not set(seen) & set(rest)
        assert set(seen) | set(rest) | {"p/new"} == {f"p{number}" for number in range(10)} | {"p/new"}
