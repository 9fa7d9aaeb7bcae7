"""A cache that several apps share in virtual time, and that fails when it is told to."""

from __future__ import annotations

import asyncio

from holdfast.backends.memory.cache import CacheData, MemoryCache
from holdfast.errors import StoreUnavailable
from holdfast.shared import Shared


class SharedCache:
    """What lies behind every cache that ``open`` hands out."""

    def __init__(self):
        self.data = CacheData(lambda: int(asyncio.get_running_loop().time() * 1000))
        self.down = False
        self.latency = lambda: 0.001
        self.asked = 0

    def open(self):
        return Shared(Wire(self))


class Wire:
    """One process's way to it: each call takes a moment, there and back."""

    def __init__(self, shared):
        self._shared = shared
        self._cache = MemoryCache(shared.data)

    def __getattr__(self, name):
        async def call(*args, **kwargs):
            self._shared.asked += 1
            await asyncio.sleep(self._shared.latency())
            if self._shared.down:
                raise StoreUnavailable("down")
            answer = await getattr(self._cache, name)(*args, **kwargs)
            await asyncio.sleep(self._shared.latency())
            return answer

        return call

    async def close(self):
        pass
