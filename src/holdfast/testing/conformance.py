"""What every ``Store`` must do: one suite of tests, the same for all backends.

A backend's test file is a subclass, and pytest does the rest::

    class TestMyStore(StoreConformance):
        async def open_store(self, folder: Path) -> Store:
            return await MyStore.open(folder / "data")

``StoreConformance`` is put together from one class per verb; each test is one clause of the contract in
``holdfast.ports``. The last class lets Hypothesis make up long histories and compares the store with the memory store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest

from holdfast.errors import InvalidInput, Refused, StoreError
from holdfast.items import (
    ABSENT,
    EXISTS,
    HEAD,
    UNOWNED,
    AllOf,
    Always,
    AnyOf,
    Condition,
    Delete,
    Expired,
    Item,
    LeaseLapsed,
    OwnerIs,
    Put,
    RevisionIs,
    StatusIn,
    Update,
    Write,
    holds,
)
from holdfast.ports import Page, Store
from holdfast.testing.store_machine import run_histories

SORTS: Final = (HEAD, "j/00000001")
"""A head, and an item that is none: stores may keep them apart."""

FULL: Final = Item("p", HEAD, 7, "running", "me", 500, 3, 400, 900, b"body")
"""An item with every field set."""

STATES: Final[tuple[Item | None, ...]] = (
    None,
    Item("p"),
    FULL,
    Item("p", revision=7, status="it's"),
    Item("p", revision=8, owner="me", lease_until=499, epoch=4),
    Item("p", owner="you", lease_until=500, epoch=3, expires_at=899),
    Item("p", status="done", owner=None, lease_until=501, expires_at=901),
)
"""What may be there when a condition is judged."""

SIMPLE: Final[tuple[Condition, ...]] = (
    Always(),
    ABSENT,
    EXISTS,
    UNOWNED,
    RevisionIs(7),
    RevisionIs(0),
    OwnerIs("me", 3),
    OwnerIs("me", 4),
    LeaseLapsed(500),
    LeaseLapsed(501),
    StatusIn(()),
    StatusIn(("",)),
    StatusIn(("running", "it's")),
    Expired(899),
    Expired(900),
)
CONDITIONS: Final[tuple[Condition, ...]] = (
    *SIMPLE,
    AllOf(()),
    AnyOf(()),
    *(AllOf((RevisionIs(7), each)) for each in SIMPLE),
    *(AnyOf((StatusIn(("done",)), each)) for each in SIMPLE),
    AnyOf((ABSENT, AllOf((UNOWNED, AnyOf((RevisionIs(7), Expired(900))))))),
    AllOf((AnyOf((ABSENT, UNOWNED)), AnyOf((EXISTS, ABSENT)))),
)

S = TypeVar("S", bound="Opened")


def on_store(test: Callable[[S, Store], Awaitable[None]]) -> Callable[[S, Path], None]:
    """Run a test on a store of its own, opened and closed around it, on an event loop of its own."""

    async def scenario(suite: S, folder: Path) -> None:
        store = await suite.open_store(folder)
        try:
            await test(suite, store)
        finally:
            await store.close()

    def run(self: S, tmp_path: Path) -> None:
        asyncio.run(scenario(self, tmp_path))

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


class Opened:
    """How the suite comes by a store, and what is not the same in every store."""

    knows_creation_order = True
    """``scan`` goes from the newest to the oldest."""

    leased_heads_are_due = True
    """``due`` answers leased heads too; may be false if the store's doorbell redelivers."""

    async def open_store(self, folder: Path) -> Store:
        """A new, empty store; its files, if any, go into ``folder``."""
        raise NotImplementedError


async def refusal(write: Awaitable[Sequence[Item | None]]) -> Refused:
    """The refusal that ``write`` must end in."""
    with pytest.raises(Refused) as caught:
        await write
    return caught.value


async def pages(read: Callable[[str | None], Awaitable[Page]]) -> list[Item]:
    """All items of ``read``, page after page."""
    found: list[Item] = []
    after: str | None = None
    while True:
        page = await read(after)
        found += page.items
        after = page.cursor
        if after is None:
            return found


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


class Conditions(Opened):
    """``write``: conditions mean what ``items.holds`` says."""

    @on_store
    async def test_put_applies_exactly_if_its_condition_holds(self, store: Store) -> None:
        new = Item("p", body=b"new")
        await self._judge(store, lambda sort, when: Put(_at(sort, new), when), new)

    @on_store
    async def test_update_applies_exactly_if_its_condition_holds_of_something(self, store: Store) -> None:
        for before in STATES[1:]:
            assert before is not None
            after = Item(**{name: getattr(before, name) for name in Item.__struct_fields__} | {"body": b"new"})
            await self._judge(
                store,
                lambda sort, when: Update(partition="p", sort=sort, when=when, body=b"new"),
                after,
                states=(before,),
            )

    @on_store
    async def test_delete_applies_exactly_if_its_condition_holds(self, store: Store) -> None:
        await self._judge(store, lambda sort, when: Delete("p", sort, when), None)

    async def _judge(
        self,
        store: Store,
        write: Callable[[str, Condition], Write],
        after: Item | None,
        states: Sequence[Item | None] = STATES,
    ) -> None:
        for sort in SORTS:
            for state in states:
                before = _at(sort, state)
                for when in CONDITIONS:
                    await store.write(Put(before) if before is not None else Delete("p", sort))
                    if holds(when, before):
                        await store.write(write(sort, when))
                        assert await store.get("p", sort) == _at(sort, after), (when, before)
                    else:
                        refused = await refusal(store.write(write(sort, when)))
                        assert (refused.index, refused.item) == (0, before), when
                        assert await store.get("p", sort) == before, when


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


def _at(sort: str, item: Item | None) -> Item | None: ...
