"""The memory store keeps the contract it is the model of, and several homes can share its data."""

from __future__ import annotations

import asyncio
from pathlib import Path

from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.items import ABSENT, Item, Put
from holdfast.ports import Home, Store
from holdfast.testing.conformance import CensusConformance, PurgeConformance, StoreConformance


class TestMemoryStore(StoreConformance, PurgeConformance, CensusConformance):
    histories = message_histories = 15  # it is compared with itself: that one answers like another is all this shows

    async def open_store(self, folder: Path) -> Store:
        return open_memory_home().store


class TestSharedData:
    async def test_homes_see_each_others_writes(self) -> None:
        data = MemoryData()
        one, two = open_memory_home(data=data), open_memory_home(data=data)
        await one.store.write(Put(Item("p"), ABSENT))
        assert await two.store.get("p") == Item("p")
        assert await open_memory_home().store.get("p") is None

    async def test_a_closed_home_leaves_the_data_to_the_others(self) -> None:
        data = MemoryData()
        one, two = open_memory_home(data=data), open_memory_home(data=data)
        await one.store.write(Put(Item("p"), ABSENT))
        await one.store.close()
        assert await two.store.get("p") == Item("p")


class TestMemoryDoorbell:
    async def test_rings_reach_every_other_home_in_the_next_tick(self) -> None:
        data = MemoryData()
        homes = [open_memory_home(data=data) for _ in range(3)]
        heard: list[list[str | None]] = [[], [], []]
        for home, rings in zip(homes, heard, strict=True):
            home.doorbell.listen(rings.append)
        homes[0].doorbell.ring("p")
        assert heard == [[], [], []]
        await asyncio.sleep(0)
        assert heard == [[], ["p"], ["p"]]

    async def test_nobody_hears_before_listening_or_after_closing(self) -> None:
        data = MemoryData()
        one, two = open_memory_home(data=data), open_memory_home(data=data)
        one.doorbell.ring("too early")
        await asyncio.sleep(0)
        heard: list[str | None] = []
        two.doorbell.listen(heard.append)
        one.doorbell.ring("too late")
        await two.doorbell.close()
        await asyncio.sleep(0)
        assert heard == []

    async def test_a_home_is_alive_until_its_doorbell_is_closed(self) -> None:
        data = MemoryData()
        one, two = open_memory_home("x", data=data, owner="one"), open_memory_home(data=data)
        assert (one.url, one.owner, one.transactions) == ("memory://x", "one", None)
        assert two.doorbell.alive("one")
        assert two.doorbell.peers() == {"one"}
        assert not two.doorbell.alive("stranger")
        await one.doorbell.close()
        assert not two.doorbell.alive("one")
        assert two.doorbell.peers() == frozenset()


def test_homes_are_what_the_port_says() -> None:
    home: Home = open_memory_home()
    assert home.owner != open_memory_home().owner
