"""An app has one home at a time: what opens it while it closes waits for that."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from msgspec.structs import replace

import holdfast as hf
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.backends.memory.cache import CacheData, MemoryCache
from holdfast.backends.memory.doorbell import MemoryDoorbell
from holdfast.hints import Hint
from holdfast.ports import Home
from holdfast.shared import Shared
from holdfast.testing import VirtualClock, run_virtual


class SlowDoorbell(MemoryDoorbell):
    """Takes a second to close."""

    async def close(self) -> None:
        await asyncio.sleep(1)
        await super().close()


class SlowHomes:
    """Opens homes of one owner, of which memory refuses two at once."""

    def __init__(self) -> None:
        self.opened = 0
        self._data = MemoryData()

    async def __call__(self) -> Home:
        home = open_memory_home(data=self._data, owner="one")
        await home.doorbell.close()
        self.opened += 1
        return replace(home, doorbell=SlowDoorbell(self._data, "one"))


def test_an_app_that_is_opened_while_it_closes_opens_its_next_home_after_that():
    homes = SlowHomes()

    async def main() -> None:
        app = hf.App("shop", home=homes)
        await app.__aenter__()
        closing = asyncio.create_task(app.__aexit__(None, None, None))
        await asyncio.sleep(0.5)
        assert not closing.done()
        async with app:
            assert closing.done()

    run_virtual(main)
    assert homes.opened == 2


def test_a_resource_that_opens_its_app_while_it_closes_with_it_keeps_nobody_waiting():
    homes, closed = SlowHomes(), []

    async def main() -> None:
        app = hf.App("shop", home=homes)

        @app.resource
        async def client() -> AsyncIterator[str]:
            yield "client"
            async with app:
                closed.append("client")

        async with app:
            assert await client.get() == "client"

    run_virtual(main)
    assert (closed, homes.opened) == (["client"], 1)


class Closing:
    """Passes everything on, and notes that it was closed."""

    def __init__(self, of: Any, name: str, closed: list[str]) -> None:
        self._of, self._name, self._closed = of, name, closed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._of, name)

    async def close(self) -> None:
        self._closed.append(self._name)
        await self._of.close()


class BrokenDoorbell(MemoryDoorbell):
    """Cannot be listened to."""

    def listen(self, heard: Callable[[Hint], None]) -> None:
        raise OSError("no more handles")


@pytest.mark.parametrize(
    ("at", "opened"),
    [("the home", ["cache"]), ("the doorbell", ["cache", "doorbell", "store"])],
    ids=["home", "doorbell"],
)
async def test_what_was_opened_before_opening_fails_is_closed_and_the_app_can_be_opened_again(at, opened):
    closed: list[str] = []
    data, broken = MemoryData(), [at]

    async def open_home() -> Home:
        if broken == ["the home"]:
            raise OSError("no more handles")
        home = open_memory_home(data=data, owner="one")  # refused while an earlier one is open
        await home.doorbell.close()
        doorbell = (BrokenDoorbell if broken else MemoryDoorbell)(data, "one")
        doorbell, store = Closing(doorbell, "doorbell", closed), Closing(home.store, "store", closed)
        return replace(home, doorbell=doorbell, store=store)

    def open_cache() -> Shared:
        return Shared(Closing(MemoryCache(CacheData(VirtualClock().now_ms)), "cache", closed))

    app = hf.App("shop", home=open_home, cache=open_cache)
    with pytest.raises(OSError, match="no more handles"):
        await app.__aenter__()
    assert closed == opened
    broken.clear()
    async with app:
        assert closed == opened
    assert closed == [*opened, "cache", "doorbell", "store"]
