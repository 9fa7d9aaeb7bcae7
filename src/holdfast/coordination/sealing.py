"""Sealing: every body is encrypted, or transformed in another way of the user's own, before it leaves the process.

What a body holds are the values: inputs, results, messages, states, errors. The header stays readable, for conditions
are made of it: ids, keys, names, statuses, times. So does a reference to a blob, while the blob itself is sealed; it is
compressed before. A home may have bodies from before it was sealed: those are read as they are.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TypeVar

from msgspec import UNSET
from msgspec.structs import replace

from holdfast.errors import Refused, StoreUnusable
from holdfast.items import HEAD, Delete, Item, Put, Write
from holdfast.ports import BLOB_MARK, SEAL_MARK, Blobs, Home, Page, Seal, Sequencer, SqlCursor, SqlTransactions, Store

T = TypeVar("T")


def sealed(home: Home, seal: Seal) -> Home:
    """The same home, in which every body is sealed."""
    envelope = Envelope(seal)
    return replace(
        home,
        store=SealedStore(home.store, envelope),
        blobs=None if home.blobs is None else SealedBlobs(home.blobs, envelope),
        transactions=None if home.transactions is None else SealedTransactions(home.transactions, envelope),
        sequencer=None if home.sequencer is None else SealedSequencer(home.sequencer, envelope),
    )


class Envelope:
    """Seals and opens what is kept at a place. The place is part of it: what was moved elsewhere does not open."""

    __slots__ = ("_seal",)

    def __init__(self, seal: Seal) -> None:
        self._seal = seal

    def close(self, data: bytes, place: str) -> bytes:
        """The body that is stored. Empty ones and references are as they were."""
        return self.seal(data, place) if data and not data.startswith(BLOB_MARK) else data

    def seal(self, data: bytes, place: str) -> bytes:
        """Any bytes, sealed."""
        return SEAL_MARK + self._seal.seal(data, place.encode())

    def open(self, data: bytes, place: str) -> bytes:
        """What was sealed. Raises ``StoreUnusable`` if it does not open."""
        if not data.startswith(SEAL_MARK):
            return data
        try:
            return self._seal.unseal(data[len(SEAL_MARK) :], place.encode())
        except Exception as error:
            raise StoreUnusable(
                f"what is stored at {place} does not unseal ({type(error).__name__}): it was sealed with a key that is "
                "not here, or it was changed"
            ) from error

    def of_write(self, write: Write) -> Write:
        """The write as it is stored."""
        match write:
            case Put(item):
                return replace(write, item=replace(item, body=self.close(item.body, _place(item))))
            case Delete():
                return write
            case _:
                if write.body is UNSET:
                    return write
                return replace(write, body=self.close(write.body, f"{write.partition}\n{write.sort}"))

    def of_item(self, item: Item) -> Item:
        """The item as it was written."""
        if not item.body.startswith(SEAL_MARK):
            return item
        return replace(item, body=self.open(item.body, _place(item)))

    async def of_answer(self, answer: Awaitable[T]) -> T:
        """The answer of a write, or its refusal, with the item as it was written."""
        try:
            return await answer
        except Refused as refused:
            if refused.item is None:
                raise
            raise Refused(refused.index, self.of_item(refused.item)) from None


def _place(item: Item) -> str:
    return f"{item.partition}\n{item.sort}"


class SealedStore:
    """A store that sees sealed bodies only."""

    def __init__(self, store: Store, envelope: Envelope) -> None:
        self._store = store
        self._envelope = envelope

    def write(self, *writes: Write) -> Awaitable[Sequence[Item | None]]:
        """See ``Store.write``."""
        return self._opened(self._store.write(*map(self._envelope.of_write, writes)))

    async def _opened(self, answer: Awaitable[Sequence[Item | None]]) -> Sequence[Item | None]:
        items = await self._envelope.of_answer(answer)
        return [None if item is None else self._envelope.of_item(item) for item in items]

    async def get(self, partition: str, sort: str = HEAD) -> Item | None:
        """See ``Store.get``."""
        item = await self._store.get(partition, sort)
        return None if item is None else self._envelope.of_item(item)

    async def query(self, partition: str, *, prefix: str = "", after: str | None = None, limit: int = 1000) -> Page:
        """See ``Store.query``."""
        return self._page(await self._store.query(partition, prefix=prefix, after=after, limit=limit))

    async def due(self, before: int, *, after: str | None = None, limit: int = 1000) -> Page:
        """See ``Store.due``. Sealed bodies are left out."""
        page = await self._store.due(before, after=after, limit=limit)
        return Page(tuple(replace(head, body=b"") for head in page.items), page.cursor)

    async def scan(self, prefix: str, *, status: str | None = None, after: str | None = None, limit: int = 100) -> Page:
        """See ``Store.scan``."""
        return self._page(await self._store.scan(prefix, status=status, after=after, limit=limit))

    async def close(self) -> None:
        """See ``Store.close``."""
        await self._store.close()

    def _page(self, page: Page) -> Page:
        return Page(tuple(map(self._envelope.of_item, page.items)), page.cursor)


class SealedBlobs:
    """Blobs that are sealed as a whole: reading one needs it in memory."""

    def __init__(self, blobs: Blobs, envelope: Envelope) -> None:
        self._blobs = blobs
        self._envelope = envelope

    async def put(self, digest: str, data: bytes, keep_until: int) -> None:
        """See ``Blobs.put``."""
        await self._blobs.put(digest, self._envelope.seal(data, digest), keep_until)

    async def read(self, digest: str) -> AsyncIterator[bytes]:
        """See ``Blobs.read``."""
        data = b"".join([piece async for piece in self._blobs.read(digest)])
        if data:
            yield self._envelope.open(data, digest)


class SealedTransactions:
    """Transactions with the user's SQL, whose own records are sealed."""

    def __init__(self, transactions: SqlTransactions, envelope: Envelope) -> None:
        self._transactions = transactions
        self._envelope = envelope

    def transact(self, work: Callable[[SqlCursor], tuple[Sequence[Write], T]]) -> Awaitable[T]:
        """See ``SqlTransactions.transact``."""

        def sealing(cursor: SqlCursor) -> tuple[Sequence[Write], T]:
            writes, answer = work(cursor)
            return [*map(self._envelope.of_write, writes)], answer

        return self._envelope.of_answer(self._transactions.transact(sealing))


class SealedSequencer:
    """Writes that are decided at their turn, by what was sealed."""

    def __init__(self, sequencer: Sequencer, envelope: Envelope) -> None:
        self._sequencer = sequencer
        self._envelope = envelope

    def write_after(
        self, partition: str, sort: str, decide: Callable[[Item | None], Sequence[Write]]
    ) -> Awaitable[Sequence[Item | None]]:
        """See ``Sequencer.write_after``."""

        def sealing(there: Item | None) -> Sequence[Write]:
            writes = decide(None if there is None else self._envelope.of_item(there))
            return [*map(self._envelope.of_write, writes)]

        return self._envelope.of_answer(self._sequencer.write_after(partition, sort, sealing))
