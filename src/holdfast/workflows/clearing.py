"""What earlier runs of an execution leave behind: deleted when the next one begins.

A run that is over is never read again. But a process that was stopped in it, or was overtaken while its write was on
its way, must find its place taken whenever that comes (G3). So up to the last fence of its journal every place stays
taken, by a segment that is empty. What is behind that was written by the last owner of the run, who knows of it all.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from holdfast.errors import StoreError
from holdfast.items import Delete, Item, Update
from holdfast.paging import items
from holdfast.replay.entries import EMPTY, TakenOver, decode_entries
from holdfast.replay.journal import SEGMENT_PREFIX
from holdfast.replay.program import Effect
from holdfast.workflows.record import ANSWERED_PREFIX, CALLBACK_PREFIX

if TYPE_CHECKING:
    from holdfast.ports import Store
    from holdfast.workflows.live import Live

CLEARING: Final = "!clear"
BATCH: Final = 100
"""The number of items that are read, and written, at once."""


def clearing(live: Live) -> Effect:
    """The effect that deletes what the runs before this one have left."""
    return Effect(CLEARING, partial(clear_earlier_runs, live.host.home.store, live.partition, live.record.run))


async def clear_earlier_runs(store: Store, partition: str, run: int) -> None:
    """Delete the journals and marks of the runs before this one."""
    with contextlib.suppress(StoreError):  # the next run tries again
        for prefix in (SEGMENT_PREFIX, ANSWERED_PREFIX, CALLBACK_PREFIX):
            await _clear_prefix(store, partition, prefix, f"{prefix}{run:06d}#")


async def _clear_prefix(store: Store, partition: str, prefix: str, now_from: str) -> None:
    run, unfenced = "", list[str]()
    async for item in _earlier(store, partition, prefix, now_from):
        if (its_run := item.sort.removeprefix(prefix).partition("#")[0]) != run:
            await _write(store, [Delete(partition, sort) for sort in unfenced])
            run, unfenced = its_run, []
        if prefix == SEGMENT_PREFIX and _fences(item):
            emptied = (Update(partition=partition, sort=sort, body=EMPTY) for sort in unfenced)
            await _write(store, list(emptied))
            unfenced = []
        else:
            unfenced.append(item.sort)
    await _write(store, [Delete(partition, sort) for sort in unfenced])


async def _earlier(store: Store, partition: str, prefix: str, now_from: str) -> AsyncIterator[Item]:
    async for item in items(store, partition, prefix=prefix, limit=BATCH):
        if item.sort >= now_from:
            return
        yield item


async def _write(store: Store, writes: Sequence[Delete | Update]) -> None:
    """One by one: in one write they would cost twice as much where writes are paid for."""
    for first in range(0, len(writes), BATCH):
        await asyncio.gather(*(store.write(write) for write in writes[first : first + BATCH]))


def _fences(item: Item) -> bool:
    return all(isinstance(entry, TakenOver) for entry in decode_entries(item.body))
