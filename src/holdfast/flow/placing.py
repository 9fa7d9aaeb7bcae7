"""Writing places where writes are paid: the place comes first, and its queue looks at it, whichever process dies.

What this process writes at about the same time shares one look at the head of the queue. See ``early``.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from holdfast.errors import StoreError
from holdfast.flow.gate import Gate
from holdfast.flow.record import UNSEEN_MS, place_put, queueing_in, rouse, since_of
from holdfast.items import Delete

if TYPE_CHECKING:
    from holdfast.flow.declarations import Queue
    from holdfast.items import Item, Put
    from holdfast.kernel.runtime import Runtime


async def is_placed(place: Put, queue: Queue) -> bool:
    """Write a place, and have its queue look at it for sure. False if that is not sure, or took long: then something
    has to be due for the execution.
    """
    runtime = queue.connect()
    rousing = runtime.kept.get(Rousing, partial(Rousing, runtime))
    with suppress(StoreError):
        await runtime.home.store.write(place)
        if await asyncio.shield(rousing.of(queue)):
            return runtime.clock.now_ms() < since_of(place.item.sort) + UNSEEN_MS // 2
    return False


async def take_back(place: Put, there: Item | None, queue: Queue) -> None:
    """Delete a place that was written in vain: another start was faster, which may have the same place. What is left of
    it is deleted in its turn.
    """
    waits = None if there is None else queueing_in(there)
    if there is not None and waits is not None and place_put(there.partition, waits).item.sort == place.item.sort:
        return
    with suppress(StoreError):
        await queue.connect().home.store.write(Delete(place.item.partition, place.item.sort))


class Rousing:
    """The looks of this process at the heads of queues. One looks for all whose places were written before it."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._coming: dict[str, asyncio.Task[bool]] = {}
        self._last: dict[str, asyncio.Task[bool]] = {}

    def of(self, queue: Queue) -> asyncio.Task[bool]:
        """The next look at a queue. It answers whether that worked."""
        coming = self._coming.get(queue.partition)
        if coming is None:
            coming = self._coming[queue.partition] = asyncio.get_running_loop().create_task(self._rouse(queue))
        return coming

    async def _rouse(self, queue: Queue) -> bool:
        gate, runtime = queue.partition, self._runtime
        if (last := self._last.get(gate)) is not None:
            await asyncio.wait([last])  # more come meanwhile
        self._last[gate] = self._coming.pop(gate)
        try:
            await rouse(gate, runtime.home, queue, runtime.clock.now_ms(), self._is_ours)
        except StoreError:
            return False
        return True

    def _is_ours(self, head: Item) -> bool:
        host = self._runtime.host
        gate = None if host is None else host.entities.get(head.partition)
        return isinstance(gate, Gate) and gate.decides_by(head, self._runtime.home.owner)
