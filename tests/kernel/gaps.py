"""A store with gaps, and a setting for tests in which something happens within them.

A gap is after the store has done what a turn asked for, and before the turn hears of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from msgspec import UNSET
from msgspec.structs import replace

import holdfast as hf
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.items import HEAD, Put, Update
from holdfast.ports import Home
from holdfast.testing import VirtualClock
from holdfast.testing.world import swift

OTHER = "another process"
JOURNAL = "j#"


@dataclass
class Placed:
    number: int


class Gaps:
    """A store that lets something happen between an answer and the process that waits for it."""

    def __init__(self, store):
        self._store = store
        self._gaps = []

    def __getattr__(self, name):
        return getattr(self._store, name)

    def once(self, is_meant, happens):
        """Let something happen in the answer of the next request that ``is_meant``."""
        self._gaps.append((is_meant, happens))

    @property
    def is_over(self):
        return not self._gaps

    async def write(self, *writes):
        try:
            return await self._store.write(*writes)
        finally:
            await self._answer(writes)

    async def get(self, partition, sort=HEAD):
        found = await self._store.get(partition, sort)
        await self._answer((partition, sort))
        return found

    async def _answer(self, asked):
        for gap in list(self._gaps):
            is_meant, happens = gap
            if is_meant(asked):
                self._gaps.remove(gap)
                await happens()


class Setting:
    """An app with every model on one store, and one entity of the model that a test is about."""

    def __init__(self, **traits: bool):
        self.traits = traits
        """Of its home."""
        self.data = MemoryData()
        self.clock = VirtualClock()
        self.rung = []
        """Those that another process was called for."""
        self.store: Gaps
        self.app: hf.App
        self.partition = ""

    async def open_home(self) -> Home:
        home = open_memory_home(data=self.data)
        self.store = Gaps(home.store)
        return replace(home, store=self.store, **self.traits)

    def wake_at(self, partition, due_at):
        self.rung.append(partition)

    @property
    def host(self):
        return self.app.runtime().host

    @property
    def head(self):
        return self.data.find(self.partition, HEAD)

    async def wake(self):
        self.host.check(self.partition)

    async def until(self, is_so: Callable[[], bool]):
        async with asyncio.timeout(60):
            while not is_so():
                await asyncio.sleep(0.01)

    async def until_released(self):
        await self.until(lambda: self.head.owner is None and self.host.is_quiet)

    async def until_claimed_after(self, epoch: int):
        """Nothing but the wake-up leads to a claim in this time."""
        await self.until(lambda: self.head.epoch > epoch)

    async def take_away(self):
        """Another process takes the entity over."""
        self.data.listeners[OTHER] = lambda _partition: None
        await self.store.write(
            Update(partition=self.partition, owner=OTHER, lease_until=self.clock.now_ms() + 3_600_000, add_epoch=1)
        )

    async def give_back(self):
        """The other process releases it; something has come for it, and this process is woken."""
        await self.store.write(Update(partition=self.partition, owner=None, lease_until=None, add_revision=1))
        await self.wake()

    def releases(self, asked):
        return any(
            isinstance(write, Update) and write.partition == self.partition and write.owner is None for write in asked
        )

    def writes_its_journal(self, asked):
        return any(
            isinstance(write, Put) and write.item.partition == self.partition and write.item.sort.startswith(JOURNAL)
            for write in asked
        )

    def claims(self, asked):
        return any(
            isinstance(write, Update) and write.partition == self.partition and write.owner not in {None, UNSET}
            for write in asked
        )


@asynccontextmanager
async def open_setting(of_model: Callable[[Setting], Awaitable[None]], *, paid: bool = False, **limits: float):
    """A worker with one entity ``of_model``. ``paid``: each write is billed, so that some wait for others."""
    setting = Setting(writes_are_paid=paid)
    quiet = swift(hf.Limits(sweep_seconds=3600.0))
    setting.app = app = hf.App("shop", home=setting.open_home, clock=setting.clock, limits=replace(quiet, **limits))
    app.to_bus(Placed)

    @app.consumer(Placed)
    async def bill(event: Placed) -> None: ...

    async with app.worker():
        await of_model(setting)
        await setting.until(lambda: setting.head is not None)
        yield setting
