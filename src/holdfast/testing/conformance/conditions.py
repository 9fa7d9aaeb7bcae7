"""``Store.write``: every condition means what ``items.holds`` says, for heads and for other items."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from msgspec.structs import replace

from holdfast.items import (
    ABSENT,
    EXISTS,
    UNOWNED,
    AllOf,
    Always,
    AnyOf,
    Condition,
    Delete,
    EpochIs,
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
from holdfast.ports import Store
from holdfast.testing.conformance.suite import Opened, on_store, refusal

STATES: Final[tuple[Item | None, ...]] = (
    None,
    Item("p"),
    Item("p", "", 7, "running", "me", 500, 3, 400, 900, b"body"),
    Item("p", revision=7, status="it's"),
    Item("p", revision=8, owner="me", lease_until=499, epoch=4),
    Item("p", owner="you", lease_until=500, epoch=3, expires_at=899),
    Item("p", status="done", owner=None, lease_until=501, expires_at=901),
)
"""The possible items when a condition is judged."""

SIMPLE: Final[tuple[Condition, ...]] = (
    Always(),
    ABSENT,
    EXISTS,
    UNOWNED,
    RevisionIs(7),
    RevisionIs(0),
    EpochIs(3),
    EpochIs(4),
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


class Conditions(Opened):
    """Each condition, of each state, in each kind of write."""

    @on_store
    async def test_put_applies_exactly_if_its_condition_holds(self, store: Store) -> None:
        new = Item("p", body=b"new")
        await self._judge(store, STATES, lambda sort, when: Put(replace(new, sort=sort), when), lambda _: new)

    @on_store
    async def test_update_applies_exactly_if_its_condition_holds_of_something(self, store: Store) -> None:
        await self._judge(
            store,
            STATES[1:],
            lambda sort, when: Update(partition="p", sort=sort, when=when, body=b"new"),
            lambda before: before and replace(before, body=b"new"),
        )

    @on_store
    async def test_delete_applies_exactly_if_its_condition_holds(self, store: Store) -> None:
        await self._judge(store, STATES, lambda sort, when: Delete("p", sort, when), lambda _: None)

    async def _judge(
        self,
        store: Store,
        states: Sequence[Item | None],
        write: Callable[[str, Condition], Write],
        changed: Callable[[Item | None], Item | None],
    ) -> None:
        for sort in self.judged_sorts:
            for state in states:
                before, after = _at(sort, state), _at(sort, changed(state))
                for when in CONDITIONS:
                    await store.write(Delete("p", sort) if before is None else Put(before))
                    if holds(when, before):
                        await store.write(write(sort, when))
                        assert await store.get("p", sort) == after, (when, before)
                    else:
                        refused = await refusal(store.write(write(sort, when)))
                        assert (refused.index, refused.item) == (0, before), when
                        assert await store.get("p", sort) == before, when


def _at(sort: str, item: Item | None) -> Item | None:
    return None if item is None else replace(item, sort=sort)
