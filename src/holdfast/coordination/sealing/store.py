"""A store, and its companions, that see sealed bodies only."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TypeVar

from msgspec.structs import replace

from holdfast.coordination.sealing.envelope import Envelope, sealed_name
from holdfast.items import HEAD, Item, Write
from holdfast.ports import Blobs, Home, Page, Sequencer, SqlCursor, SqlTransactions, Store
from holdfast.references import FIRST_SEAL_MARK

T = TypeVar("T")


def sealed(home: Home, envelope: Envelope, roomy: Callable[[Home], Home]) -> Home:
    """The same home, in which every body is sealed. ``roomy`` makes a store for bodies of any size, sealed too."""
    blobs = home.blobs
    beneath = roomy(home if blobs is None else replace(home, blobs=EarlierBlobs(blobs, envelope)))
    return replace(
        beneath,
        sealed=True,
        finder=None,
        store=SealedStore(beneath.store, envelope),
        blobs=None if blobs is None else SealedBlobs(blobs, envelope),
        transactions=None if home.transactions is None else SealedTransactions(home.transactions, envelope),
        sequencer=None if beneath.sequencer is None else SealedSequencer(beneath.sequencer, envelope),
    )


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
        return replace(page, items=tuple(map(self._envelope.of_item, page.items)))


class SealedBlobs:
    """Blobs that a user names by the digest of their content, sealed as a whole: reading one needs it in memory.

    They have other names in the store, so that a blob from before the seal is never taken for one.
    """

    def __init__(self, blobs: Blobs, envelope: Envelope) -> None:
        self._blobs = blobs
        self._envelope = envelope

    async def put(self, digest: str, data: bytes, keep_until: int) -> None:
        """See ``Blobs.put``."""
        await self._blobs.put(sealed_name(digest), self._envelope.seal(data, _blob_place(digest)), keep_until)

    async def read(self, digest: str) -> AsyncIterator[bytes]:
        """See ``Blobs.read``."""
        if data := b"".join([piece async for piece in self._blobs.read(sealed_name(digest))]):
            yield self._envelope.open(data, _blob_place(digest))
            return
        if data := b"".join([piece async for piece in self._blobs.read(digest)]):
            yield self._envelope.open(data, digest)


class EarlierBlobs:
    """Blobs of bodies. Blobs that an earlier release sealed for their names are opened here; others together with
    bodies.
    """

    def __init__(self, blobs: Blobs, envelope: Envelope) -> None:
        self._blobs = blobs
        self._envelope = envelope

    async def put(self, digest: str, data: bytes, keep_until: int) -> None:
        """See ``Blobs.put``."""
        await self._blobs.put(digest, data, keep_until)

    async def read(self, digest: str) -> AsyncIterator[bytes]:
        """See ``Blobs.read``."""
        pieces = [piece async for piece in self._blobs.read(digest)]
        if not (pieces and pieces[0].startswith(FIRST_SEAL_MARK)):
            for piece in pieces:
                yield piece
            return
        yield self._envelope.open(b"".join(pieces), digest)


def _blob_place(digest: str) -> str:
    return f"\nblob\n{digest}"


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
    """Writes that are decided at their turn, by the opened item."""

    def __init__(self, sequencer: Sequencer, envelope: Envelope) -> None:
        self._sequencer = sequencer
        self._envelope = envelope

    def write_after(
        self, partition: str, sort: str, decide: Callable[[Item | None], Sequence[Write]]
    ) -> Awaitable[Sequence[Item | None]]:
        """See ``Sequencer.write_after``."""
        # A large body is offloaded and decided again, and must then be the same bytes.
        envelope = self._envelope.repeatable()

        def sealing(there: Item | None) -> Sequence[Write]:
            writes = decide(None if there is None else envelope.of_item(there))
            return [*map(envelope.of_write, writes)]

        return self._envelope.of_answer(self._sequencer.write_after(partition, sort, sealing))
