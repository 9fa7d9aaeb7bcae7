"""A sweep ends with its worker: nothing is asked of a store that is closed, which would look like a ruined one."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

import holdfast as hf
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.ports import Home
from holdfast.testing import VirtualClock, run_virtual

SWEEP_SECONDS = 60.0


class SlowToLook:
    """A store that is slow to say what is due."""

    def __init__(self, store):
        self._store = store

    def __getattr__(self, name):
        return getattr(self._store, name)

    async def due(self, before, **options):
        await asyncio.sleep(SWEEP_SECONDS)
        return await self._store.due(before, **options)


@pytest.mark.parametrize("while_it_stops", [False, True], ids=["before it stops", "while it stops"])
def test_a_wake_up_to_look_at_all_does_not_outlive_its_worker(while_it_stops):
    data = MemoryData()

    def wake() -> None:
        data.listeners["one"](None)

    async def open_home() -> Home:
        home = open_memory_home(data=data, owner="one")
        return replace(home, store=SlowToLook(home.store))

    app = hf.App("shop", home=open_home, clock=VirtualClock())

    @app.step
    async def finish() -> None:
        while not app.runtime().host.draining:
            await asyncio.sleep(0.1)
        wake()

    @app.workflow
    async def job() -> None:
        await finish()

    async def main() -> None:
        async with app.worker():
            if while_it_stops:
                await job.start(id="1")
                await asyncio.sleep(1)
            else:
                wake()
        await asyncio.sleep(2 * SWEEP_SECONDS)
        assert app.telemetry.counts["store_unusable"] == 0
        assert app.telemetry.counts["ended"] == while_it_stops

    run_virtual(main)
