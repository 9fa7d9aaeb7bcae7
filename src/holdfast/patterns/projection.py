"""Projections: documents made of events, each event counted once (CQRS).

The checkpoint of a projection is a document too, and is written in the transaction of its effect. So an event has had
its effect if and only if the checkpoint has reached it, whatever crashes, and even if two processes run it at once.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, Final, Generic, TypeVar

from holdfast.containment import contained
from holdfast.coordination.document.documents import Document
from holdfast.coordination.stream.record import Recorded, StreamDeleted
from holdfast.coordination.stream.streams import Stream, Streams
from holdfast.errors import InvalidInput
from holdfast.patterns.atomic import Transaction

T = TypeVar("T")

CHECKPOINTS: Final = "!checkpoints"
"""The collection of all checkpoints; no collection of a user has such a name."""

BATCH_EVENTS: Final = 10

Atomically = Callable[[Callable[[Transaction], Awaitable[int]]], Awaitable[int]]


class Projection(Generic[T]):
    """What ``app.projection`` makes: it continues where it stopped, whenever ``catch_up`` or ``follow`` is called."""

    def __init__(
        self,
        source: Streams[T] | Stream[T],
        apply: Callable[[Transaction, Recorded[T]], Awaitable[Any]],
        checkpoint: Document[int],
        atomically: Atomically,
        batch: int,
    ) -> None:
        given: Any = batch  # whatever its annotation says
        if type(given) is not int or given < 1:
            raise InvalidInput(f"batch must be at least 1 event per transaction, got {batch!r}")
        self._source = source
        self._apply = apply
        self._checkpoint = checkpoint
        self._atomically = atomically
        self._batch = batch

    async def position(self) -> int:
        """The last event that has had its effect: its position among all streams, or its version in the one."""
        found = await self._checkpoint.find()
        return 0 if found is None else found.value

    async def catch_up(self) -> int:
        """Apply all events there are; returns how many this call has applied."""
        count = 0
        while applied := await self._atomically(self._step):
            count += applied
        return count

    async def follow(self) -> None:
        """Catch up, then apply each new event soon after it is committed, without end."""
        await self.catch_up()
        last = await self.position()
        while True:
            try:
                async with aclosing(self._source.follow(after=last)) as news:
                    async for found in news:
                        if self._place_of(found) > await self.position():
                            await self.catch_up()
            except StreamDeleted as deleted:
                last = deleted.there
                await self.catch_up()

    async def _behind(self, last: int, left: int) -> AsyncGenerator[Recorded[T]]:
        """The events behind the checkpoint that exist: what was deleted before they were applied is gone."""
        while True:
            try:
                async with aclosing(self._source.read(after=last, limit=left)) as events:
                    async for found in events:
                        last, left = self._place_of(found), left - 1
                        yield found
            except StreamDeleted as deleted:
                last = deleted.there
            else:
                return

    async def _step(self, tx: Transaction) -> int:
        last = await tx.find(self._checkpoint) or 0
        count, reached = 0, last
        async with aclosing(self._behind(last, self._batch)) as events:
            async for found in events:
                await contained(self._apply(tx, found))
                count, reached = count + 1, self._place_of(found)
        if count:
            tx.put(self._checkpoint, reached)
        return count

    def _place_of(self, found: Recorded[T]) -> int:
        return found.version if isinstance(self._source, Stream) else found.position
