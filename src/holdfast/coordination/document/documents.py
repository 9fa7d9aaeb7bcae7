"""Documents of one type, listed by their keys; and one of them: read, create, write back under its version, delete."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from msgspec import Struct

from holdfast import ids
from holdfast.codec.upcasting import Schema
from holdfast.coordination.document.record import (
    GROUP_PREFIX,
    NOTHING,
    SORT_PREFIX,
    Before,
    Place,
    Versioned,
    before,
    is_ours,
    key_of,
    new_writer,
    read,
    replacement,
    tombstone,
)
from holdfast.duration import Duration, milliseconds
from holdfast.errors import Conflict, InvalidInput, NotFound, Refused
from holdfast.items import Item, Put
from holdfast.keys import SEPARATOR, check_key, check_part
from holdfast.persist import write_fresh
from holdfast.retry import Jitter, Retry

if TYPE_CHECKING:
    from holdfast.opened import Opened

T = TypeVar("T")

CONFLICT_RETRY: Final = Retry(max_attempts=25, initial=0.005, backoff=2, max_delay=0.25, jitter=Jitter.FULL)
"""How often an update is decided again because another writer was faster."""


class Missing:
    """Means that no default was given; ``None`` may be a value."""


MISSING: Final = Missing()


class Document(Generic[T]):
    """The document under a key. Creating a handle reads nothing.

    Versions count 1, 2, 3 and never go back, not even when a document is deleted and created again. So a late writer
    overwrites nothing that it has not seen (G3). Safety rests on versions only, never on clocks (G9). Each write is
    durable when it returns (G7), is applied once even if its answer is lost, and returns what it wrote.

        order = app.document(Order, "o-17")
        await order.create(Order("o-17", "new"))
        await order.update(lambda order: replace(order, status="paid"))
    """

    __slots__ = ("_documents", "place")

    def __init__(self, documents: Documents[T], place: Place) -> None:
        self._documents = documents
        self.place = place

    def __repr__(self) -> str:
        return f"<Document {self.place}>"

    @property
    def key(self) -> tuple[str, ...]:
        """The parts of its key."""
        return self.place.key

    @property
    def documents(self) -> Documents[T]:
        """The collection to which it belongs."""
        return self._documents

    # ── Reading ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def get(self) -> Versioned[T]:
        """The value and its version. Raises ``NotFound`` if it does not exist, or has expired."""
        if (found := await self.find()) is None:
            raise self.missing()
        return found

    async def find(self) -> Versioned[T] | None:
        """The value and its version, or ``None`` if it does not exist, or has expired."""
        opened = self._documents.opened()
        return self.read(await self._load(opened), opened.clock.now_ms())

    def read(self, item: Item | None, now: int) -> Versioned[T] | None:
        """This document as an item of the store has it at ``now`` (milliseconds)."""
        return read(self.place, item, self._documents.schema, now)

    # ── Writing ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def create(self, value: T, *, ttl: Duration | None = None) -> Versioned[T]:
        """Create it. Raises ``Conflict`` if it exists. With ``ttl`` it expires after that time."""
        opened, writer = self._documents.opened(), new_writer()
        old = NOTHING
        while True:
            put, written = self.written(old, value, ttl, writer, opened)
            try:
                await self._write(put, writer, opened)
                return written
            except Refused as refused:
                there = refused.item
            if (found := self.read(there, opened.clock.now_ms())) is not None:
                raise Conflict(f"document {self.place} exists already, at version {found.version}", found)
            old = before(there)  # a remnant: the new document continues from its version

    async def put(self, value: T, *, version: int, ttl: Duration | None = None) -> Versioned[T]:
        """Write it if it still has ``version``, as ``get`` returned it; one write. Raises ``Conflict`` if not.

        The document is replaced as a whole. From now on it lives as long as ``ttl``, or the collection's, says.
        """
        opened, writer = self._documents.opened(), new_writer()
        put, written = self.written(Before(checked_version(version)), value, ttl, writer, opened)
        try:
            await self._write(put, writer, opened)
        except Refused as refused:
            raise self._conflict(version, refused.item, opened) from None
        return written

    async def update(
        self, change: Callable[[T], T], *, default: T | Missing = MISSING, ttl: Duration | None = None
    ) -> Versioned[T]:
        """Write what ``change`` makes of the value: one read and one write, and one more write for each time that
        another writer was faster. ``default`` is changed if there is no document; without it that is ``NotFound``.

        ``change`` is a plain function that may run several times, so it must have no effects. The document keeps its
        time of expiry, unless ``ttl`` or its collection says otherwise. Raises ``Conflict`` if other writers are faster
        every time.
        """
        opened, writer = self._documents.opened(), new_writer()
        item = await self._load(opened)
        for attempt in range(1, CONFLICT_RETRY.max_attempts + 1):
            found = self.read(item, opened.clock.now_ms())
            value = change(self._begin(found, default))
            keep = found.expires_at if found is not None else None
            put, written = self.written(before(item), value, ttl, writer, opened, keep=keep)
            try:
                await self._write(put, writer, opened)
                return written
            except Refused as refused:
                item = refused.item
            opened.emit("conflicted", partition=self.place.partition)
            await asyncio.sleep(CONFLICT_RETRY.delay_seconds(attempt, self._documents.random))
        raise Conflict(
            f"document {self.place} was changed by other writers {CONFLICT_RETRY.max_attempts} times in a row",
            self.read(item, opened.clock.now_ms()),
        )

    async def delete(self, *, version: int | None = None) -> bool:
        """Delete it; false if it did not exist. With ``version`` only if it still has that version: else ``Conflict``.

        Its version is kept for a week, so that a writer that has read it before cannot bring it back.
        """
        opened, writer = self._documents.opened(), new_writer()
        item = await self._load(opened)
        for attempt in range(1, CONFLICT_RETRY.max_attempts + 1):
            now = opened.clock.now_ms()
            found = self.read(item, now)
            if version is not None and (found is None or found.version != checked_version(version)):
                raise self._conflict(version, item, opened)
            if found is None:
                return False
            try:
                await self._write(tombstone(self.place, before(item), writer=writer, now=now), writer, opened)
                return True
            except Refused as refused:
                item = refused.item
            opened.emit("conflicted", partition=self.place.partition)
            await asyncio.sleep(CONFLICT_RETRY.delay_seconds(attempt, self._documents.random))
        raise self._conflict(version, item, opened)

    def written(
        self, old: Before, value: T, ttl: Duration | None, writer: str, opened: Opened, *, keep: int | None = None
    ) -> tuple[Put, Versioned[T]]:
        """The write that makes ``value`` its next version, and the document as it will be. ``keep`` is the expiry if
        nothing else sets one. Raises ``SerializationError`` or ``PayloadTooLarge``.
        """
        schema = self._documents.schema
        data, copy = schema.codec.copy(value, f"document {self.place}", opened.limit_bytes)
        expires_at = self._documents.expiry(ttl, opened.clock.now_ms(), keep)
        put = replacement(self.place, old, data, schema.version, writer=writer, expires_at=expires_at)
        return put, Versioned(key=self.key, value=copy, version=old.version + 1, expires_at=expires_at)

    def missing(self) -> NotFound:
        """The error for a caller that expects it to exist."""
        return NotFound(f"there is no document {self.place}, or it has expired")

    async def _load(self, opened: Opened) -> Item | None:
        return await opened.home.store.get(self.place.partition, self.place.sort)

    async def _write(self, put: Put, writer: str, opened: Opened) -> None:
        version = put.item.revision
        await write_fresh(opened.home.store, put, ours=lambda there: is_ours(there, version, writer))

    def _begin(self, found: Versioned[T] | None, default: T | Missing) -> T:
        if found is not None:
            return found.value
        if isinstance(default, Missing):
            raise self.missing()
        codec = self._documents.schema.codec
        return codec.decode(codec.encode(default), "the default")  # a copy, because it may be changed in place

    def _conflict(self, version: int | None, there: Item | None, opened: Opened) -> Conflict:
        found = self.read(there, opened.clock.now_ms())
        now = "does not exist" if found is None else f"is at version {found.version}"
        return Conflict(f"document {self.place} {now}, not at version {version}", found)


class DocumentPage(Struct, Generic[T], frozen=True):
    """Some documents in the order of their keys; pass ``cursor`` as ``after`` for the next page; ``None`` is the end.

    Expired documents are left out, so a page may be short, or empty, although there are more.
    """

    documents: tuple[Versioned[T], ...]
    cursor: str | None = None


class Documents(Generic[T]):
    """All documents of one type. ``name`` is their name in the store; ``ttl`` is how long each lives after a write."""

    def __init__(self, name: str, schema: Schema[T], ttl: Duration | None, connect: Callable[[], Opened]) -> None:
        self.name = name
        self.schema = schema
        self.opened = connect
        self.random = Random(ids.new_seed())
        """Of the back-off only."""
        self._ttl_ms = None if ttl is None else _checked_ttl(ttl)

    def __repr__(self) -> str:
        return f"<Documents {self.name}>"

    def at(self, *key: str) -> Document[T]:
        """The document under this key, of one part or several. Reads nothing. Raises ``InvalidInput``."""
        return Document(self, Place(self.name, check_key("document", key)))

    async def list(
        self, first: str, *parts: str, prefix: str = "", after: str | None = None, limit: int = 100
    ) -> DocumentPage[T]:
        """The documents whose keys begin with these parts, followed by one that begins with ``prefix``: a page, in
        the order of the keys, each as it was at one moment during the call.

            await orders.list("customer-7")                  # ("customer-7", ...)
            await orders.list("customer-7", prefix="2026-")  # ("customer-7", "2026-11-05"), ...
        """
        check_key("document", (first, *parts))
        check_part("document", prefix)
        if limit < 1:
            raise InvalidInput(f"limit must be at least 1, got {limit!r}")
        opened = self.opened()
        sorts = SORT_PREFIX + "".join(part + SEPARATOR for part in parts) + prefix
        partition = f"{GROUP_PREFIX}{self.name}{SEPARATOR}{first}"
        page = await opened.home.store.query(partition, prefix=sorts, after=after, limit=limit)
        now = opened.clock.now_ms()
        found = (read(Place(self.name, key_of(first, item)), item, self.schema, now) for item in page.items)
        return DocumentPage(tuple(each for each in found if each is not None), page.cursor)

    def expiry(self, ttl: Duration | None, now: int, keep: int | None) -> int | None:
        """When a document that is written ``now`` expires, in milliseconds: by the write's own ``ttl``, else by the
        collection's, else unchanged.
        """
        ttl_ms = self._ttl_ms if ttl is None else _checked_ttl(ttl)
        return keep if ttl_ms is None else now + ttl_ms


def checked_version(version: int) -> int:
    """The version of an existing document. Raises ``InvalidInput``."""
    given: Any = version  # whatever its annotation says
    if type(given) is not int or given < 1:
        raise InvalidInput(f"version must be a number from 1 on, as get() returns it, got {repr(given)[:60]}")
    return given


def _checked_ttl(ttl: Duration) -> int:
    if (found := milliseconds(ttl)) == 0:
        raise InvalidInput("ttl must be positive; to remove a document call delete()")
    return found
