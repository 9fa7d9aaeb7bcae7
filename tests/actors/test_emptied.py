"""A head whose body was emptied is damaged, and no actor that has not begun."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace
from tests.coordination.sealing.secrets_kept import Cipher

import holdfast as hf
from holdfast.actors.record import BLOCKED, READY, RUNNING, UNWRITTEN, partition_of
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.errors import StoreUnusable
from holdfast.items import HEAD, Item
from holdfast.ports import Home

PLACE = partition_of("Box", "k")

SEALS = {"open": None, "lenient": Cipher(b"key"), "strict": hf.SealedOnly(Cipher(b"key"))}


class Place:
    """An app with an actor, opened anew on the same data each time."""

    def __init__(self, data: MemoryData, seal: Any, *, optimistic: bool) -> None:
        async def opened() -> Home:
            return open_memory_home(data=data)

        self.app = hf.App("shop", home=opened, seal=seal)

        class Box(hf.Actor, app=self.app, optimistic=optimistic):
            n: int = 0

            async def add(self) -> int:
                self.n += 1
                return self.n

            async def same(self) -> int:
                return self.n

            @hf.read
            async def get(self) -> int:
                return self.n

        self.at = Box.at("k")
        self.send = lambda: hf.send(self.at.add)
        self.handle = self.app.actor("Box", "k")


def head_of(data: MemoryData) -> Item:
    return data.partitions[PLACE][HEAD]


def empty(data: MemoryData) -> Item:
    data.set(replace(head_of(data), body=b""))
    return head_of(data)


@pytest.mark.parametrize("optimistic", [False, True], ids=["leased", "optimistic"])
@pytest.mark.parametrize("seal", SEALS.values(), ids=SEALS)
@pytest.mark.parametrize("method", ["add", "same", "get"])
async def test_an_emptied_head_is_refused_and_not_written_over(method, seal, optimistic):
    data = MemoryData()
    place = Place(data, seal, optimistic=optimistic)
    async with place.app.worker():
        assert await place.at.add() == 1
    kept = head_of(data).body
    empty(data)
    place = Place(data, seal, optimistic=optimistic)
    async with place.app.worker():
        for _ in range(2):
            with pytest.raises(StoreUnusable, match="it is empty"):
                await getattr(place.at, method)()
        assert head_of(data).body == b""
        assert "it is empty" in ((await place.handle.status()).damaged or "")
    data.set(replace(head_of(data), body=kept))
    place = Place(data, seal, optimistic=optimistic)
    async with place.app.worker():
        assert await place.at.add() == 2


@pytest.mark.parametrize("optimistic", [False, True], ids=["leased", "optimistic"])
async def test_a_message_finds_an_emptied_head_and_waits_for_its_body(optimistic):
    data = MemoryData()
    place = Place(data, None, optimistic=optimistic)
    async with place.app.worker():
        await place.at.add()
    kept = head_of(data).body
    empty(data)
    place = Place(data, None, optimistic=optimistic)
    async with place.app.worker():
        await place.send()
        while head_of(data).status != BLOCKED:
            await asyncio.sleep(0.01)
    assert head_of(data).body == b""
    data.set(replace(head_of(data), body=kept))
    place = Place(data, None, optimistic=False)
    async with place.app.worker():
        assert await place.at.add() == 3


@pytest.mark.parametrize("optimistic", [False, True], ids=["leased", "optimistic"])
async def test_an_actor_that_was_only_rung_for_has_begun_with_its_defaults(optimistic):
    data = MemoryData()
    place = Place(data, None, optimistic=optimistic)
    async with place.app:
        await place.send()
        assert (head_of(data).status, head_of(data).body) == (READY, UNWRITTEN)
        assert await place.at.get() == 0
        assert (await place.handle.status()).state is None
    async with place.app.worker(), asyncio.timeout(10):
        while await place.at.get() != 1:
            await asyncio.sleep(0.01)


async def test_a_call_that_changes_nothing_leaves_an_actor_that_has_not_begun():
    data = MemoryData()
    for _ in range(3):
        place = Place(data, None, optimistic=False)
        async with place.app.worker():
            assert await place.at.same() == 0
        assert head_of(data).body == UNWRITTEN
        async with place.app:
            assert (await place.handle.status()).state is None


OF_EARLIER_RELEASES = {
    "rung": Item(PLACE, revision=1, status=READY, due_at=1),
    "begun": Item(PLACE, status=RUNNING, owner="dead", lease_until=1, epoch=1),
}


@pytest.mark.parametrize("name", OF_EARLIER_RELEASES)
async def test_a_head_of_an_earlier_release_that_was_never_committed_is_read(name):
    data = MemoryData()
    data.set(OF_EARLIER_RELEASES[name])
    place = Place(data, None, optimistic=False)
    async with place.app:
        assert await place.at.get() == 0
        assert (await place.handle.status()).damaged is None
