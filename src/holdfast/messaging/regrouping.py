"""Regrouping: events that wait where this home does not publish any more are moved to where it does.

A home that was moved may have them: to a home where writes are billed, or from there. Each worker moves them before its
actors run, so no later event of a group is relayed before an earlier one (G6). An event that stands alone has no order,
and stays where it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from holdfast.errors import Refused
from holdfast.items import ABSENT, EXISTS, Delete, Item, Put, Update
from holdfast.messaging import outbox
from holdfast.messaging.outbox import ENTRY_PREFIX, all_parts, decode_entry, part_for
from holdfast.paging import items
from holdfast.persist import write_for_caller

if TYPE_CHECKING:
    from holdfast.kernel.runtime import Runtime


async def regroup(app: str, runtime: Runtime) -> None:
    """Move the events of groups that wait elsewhere in an app's outbox than where they are published."""
    main, *shards = all_parts(app)
    for partition in (main,) if runtime.home.writes_are_paid else shards:
        async for item in items(runtime.home.store, partition, prefix=ENTRY_PREFIX):
            entry = decode_entry(item.body)
            if entry.place:
                await _move(item, part_for(app, entry.group, runtime.home), runtime)


async def _move(item: Item, to: str, runtime: Runtime) -> None:
    store, now = runtime.home.store, runtime.clock.now_ms()
    await write_for_caller(store, outbox.head(to), ours=lambda _there: True)
    put = Put(replace(item, partition=to), ABSENT)
    due = Update(partition=to, when=EXISTS, due_at=now, add_revision=1)
    gone = Delete(item.partition, item.sort, EXISTS)
    try:
        await write_for_caller(store, gone, put, due, ours=lambda _there: False)
    except Refused:
        return  # another worker has moved it, or its relay has delivered it
