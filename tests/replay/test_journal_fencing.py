"""Whoever comes late finds out from the journal itself, wherever he stood when he was overtaken (G3)."""

from __future__ import annotations

import pytest

from holdfast.backends.memory import open_memory_home
from holdfast.coordination.lease import Fenced
from holdfast.items import Delete, Item, Put, Update
from holdfast.ports import Page
from holdfast.replay.entries import Marked
from holdfast.replay.journal import SEGMENT_PREFIX, Journal


async def journals():
    """The journals of an older owner, who has recorded something, and of a newer one."""
    store = open_memory_home().store
    await store.write(Put(Item(partition="p", owner="old", epoch=3)))
    old, new = Journal(store, "p", 0, "old", 3), Journal(store, "p", 0, "new", 4)
    old.record(Marked("first", 1))
    await old.commit()
    await store.write(Update(partition="p", owner="new", add_epoch=1))
    return store, old, new


async def epochs(store):
    return [item.epoch for item in (await store.query("p", prefix=SEGMENT_PREFIX)).items]


async def test_an_owner_overtaken_after_its_load_finds_its_place_taken():
    store, old, new = await journals()
    await new.load()
    await new.fence()
    with pytest.raises(Fenced):
        await old.fence()
    old.record(Marked("late", 2))
    with pytest.raises(Fenced):
        await old.commit()
    assert await epochs(store) == [3, 4]


async def test_an_owner_overtaken_before_its_load_does_not_write_behind_the_newer_one():
    store, _, new = await journals()
    await new.load()
    await new.fence()
    late = Journal(store, "p", 0, "late", 3)
    with pytest.raises(Fenced):
        await late.load()
    assert await epochs(store) == [3, 4]


async def test_a_newer_owner_goes_on_behind_what_the_older_one_wrote_last():
    store, old, new = await journals()
    await new.load()
    old.record(Marked("last", 2))
    await old.commit()
    await new.fence()
    assert new.entries == [Marked("first", 1), Marked("last", 2)]
    assert await epochs(store) == [3, 3, 4]


async def test_a_page_that_misses_a_segment_of_an_owner_that_still_writes_loses_nothing():
    store, old, new = await journals()
    whole = store.query

    async def torn(partition, **options):
        for number in (2, 3):
            old.record(Marked(f"late {number}", number))
            await old.commit()
        page = await whole(partition, **options)
        assert len(page.items) == 3
        return Page((page.items[0], page.items[2]), page.cursor)

    store.query = torn
    await new.load()
    store.query = whole
    await new.fence()
    assert new.entries == [Marked("first", 1), Marked("late 2", 2), Marked("late 3", 3)]
    assert await epochs(store) == [3, 3, 3, 4]


async def test_writes_without_a_segment_are_refused_to_an_older_owner_too():
    store, old, new = await journals()
    await store.write(Put(Item(partition="p", sort="i#message")))
    with pytest.raises(Fenced):
        await old.commit(Delete("p", "i#message"))
    assert await store.get("p", "i#message") is not None
    await new.commit(Delete("p", "i#message"))
    assert await store.get("p", "i#message") is None
