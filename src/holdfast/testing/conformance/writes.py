"""``Store.write``: one item, several items, several calls."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast.errors import InvalidInput, Refused
from holdfast.items import ABSENT, EXISTS, HEAD, UNOWNED, Always, AnyOf, Delete, Item, Put, RevisionIs, Update
from holdfast.ports import Store
from holdfast.testing.conformance.suite import SORTS, Opened, on_store, refusal


class Writing(Opened):
    """``write``: one item at a time."""

    @on_store
    async def test_put_stores_every_field(self, store: Store) -> None:
        for sort in SORTS:
            item = Item("p", sort, 7, "running", "me", 500, 3, 400, 900, bytes(range(256)))
            assert list(await store.write(Put(item))) == [None]
            assert await store.get("p", sort) == item

    @on_store
    async def test_put_replaces_every_field(self, store: Store) -> None:
        for sort in SORTS:
            await store.write(Put(Item("p", sort, 7, "running", "me", 500, 3, 400, 900, b"body")))
            await store.write(Put(Item("p", sort)))
            assert await store.get("p", sort) == Item("p", sort)

    @on_store
    async def test_update_changes_what_is_named_and_keeps_the_rest(self, store: Store) -> None:
        changes: dict[str, Any] = {
            "status": "done",
            "owner": None,
            "lease_until": None,
            "due_at": 77,
            "expires_at": None,
            "body": b"",
            "add_revision": 2,
            "add_epoch": 1,
        }
        for sort in SORTS:
            item = Item("p", sort, 7, "running", "me", 500, 3, 400, 900, b"body")
            for name, value in changes.items():
                await store.write(Put(item), Put(Item("other", sort)))
                await store.write(Update(partition="p", sort=sort, **{name: value}))
                field, new = name.removeprefix("add_"), value
                if name.startswith("add_"):
                    new = getattr(item, field) + value
                expected = {each: getattr(item, each) for each in Item.__struct_fields__} | {field: new}
                assert await store.get("p", sort) == Item(**expected)
            assert await store.get("other", sort) == Item("other", sort)

    @on_store
    async def test_update_answers_the_item_as_it_is_afterwards_if_asked(self, store: Store) -> None:
        for sort in SORTS:
            await store.write(Put(Item("p", sort, revision=1, body=b"old")))
            silent = await store.write(Update(partition="p", sort=sort, add_revision=1))
            loaded = await store.write(Update(partition="p", sort=sort, add_revision=1, body=b"new", load=True))
            assert list(silent) == [None]
            assert list(loaded) == [Item("p", sort, revision=3, body=b"new")]

    @on_store
    async def test_update_of_what_is_not_there_is_refused_whatever_its_condition(self, store: Store) -> None:
        for sort in SORTS:
            for when in (Always(), ABSENT, EXISTS, AnyOf((ABSENT, EXISTS))):
                refused = await refusal(store.write(Update(partition="p", sort=sort, when=when, load=True)))
                assert (refused.index, refused.item) == (0, None)
            assert await store.get("p", sort) is None

    @on_store
    async def test_delete_removes_one_item(self, store: Store) -> None:
        for sort, other in (SORTS, reversed(SORTS)):
            await store.write(Put(Item("p", sort)), Put(Item("p", other)), Put(Item("q", sort)))
            assert list(await store.write(Delete("p", sort))) == [None]
            assert await store.get("p", sort) is None
            assert await store.get("p", other) == Item("p", other)
            assert await store.get("q", sort) == Item("q", sort)

    @on_store
    async def test_delete_of_what_is_not_there_is_refused_only_if_it_had_to_be_there(self, store: Store) -> None:
        for sort in SORTS:
            assert list(await store.write(Delete("p", sort))) == [None]
            assert list(await store.write(Delete("p", sort, ABSENT))) == [None]
            assert (await refusal(store.write(Delete("p", sort, EXISTS)))).item is None

    @on_store
    async def test_an_item_can_be_there_without_its_head(self, store: Store) -> None:
        entry = Item("p", "i/1", due_at=1, body=b"message")
        await store.write(Put(entry, ABSENT))
        assert await store.get("p") is None
        assert (await store.scan("")).items == ()
        assert (await store.due(10)).items == ()
        assert (await store.query("p")).items == (entry,)
        assert (await refusal(store.write(Update(partition="p", when=UNOWNED)))).item is None
        await store.write(Put(Item("p", body=b"head"), ABSENT))
        assert (await store.query("p")).items == (Item("p", body=b"head"), entry)
        await store.write(Delete("p", HEAD, EXISTS))
        assert await store.get("p") is None
        assert (await store.query("p")).items == (entry,)

    @on_store
    async def test_any_text_and_any_bytes_come_back_unchanged(self, store: Store) -> None:
        texts = ["it's", '"', "a;--", "%_", "\\", "new\nline", "ümläut", "日本", "🪸", "\uffff", "x" * 500]
        items = [Item(f"p{text}", f"s{text}", status=text, owner=text, body=text.encode()) for text in texts]
        items += [Item(f"p{text}", status=text, owner=text, body=text.encode()) for text in texts]
        items += [Item("big", body=bytes(300_000)), Item("big", "s", body=b"\xff" * 300_000)]
        for item in items:
            await store.write(Put(item, ABSENT))
        for item in items:
            assert await store.get(item.partition, item.sort) == item


class AllOrNothing(Opened):
    """``write``: several items at once, and several calls at once."""

    @on_store
    async def test_the_writes_of_a_call_apply_together(self, store: Store) -> None:
        await store.write(Put(Item("p")), Put(Item("p", "old")))
        answer = await store.write(
            Put(Item("p", "j/1"), ABSENT),
            Update(partition="p", add_revision=1, load=True),
            Delete("p", "old", EXISTS),
            Put(Item("q"), ABSENT),
        )
        assert list(answer) == [None, Item("p", revision=1), None, None]
        assert (await store.query("p")).items == (Item("p", revision=1), Item("p", "j/1"))
        assert await store.get("q") == Item("q")

    @on_store
    async def test_a_refused_write_takes_the_whole_call_with_it(self, store: Store) -> None:
        there = Item("p", revision=4, body=b"as it is")
        await store.write(Put(there), Put(Item("p", "old")))
        refused = await refusal(
            store.write(
                Put(Item("p", "j/1"), ABSENT),
                Delete("p", "old"),
                Put(Item("q", "entry without a head")),
                Update(partition="p", when=RevisionIs(3), status="never"),
                Put(Item("r"), EXISTS),
            )
        )
        assert (refused.index, refused.item) == (3, there)
        assert (await store.query("p")).items == (there, Item("p", "old"))
        assert (await store.query("q")).items == ()

    @on_store
    async def test_two_writes_of_one_item_in_a_call_are_an_error(self, store: Store) -> None:
        for sort in SORTS:
            with pytest.raises(InvalidInput):
                await store.write(Put(Item("p", sort)), Put(Item("q", sort)), Update(partition="p", sort=sort))
            assert await store.get("p", sort) is None
            assert await store.get("q", sort) is None

    @on_store
    async def test_calls_apply_in_their_order(self, store: Store) -> None:
        answers = [store.write(Put(Item("p"), ABSENT))]
        answers += [store.write(Update(partition="p", add_revision=1, load=True)) for _ in range(50)]
        answers += [store.write(Put(Item("p"), ABSENT)), store.write(Delete("p", HEAD, RevisionIs(50)))]
        *found, refused, deleted = await asyncio.gather(*answers, return_exceptions=True)
        assert [list(each) for each in found if not isinstance(each, BaseException)] == [
            [None],
            *([Item("p", revision=number)] for number in range(1, 51)),
        ]
        assert isinstance(refused, Refused)
        assert refused.item == Item("p", revision=50)
        assert not isinstance(deleted, BaseException)
        assert await store.get("p") is None

    @on_store
    async def test_a_refused_call_leaves_its_neighbours_alone(self, store: Store) -> None:
        calls = [
            store.write(Put(Item("p", f"{number:03}"), ABSENT), Put(Item("q", f"{number % 7}"), ABSENT))
            for number in range(21)
        ]
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert [isinstance(each, Refused) for each in outcomes] == [number >= 7 for number in range(21)]
        assert [item.sort for item in (await store.query("p")).items] == [f"{number:03}" for number in range(7)]

    @on_store
    async def test_a_refusal_is_enough_to_try_again(self, store: Store) -> None:
        async def increment() -> None:
            item: Item | None = None
            while True:
                when = ABSENT if item is None else RevisionIs(item.revision)
                new = Item("p", revision=1 if item is None else item.revision + 1)
                try:
                    await store.write(Put(new, when))
                except Refused as refused:
                    item = refused.item
                else:
                    return

        await asyncio.gather(*(increment() for _ in range(40)))
        assert await store.get("p") == Item("p", revision=40)

    @on_store
    async def test_a_caller_who_goes_away_disturbs_nobody(self, store: Store) -> None:
        async def put(partition: str) -> None:
            await store.write(Put(Item(partition), ABSENT))

        tasks = [asyncio.create_task(put(f"p{number}")) for number in range(9)]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for number in range(1, 9, 2):
            assert await store.get(f"p{number}") == Item(f"p{number}")
