"""A worker that stops leaves its share of the sweeps to the others while its steps finish."""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

import holdfast as hf
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.ports import Home, Page, Store
from holdfast.testing import VirtualClock, run_virtual

STEP_SECONDS = 5
LEAVING_SECONDS = 8


class Sharing:
    """Sweeps whose store is slow to note that this worker leaves. ``told`` is what happened, in its order."""

    def __init__(self, store: Store, told: list[str]) -> None:
        self._store = store
        self._told = told

    async def due(self, before: int, *, after: str | None, code: str, has_room: bool, is_new: bool = False) -> Page:
        assert "leaves" not in self._told, "it would be there again"
        return await self._store.due(before, after=after)

    async def leave(self) -> None:
        self._told.append("leaves")
        await asyncio.sleep(LEAVING_SECONDS)
        self._told.append("has left")


def test_a_worker_leaves_its_share_to_others_while_it_drains_and_not_before() -> None:
    told: list[str] = []

    async def open_home() -> Home:
        home = open_memory_home(data=MemoryData(), owner="one")
        return replace(home, sweeps=Sharing(home.store, told))

    app = hf.App("shop", home=open_home, clock=VirtualClock(), limits=hf.Limits(sweep_seconds=1.0))

    @app.step
    async def ship() -> None:
        while not app.runtime().host.draining:
            await asyncio.sleep(0.1)
        told.append("drains")
        await asyncio.sleep(STEP_SECONDS)
        told.append("shipped")

    @app.workflow
    async def job() -> None:
        await ship()

    async def main() -> None:
        async with app.worker():
            await job.start(id="1")
            await asyncio.sleep(10)
        assert told == ["leaves", "drains", "shipped", "has left"]

    run_virtual(main)
