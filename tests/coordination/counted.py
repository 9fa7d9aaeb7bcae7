"""A store that counts its calls: what an operation costs, without noise."""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from holdfast.backends.memory import MemoryData, open_memory_home


class CountedStore:
    def __init__(self, store):
        self._store = store
        self.reads = self.writes = self.items = 0

    def write(self, *writes):
        self.writes += 1
        self.items += len(writes)
        return self._store.write(*writes)

    async def get(self, *args):
        self.reads += 1
        found = await self._store.get(*args)
        await asyncio.sleep(0)  # so that others come between, as they would elsewhere
        return found

    async def query(self, *args, **options):
        self.reads += 1
        return await self._store.query(*args, **options)

    def __getattr__(self, name):
        return getattr(self._store, name)

    def look(self):
        """How many reads, writes and items written since the last look."""
        seen = (self.reads, self.writes, self.items)
        self.reads = self.writes = self.items = 0
        return seen


def counted_home(data: MemoryData | None = None):
    """A home for an app, and the store that will count."""
    home = open_memory_home(data=data)
    store = CountedStore(home.store)

    async def open_home():
        return replace(home, store=store)

    return open_home, store
