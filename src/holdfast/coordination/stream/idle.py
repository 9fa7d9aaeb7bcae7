"""Finding the streams of one type whose last event is old, to delete them: a retention that counts for the past too."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import datetime
from typing import Generic, Protocol, TypeVar

from msgspec import Struct

from holdfast.clock import moment
from holdfast.coordination.stream.record import PARTITION_PREFIX, Deletion, Place, decode_event, event_sort
from holdfast.errors import ConfigurationError
from holdfast.keys import SEPARATOR
from holdfast.opened import Opened
from holdfast.paging import Pages


class Readable(Protocol):
    """A stream."""

    @property
    def place(self) -> Place: ...
    async def version(self) -> int: ...
    async def deletion(self) -> Deletion: ...


S = TypeVar("S", bound=Readable)
S_co = TypeVar("S_co", bound=Readable, covariant=True)


class Collection(Protocol[S_co]):
    """All streams of one type."""

    @property
    def name(self) -> str: ...
    def opened(self) -> Opened: ...
    def at(self, *key: str) -> S_co: ...


class Idle(Struct, Generic[S], frozen=True):
    """A stream, its version, and when its last event was recorded."""

    stream: S
    version: int
    last_at: datetime


async def idle_streams(collection: Collection[S], before_ms: int) -> AsyncGenerator[Idle[S]]:
    """The streams whose last event was recorded before then (milliseconds), and those whose deletion was interrupted.

    Reads the names of all partitions of the home, and of each stream its last event. Raises ``ConfigurationError`` for
    a home that cannot list its partitions.
    """
    inventory = collection.opened().home.inventory
    if inventory is None:
        raise ConfigurationError("this home cannot list what it holds, so its old streams cannot be found")
    prefix = f"{PARTITION_PREFIX}{collection.name}{SEPARATOR}"
    async for page in Pages(lambda after: inventory.partitions(after=after)):
        for name in page.names:
            if name.startswith(prefix):
                stream = collection.at(*name.removeprefix(prefix).split(SEPARATOR))
                if (found := await _idle(collection, stream, before_ms)) is not None:
                    yield found


async def _idle(collection: Collection[S], stream: S, before_ms: int) -> Idle[S] | None:
    version, deletion = await stream.version(), await stream.deletion()
    last = await collection.opened().home.store.get(stream.place.partition, event_sort(version))
    if last is None or deletion.emptied == version:
        return None
    at_ms, is_deleted = decode_event(last.body).at_ms, deletion.version == version
    return Idle(stream, version, moment(at_ms)) if is_deleted or at_ms < before_ms else None
