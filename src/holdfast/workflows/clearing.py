"""What earlier runs of an execution leave behind: deleted when the next one begins.

A run that is over is never read again. Only the empty segments by which its journal was fenced stay: a process that was
stopped in it, and wakes up, must find its place taken (G3).
"""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from typing import TYPE_CHECKING, Final

from holdfast.errors import StoreError
from holdfast.items import Delete, Item
from holdfast.kernel.entries import TakenOver, decode_entries
from holdfast.kernel.journal import SEGMENT_PREFIX
from holdfast.kernel.program import Effect
from holdfast.workflows.record import ANSWERED_PREFIX, CALLBACK_PREFIX

if TYPE_CHECKING:
    from holdfast.ports import Store
    from holdfast.workflows.live import Live

CLEARING: Final = "!clear"
BATCH: Final = 100
"""So many items are read at once, and deleted at once."""


def clearing(live: Live) -> Effect:
    """The effect that deletes what the runs before this one have left."""
    return Effect(CLEARING, partial(clear_earlier_runs, live.host.home.store, live.partition, live.record.run))


async def clear_earlier_runs(store: Store, partition: str, run: int) -> None:
    """Delete the journals and marks of the runs before this one."""
    with contextlib.suppress(StoreError):  # the next run tries again
        for prefix in (SEGMENT_PREFIX, ANSWERED_PREFIX, CALLBACK_PREFIX):
            await _clear_prefix(store, partition, prefix, f"{prefix}{run:06d}#")


async def _clear_prefix(store: Store, partition: str, prefix: str, now_from: str) -> None:
    after: str | None = None
    while True:
        page = await store.query(partition, prefix=prefix, after=after, limit=BATCH)
        earlier = [item for item in page.items if item.sort < now_from]
        # One by one: in one write they would cost twice as much where writes are paid for.
        await asyncio.gather(*(store.write(Delete(partition, item.sort)) for item in earlier if not _fences(item)))
        after = page.cursor
        if after is None or len(earlier) < len(page.items):
            return


def _fences(item: Item) -> bool:
    if not item.sort.startswith(SEGMENT_PREFIX):
        return False
    return all(isinstance(entry, TakenOver) for entry in decode_entries(item.body))
