"""A commit of which nobody knows whether it was written knows itself again, and takes nobody else's for its own."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

import holdfast as hf
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.errors import StoreUnavailable
from holdfast.items import Item, Write
from holdfast.ports import Home
from holdfast.testing import VirtualClock, run_virtual


class Cut:
    """A store that does not answer while ``is_cut``, and has not written what it was asked to."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.is_cut = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def write(self, *writes: Write) -> Sequence[Item | None]:
        if self.is_cut:
            raise StoreUnavailable("no answer")
        return await self._store.write(*writes)


@pytest.mark.parametrize("billed", [False, True])
@pytest.mark.parametrize("who", ["another", "itself"])
def test_what_a_call_without_a_lease_leaves_is_not_taken_for_a_commit_under_one(billed, who, errors_expected):
    data, clock, cuts = MemoryData(), VirtualClock(), []

    async def open_home() -> Home:
        home = open_memory_home(data=data)
        cuts.append(Cut(home.store))
        return replace(home, writes_are_paid=billed, store=cuts[-1])

    def shop() -> tuple[hf.App, Any, asyncio.Event]:
        app, go = hf.App("shop", home=open_home, clock=clock), asyncio.Event()

        class Count(hf.Actor, app=app, optimistic=True):
            n: int = 0

            async def hold(self) -> None:
                await go.wait()

            async def add(self) -> int:
                self.n += 1
                return self.n

        return app, Count, go

    first, count, go = shop()
    second, same, _ = shop()

    async def main() -> None:
        async with first.worker(), second:
            assert await same.at("c").add() == 1
            await hf.send(count.at("c").hold)
            await asyncio.sleep(1)
            adding = asyncio.create_task(count.at("c").add())
            await asyncio.sleep(0.1)
            cuts[0].is_cut = True
            go.set()
            await asyncio.sleep(30)  # its lease has lapsed
            if who == "another":
                applied = await same.at("c").add()
            else:
                cuts[0].is_cut = False
                applied = await count.at("c").add()
            cuts[0].is_cut = False
            try:
                answers = [applied, await adding]
            except StoreUnavailable:
                answers = [applied]  # nobody knows, and nobody says that he does
            await asyncio.sleep(60)
            assert await same.at("c").add() == 2 + len(answers), answers

    run_virtual(main)
