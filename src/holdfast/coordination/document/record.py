"""What the store holds about a document, and how a write is recognised.

The item's ``revision`` is the document's version. Its body names the last few writers, so a write whose answer was lost
is recognised although others have written since. Versions never go back: a document that was deleted or has expired
stays as a *remnant* for a week, and a document created again continues from its version. ``expires_at`` of the item is
when the remnant may go; the document's own expiry is in the body.
"""

from __future__ import annotations

from typing import Final, Generic, TypeVar

import msgspec
from msgspec import Raw, Struct

from holdfast import ids
from holdfast.codec.stored import stored
from holdfast.codec.upcasting import Schema
from holdfast.errors import StoreUnavailable
from holdfast.items import ABSENT, HEAD, Condition, Item, Put, RevisionIs
from holdfast.keys import SEPARATOR

T = TypeVar("T")

ALONE_PREFIX: Final = "doc#"
GROUP_PREFIX: Final = "docs#"
"""Documents with a key of one part have a partition each; of more parts, one for all that share the first part. The two
differ because the head of a partition takes everything in it along when it expires.
"""
SORT_PREFIX: Final = "d#"

LIVE: Final = "LIVE"
DELETED: Final = "DELETED"

REMNANT_MS: Final = 7 * 24 * 3600 * 1000
"""How long a deleted document keeps its version: no writer is still awake that long."""

WRITERS_NAMED: Final = 8
WRITER_DIGITS: Final = 12

NO_VALUE: Final = Raw(b"null")


class Versioned(Struct, Generic[T], frozen=True, kw_only=True):
    """A document as it was read or written: its key, its value, and the version for writing it back."""

    key: tuple[str, ...]
    value: T
    version: int
    expires_at: int | None = None
    """In milliseconds since the epoch; ``None``: never."""


class Stored(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The body. ``writers`` are the writers of the last versions, the latest one last."""

    schema: int
    value: Raw
    writers: tuple[str, ...]
    expires_at: int | None = None


_encode: Final = msgspec.json.Encoder().encode
decode_stored: Final = stored(Stored, "a document")


class Place(Struct, frozen=True):
    """Where a document is kept."""

    collection: str
    key: tuple[str, ...]

    @property
    def partition(self) -> str:
        prefix = ALONE_PREFIX if len(self.key) == 1 else GROUP_PREFIX
        return f"{prefix}{self.collection}{SEPARATOR}{self.key[0]}"

    @property
    def sort(self) -> str:
        return HEAD if len(self.key) == 1 else SORT_PREFIX + SEPARATOR.join(self.key[1:])

    def __str__(self) -> str:
        return f"{self.collection} {'/'.join(self.key)!r}"


def key_of(first: str, item: Item) -> tuple[str, ...]:
    """The key of a document that was found among the documents with this first part."""
    return (first, *item.sort[len(SORT_PREFIX) :].split(SEPARATOR))


class Before(Struct, frozen=True):
    """What a write replaces: a version (0: there never was one), and its writer and earlier ones, if known."""

    version: int = 0
    writers: tuple[str, ...] = ()

    @property
    def unchanged(self) -> Condition:
        """The condition that it is unchanged."""
        return RevisionIs(self.version) if self.version else ABSENT


NOTHING: Final = Before()


def before(item: Item | None) -> Before:
    """What a write replaces if this item exists, as a document or as a remnant."""
    return NOTHING if item is None else Before(item.revision, decode_stored(item.body).writers)


def read(place: Place, item: Item | None, schema: Schema[T], now: int) -> Versioned[T] | None:
    """The document, if it exists and has not expired at ``now`` (milliseconds)."""
    if item is None or item.status != LIVE:
        return None
    stored = decode_stored(item.body)
    if stored.expires_at is not None and stored.expires_at <= now:
        return None
    value = schema.decode(bytes(stored.value), stored.schema, f"document {place}")
    return Versioned(key=place.key, value=value, version=item.revision, expires_at=stored.expires_at)


def new_writer() -> str:
    """A name for one write, by which it is recognised."""
    return ids.new_id()[:WRITER_DIGITS]


def replacement(place: Place, old: Before, data: bytes, schema: int, *, writer: str, expires_at: int | None) -> Put:
    """The write that makes ``data`` the document's next version."""
    return _put(place, old, LIVE, schema, data, writer, expires_at, expires_at)


def tombstone(place: Place, old: Before, *, writer: str, now: int) -> Put:
    """The write that deletes a document and keeps its version."""
    return _put(place, old, DELETED, 1, bytes(NO_VALUE), writer, None, now)


def _put(
    place: Place,
    old: Before,
    status: str,
    schema: int,
    data: bytes,
    writer: str,
    expires_at: int | None,
    gone_at: int | None,
) -> Put:
    stored = Stored(
        schema=schema, value=Raw(data), writers=(*old.writers, writer)[-WRITERS_NAMED:], expires_at=expires_at
    )
    item = Item(
        partition=place.partition,
        sort=place.sort,
        revision=old.version + 1,
        status=status,
        expires_at=None if gone_at is None else gone_at + REMNANT_MS,
        body=_encode(stored),
    )
    return Put(item, old.unchanged)


def is_ours(there: Item | None, version: int, writer: str) -> bool:
    """Whether ``writer`` wrote this version, according to the present item.

    Raises ``StoreUnavailable`` if that is unknown because too many writers followed.
    """
    if there is None or there.revision < version:
        return False
    writers = decode_stored(there.body).writers
    oldest = there.revision - len(writers) + 1
    if version < oldest:
        raise StoreUnavailable(
            f"the store did not answer a write of version {version}, and has reached version {there.revision} since: "
            "it may or may not have been applied. Read the document and decide again"
        )
    return writers[version - oldest] == writer
