"""Pages of the ids of messages that were applied (G5)."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

from msgspec import Raw

from holdfast.actors.mailbox.post import Backlogs
from holdfast.actors.mailbox.queue import Delivery, Replied
from holdfast.actors.record import ActorRecord, Call
from holdfast.actors.turn.applied import MOST_RECENT, is_noted, on_pages, page_of, paged
from holdfast.actors.turn.entity import Loaded
from holdfast.actors.turn.make_room import make_room
from holdfast.actors.turn.performed import Finished, Version
from holdfast.backends.memory.store import MemoryData, MemoryStore

PARTITION = "actor#Log#l"
NOW = 1_000


def record(ids=(), up_to=""):
    return ActorRecord(schema=1, state=Raw(b"{}"), recent=dict.fromkeys(ids, NOW + 1), paged_up_to=up_to)


def finished(id):
    call = Call(id=id, method="write", args=Raw(b"[]"), known=True)
    return Finished(Delivery(call), Replied(), Version(record(), b"{}"), paged=id)


async def test_a_page_that_comes_late_replaces_no_other_of_the_same_greatest_id():
    store = MemoryStore(MemoryData())
    ids = [f"{number:03}" for number in range(MOST_RECENT)]
    left, late = paged(record(ids), PARTITION, NOW)
    assert late is not None and not left.recent
    await store.write(*page_of([finished("new"), finished(ids[-1])], PARTITION, NOW))
    await store.write(*page_of([finished("0"), finished(ids[-1])], PARTITION, NOW))
    await store.write(late)
    assert await on_pages((*ids, "new", "0", "other"), record(up_to="new"), PARTITION, store) == {*ids, "new", "0"}


async def test_an_id_beyond_all_pages_needs_no_look():
    class Unread(MemoryStore):
        async def query(self, *_where, **_how):
            raise AssertionError("a look for nothing")

    store = Unread(MemoryData())
    assert not await on_pages(("5",), record(up_to="4"), PARTITION, store)
    assert await is_noted("5", record(["5"], "4"), PARTITION, store)


def test_a_head_with_room_keeps_its_ids():
    kept = record([f"{number}" for number in range(MOST_RECENT - 1)])
    assert paged(kept, PARTITION, NOW) == (kept, None)


async def test_what_waits_is_counted_again_after_a_rest():
    backlogs, now = Backlogs(), asyncio.get_running_loop().time()
    assert not backlogs.rests(PARTITION, now)
    backlogs.rest(PARTITION, now + 0.25)
    assert backlogs.rests(PARTITION, now + 0.2)
    assert not backlogs.rests(PARTITION, now + 0.3)


async def test_a_commit_that_comes_while_ids_move_is_kept():
    full = Version(record(map(str, range(MOST_RECENT))), b"{}")
    newer = Version(record(["later"]), b"{}")
    state = Loaded(full, full, None)
    moved = []

    class Store(MemoryStore):
        async def write(self, *writes):
            moved.extend(writes)
            state.version = state.committed = newer
            return await super().write(*writes)

    home = SimpleNamespace(store=Store(MemoryData()))
    runtime = SimpleNamespace(home=home, clock=SimpleNamespace(now_ms=lambda: NOW))
    await make_room(SimpleNamespace(state=state, settled=True, partition=PARTITION), runtime)
    assert len(moved) == 1
    assert state.version is newer
