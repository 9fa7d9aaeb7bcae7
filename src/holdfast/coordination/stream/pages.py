"""The events of one stream, page after page, and what a reader hears of a deletion."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from itertools import takewhile
from typing import Final, Protocol

from holdfast.coordination.stream.declared import DeclaredStreams
from holdfast.coordination.stream.record import (
    DELETED,
    EVENT_PREFIX,
    Deletion,
    Place,
    StreamDeleted,
    event_sort,
    stream_deleted,
    version_of,
)
from holdfast.items import Item

PAGE_EVENTS: Final = 200


class Readable(Protocol):
    """What is read: a stream."""

    @property
    def place(self) -> Place: ...
    @property
    def streams(self) -> DeclaredStreams: ...
    async def version(self) -> int: ...
    async def deletion(self) -> Deletion: ...
    async def refuse_deleted(self, version: int) -> None: ...
    def reached(self, version: int) -> None: ...


async def pages_of(stream: Readable, after: int, upto: int | None) -> AsyncGenerator[Sequence[Item]]:
    """The events of a stream, a page at a time. Raises ``StreamDeleted`` where they were deleted."""
    store = stream.streams.opened().home.store
    while upto is None or after < upto:
        count = PAGE_EVENTS if upto is None else min(PAGE_EVENTS, upto - after)
        page = await store.query(stream.place.partition, prefix=EVENT_PREFIX, after=event_sort(after), limit=count)
        items = [each for each in page.items if upto is None or version_of(each) <= upto]
        if items:
            after = version_of(items[-1])
            stream.reached(after)
            if live := list(takewhile(lambda each: each.status != DELETED, items)):
                yield live
            if len(live) < len(items):
                raise stream_deleted(stream.place, (await stream.deletion()).version)
        if page.cursor is None or len(items) < len(page.items):
            return


async def pages_since(stream: Readable, after: int, upto: int | None) -> AsyncGenerator[Sequence[Item]]:
    """As ``pages_of``. A reader that has seen nothing begins behind the last deletion: it need not hear of it."""
    begun = after > 0
    while True:
        try:
            async with aclosing(pages_of(stream, after, upto)) as pages:
                async for page in pages:
                    begun = True
                    yield page
        except StreamDeleted as gone:
            if begun:
                raise
            after = gone.there
        else:
            return


async def pages_back(stream: Readable, after: int, upto: int | None) -> AsyncGenerator[Sequence[Item]]:
    """As ``pages_since``, from the last event on; each page backwards."""
    last = await stream.version()
    last = last if upto is None else min(upto, last)
    if after:
        await stream.refuse_deleted(after)
    after = max(after, (await stream.deletion()).version)
    while last > after:
        first = max(after, last - PAGE_EVENTS)
        yield [item async for page in pages_of(stream, first, last) for item in page][::-1]
        last = first
