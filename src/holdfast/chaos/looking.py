"""The shop as seen from outside: its books, its outbox, its parked events, and its leases."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

import msgspec
from msgspec import Struct

import holdfast as hf
from holdfast.actors.admin.listing import ParkedMessage
from holdfast.actors.record import PARTITION_PREFIX
from holdfast.chaos.shop import Books, app
from holdfast.coordination.inbox import INBOX_PREFIX
from holdfast.items import Item
from holdfast.keys import LARGEST_PAGE
from holdfast.messaging.outbox import ENTRY_PREFIX, all_parts

T = TypeVar("T")

LOOK_SECONDS: Final = 0.02


class Entered(Struct, frozen=True):
    """The content of the books."""

    entered: dict[str, int] = {}


async def until(look: Callable[[], Awaitable[T]]) -> T:
    """Read again and again until there is a result; returns it."""
    while True:
        if found := await look():
            return found
        await asyncio.sleep(LOOK_SECONDS)


async def books() -> dict[str, int]:
    """The shop's own books: how often each order was entered."""
    try:
        status = await app.actor(Books.kind.name, "shop").status()
    except hf.NotFound:
        return {}
    return msgspec.convert(status.state or {}, Entered).entered


async def in_outbox() -> int:
    """How many events wait for the relay."""
    store = app.runtime().home.store
    pages = [await store.query(partition, prefix=ENTRY_PREFIX) for partition in all_parts(app.outbox.app)]
    return sum(len(page.items) for page in pages)


async def is_under_way() -> bool:
    """Whether anything waits in the outbox or an inbox."""
    if await in_outbox():
        return True
    store = app.runtime().home.store
    for head in (await store.scan(PARTITION_PREFIX, limit=LARGEST_PAGE)).items:
        if (await store.query(head.partition, prefix=INBOX_PREFIX, limit=1)).items:
            return True
    return False


async def head_of(partition: str) -> Item:
    """The head of an entity: its owner, its lease and its state."""
    head = await app.runtime().home.store.get(partition)
    assert head is not None
    return head


async def parked() -> Sequence[ParkedMessage]:
    """The parked events."""
    return (await app.parked()).items
