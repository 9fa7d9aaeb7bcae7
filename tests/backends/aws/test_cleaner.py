"""The clean-up a little at a time: one pass a day, which goes on in the next call if there is no time left."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

from tests.backends.aws.test_cleaning import At, segment

from holdfast.backends.aws import DynamoStore, Transport
from holdfast.backends.aws.cleaner import CLEANED_SORT, DynamoCleaner
from holdfast.backends.aws.cleaning import SEGMENTS, Hands
from holdfast.backends.aws.connection import ThreadedConnection
from holdfast.items import Item, Put
from holdfast.ports import SALT_PARTITION

OpenStore = Callable[..., Awaitable[DynamoStore]]


async def leave(store: DynamoStore, *names: str) -> None:
    """Executions whose heads are gone, and what they have left."""
    for name in names:
        await store.write(Put(segment(f"wf#a#{name}", 0)))


async def test_a_pass_begins_once_a_day(open_store: OpenStore, client: Any) -> None:
    store = await open_store()
    transport = Transport(ThreadedConnection(None, None, client=client), store.table, random=Random(1))

    def cleaner(hours: float) -> DynamoCleaner:
        return DynamoCleaner(Hands(transport, store.table), store, At(hours))

    await leave(store, "one", "two")
    assert await cleaner(0).clean(math.inf) == 2
    await leave(store, "three")
    before = transport.meter.total.requests
    assert await cleaner(22).clean(math.inf) == 0
    assert transport.meter.total.requests == before
    assert await cleaner(23.1).clean(math.inf) == 1
    transport.close()
    await store.close()


async def test_a_call_without_time_notes_how_far_it_came_and_the_next_goes_on(
    open_store: OpenStore, client: Any
) -> None:
    store = await open_store()
    transport = Transport(ThreadedConnection(None, None, client=client), store.table, random=Random(1))
    cleaner = DynamoCleaner(Hands(transport, store.table), store, At())
    await leave(store, "one", "two")
    assert await cleaner.clean(asyncio.get_running_loop().time() - 1) == 0
    there = await store.get(SALT_PARTITION, CLEANED_SORT)
    assert there is not None
    assert there.body.count(b"null") == SEGMENTS
    assert await cleaner.clean(math.inf) == 2
    assert await cleaner.clean(math.inf) == 0
    await store.write(Put(Item(SALT_PARTITION, CLEANED_SORT, body=b"of another release")))
    await leave(store, "three")
    assert await cleaner.clean(math.inf) == 1
    transport.close()
    await store.close()
