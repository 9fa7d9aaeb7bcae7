"""Documents of one type: what is declared once for all of them, and how they are listed by their keys."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Generic, TypeVar

from msgspec import Struct

from holdfast import ids
from holdfast.codec.upcasting import Schema
from holdfast.coordination.document.handle import Document
from holdfast.coordination.document.record import GROUP_PREFIX, SORT_PREFIX, Place, Versioned, key_of, read
from holdfast.duration import Duration, milliseconds
from holdfast.errors import InvalidInput
from holdfast.keys import SEPARATOR, check_key, check_part
from holdfast.opened import Opened

T = TypeVar("T")


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


def _checked_ttl(ttl: Duration) -> int:
    if (found := milliseconds(ttl)) == 0:
        raise InvalidInput("ttl must be positive; to remove a document call delete()")
    return found
