"""Several documents, and the events about their change, in one write: all of it or nothing (G5).

Optimistic: the commit is conditional on the version of every document that the transaction has read. If one of them
has changed meanwhile, the whole transaction is refused. It holds no lease and waits for no other transaction.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from holdfast.actors.mailbox.post import wake_actor
from holdfast.coordination.document.documents import CONFLICT_RETRY, MISSING, Document, Missing
from holdfast.coordination.document.record import Versioned, before, is_ours, new_writer, tombstone
from holdfast.errors import Conflict, InvalidInput, InvalidState, Refused, StoreUnavailable
from holdfast.items import ABSENT, Delete, Item, Put, RevisionIs, Update, Write, one_per_place
from holdfast.persist import write_fresh

if TYPE_CHECKING:
    from random import Random

    from holdfast.duration import Duration
    from holdfast.kernel.runtime import Runtime
    from holdfast.messaging.outbox import Entry
    from holdfast.messaging.publishing import Outbox

T = TypeVar("T")
R = TypeVar("R")

MOST_ITEMS: Final = 100
"""The most items in one write on every home (DynamoDB: TransactWriteItems). Each event takes one, and all of them one
more.
"""


class Touched:
    """A document in a transaction: how it was read, and its change."""

    __slots__ = ("document", "found", "item", "put", "value")

    def __init__(self, document: Document[Any], item: Item | None, found: Versioned[Any] | None) -> None:
        self.document = document
        self.item = item
        self.found = found
        """The document as it was read; ``None``: it did not exist, or had expired."""
        self.value: Any = MISSING if found is None else found.value
        """What the transaction sees now; ``MISSING``: no document."""
        self.put: Put | None = None

    def is_at(self, item: Item) -> bool:
        """Whether an item is at the document's place."""
        return (item.partition, item.sort) == (self.document.place.partition, self.document.place.sort)

    @property
    def write(self) -> Write:
        """Its change, or the guard that it is unchanged."""
        place, item = self.document.place, self.item
        if self.put is not None:
            return self.put
        if item is None:
            return Delete(place.partition, place.sort, ABSENT)
        return Update(partition=place.partition, sort=place.sort, when=RevisionIs(item.revision))


class Transaction:
    """Documents that are read and written together. Writes are kept until the block ends, then committed at once.

    The values of two documents may have been read at different times. If they do not fit, the commit is refused, but
    the code in between may have seen both.
    """

    def __init__(self, runtime: Runtime, outbox: Outbox) -> None:
        self._runtime = runtime
        self._outbox = outbox
        self._writer = new_writer()
        self._touched: dict[tuple[str, str], Touched] = {}
        self._events: list[Entry] = []
        self._open = True

    # ── What users do in it ─────────────────────────────────────────────────────────────────────────────────────────

    async def get(self, document: Document[T]) -> T:
        """The document's value. Raises ``NotFound``."""
        found: T | Missing = (await self._touch(document)).value
        if isinstance(found, Missing):
            raise document.missing()
        return found

    async def find(self, document: Document[T]) -> T | None:
        """The document's value, or ``None`` if it does not exist. That it does not exist is guarded too."""
        found: T | Missing = (await self._touch(document)).value
        return None if isinstance(found, Missing) else found

    def put(self, document: Document[T], value: T, *, ttl: Duration | None = None) -> None:
        """Write a document that was read in this transaction, or found to be missing. Raises ``InvalidInput`` for any
        other document, because it cannot be guarded.
        """
        touched = self._known(document)
        keep = None if touched.found is None else touched.found.expires_at
        old = before(touched.item)
        put, written = document.written(old, value, ttl, self._writer, self._runtime, keep=keep)
        touched.put, touched.value = put, written.value

    def delete(self, document: Document[Any]) -> None:
        """Delete a document that was read in this transaction. Raises as ``put``."""
        touched = self._known(document)
        if touched.found is None:
            touched.put = None  # it did not exist, and the earlier put is dropped
        else:
            now = self._runtime.clock.now_ms()
            touched.put = tombstone(document.place, before(touched.item), writer=self._writer, now=now)
        touched.value = MISSING

    def publish(self, event: Any, *, id: str | None = None) -> None:
        """Publish an event with the commit, or not at all; see ``app.publish``."""
        self._check_open()
        self._events.append(self._outbox.entry_of(event, id))

    # ── Beginning and ending ────────────────────────────────────────────────────────────────────────────────────────

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, error_type: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        if error_type is None:
            await self.commit()
        self._open = False

    async def commit(self) -> None:
        """Write everything, and end; the block does it at its end. Raises ``Conflict`` if anything that was read has
        changed; nothing is written then.
        """
        self._check_open()
        self._open = False
        changes = [each for each in self._touched.values() if each.put is not None]
        guards = [each for each in self._touched.values() if each.put is None]
        if not changes and not self._events and len(guards) <= 1:
            return  # one read is consistent by itself
        events = await self._event_writes()
        # Changes come first: they show whether this very write was applied before.
        writes = [*(each.write for each in changes), *events, *(each.write for each in guards)]
        if len(writes) > MOST_ITEMS:
            raise InvalidInput(
                f"a transaction must have at most {MOST_ITEMS} documents and events, got {len(writes)}; split it"
            )
        touched = [*changes, *([None] * len(events)), *guards]
        try:
            await write_fresh(self._runtime.home.store, *writes, ours=lambda there: self._is_ours(there, changes))
        except Refused as refused:
            raise self._conflict(touched[refused.index], refused.item) from None
        if events:
            wake_actor(self._outbox.partition, self._runtime)

    async def _event_writes(self) -> Sequence[Write]:
        if not self._events:
            return ()
        if not self._outbox.is_known:
            await self._outbox.create()
        return one_per_place(write for entry in self._events for write in self._outbox.writes_of(entry))

    def _is_ours(self, there: Item | None, changes: Sequence[Touched]) -> bool:
        if there is not None and there.partition == self._outbox.partition:
            return True  # an event of ours that exists already
        if not changes:
            raise StoreUnavailable(
                "the store did not answer a transaction that only publishes, and has changed since: its events may or "
                "may not have been published"
            )
        if there is None:
            return False
        told_by = next((each.put for each in changes if each.is_at(there)), None)
        # If this had been applied, a change would have been refused before any guard.
        return told_by is not None and is_ours(there, told_by.item.revision, self._writer)

    def _conflict(self, touched: Touched | None, there: Item | None) -> Conflict:
        if touched is None:
            return Conflict("an event of this transaction is in the outbox already")
        place = touched.document.place
        self._runtime.emit("conflicted", partition=place.partition)
        found = touched.document.read(there, self._runtime.clock.now_ms())
        return Conflict(f"document {place} has changed since this transaction read it: nothing was written", found)

    # ── Within ──────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _touch(self, document: Document[Any]) -> Touched:
        self._check_open()
        place = document.place
        at = (place.partition, place.sort)
        if (touched := self._touched.get(at)) is None:
            item = await self._runtime.home.store.get(*at)
            found = document.read(item, self._runtime.clock.now_ms())
            touched = self._touched.setdefault(
                at, Touched(document, item, found)
            )  # another task of the block may have read it meanwhile
        return touched

    def _known(self, document: Document[Any]) -> Touched:
        self._check_open()
        place = document.place
        touched = self._touched.get((place.partition, place.sort))
        if touched is None:
            raise InvalidInput(
                f"document {place} was not read in this transaction: read it first, with `await tx.get(document)`, or "
                "`await tx.find(document)` if it may be missing"
            )
        return touched

    def _check_open(self) -> None:
        if not self._open:
            raise InvalidState("this transaction has ended; begin another with app.atomic()")


async def repeat(begin: Callable[[], Transaction], work: Callable[[Transaction], Awaitable[R]], random: Random) -> R:
    """Run ``work`` in one transaction after another until one of them commits; return its result there."""
    attempt = 0
    while True:
        attempt += 1
        transaction = begin()
        result = await work(transaction)
        try:
            await transaction.commit()
        except Conflict:
            if attempt == CONFLICT_RETRY.max_attempts:
                raise
            await asyncio.sleep(CONFLICT_RETRY.delay_seconds(attempt, random))
        else:
            return result
