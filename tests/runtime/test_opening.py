"""An app has one home at a time: what opens it while it closes waits for that."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from msgspec.structs import replace

import holdfast as hf
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.backends.memory.doorbell import MemoryDoorbell
from holdfast.ports import Home
from holdfast.testing import run_virtual


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
