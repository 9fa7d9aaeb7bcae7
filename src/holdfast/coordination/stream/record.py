"""What the store holds about a stream: one item per event, at its version, written once if absent.

The free place of an event *is* the concurrency control: of two writers that both know version 7, one writes event 8.
There is no separate counter that could disagree with the events.
"""

from __future__ import annotations

from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec import Raw, Struct

from holdfast.codec.stored import stored
from holdfast.coordination.stream.kinds import Kinds
from holdfast.errors import Conflict
from holdfast.items import ABSENT, Item, Put, StatusIn, Update
from holdfast.keys import SEPARATOR

T = TypeVar("T")

PARTITION_PREFIX: Final = "stream#"
EVENT_PREFIX: Final = "e#"
REQUEST_PREFIX: Final = "q#"
"""The append of each request id, so that a repeat of it is recognised."""
SNAPSHOT_PREFIX: Final = "s#"

FIRST_EVENT: Final = 1
"""The version whose place tells, once a stream was deleted, up to which version."""
DELETED: Final = "deleted"
"""The status of a place whose event is gone. It stays, so that no writer takes a version a second time."""
DELETION: Final = "!deleted"
"""The kind of what a deletion appends; no class has such a name."""

VERSION_DIGITS: Final = 12


class Recorded(Struct, Generic[T], frozen=True, kw_only=True):
    """A recorded event: its stream, its version there, its time (milliseconds) and its id.

    ``position`` is its place among the events of all streams, if those are ordered, else 0.
    """

    key: tuple[str, ...]
    event: T
    version: int
    id: str
    at_ms: int
    position: int = 0


class StoredEvent(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The body of an event's item. It does not depend on its place, because a large one is stored beforehand."""

    id: str
    kind: str
    data: Raw
    at_ms: int
    schema: int = 1


class Request(Struct, frozen=True):
    """The body of a request's item: its append, and the fingerprint of its events."""

    version: int
    count: int
    fingerprint: str


class Deletion(Struct, frozen=True):
    """The body of a deleted stream's first place: the version of the deletion, and up to where the rest is gone."""

    version: int = 0
    emptied: int = 0


encode: Final = msgspec.json.Encoder().encode
decode_deletion: Final = stored(Deletion, "the deletion of a stream")
decode_event: Final = stored(StoredEvent, "an event of a stream")
decode_request: Final = stored(Request, "a request to a stream")


class StreamDeleted(Conflict):
    """The events of a stream were deleted, up to the version ``there``; nothing of a write was applied.

    A reader in the middle of them, or a writer at one of their versions, hears it. Read on behind ``there``, where the
    stream begins again, and forget what you have made of earlier events.
    """

    code = "stream_deleted"
    retryable = False


class Place(Struct, frozen=True):
    """Where a stream is kept."""

    collection: str
    key: tuple[str, ...]

    @property
    def partition(self) -> str:
        return f"{PARTITION_PREFIX}{self.collection}{SEPARATOR}{SEPARATOR.join(self.key)}"

    def __str__(self) -> str:
        return f"{self.collection} {'/'.join(self.key)!r}"


def event_sort(version: int) -> str:
    """The sort key of an event."""
    return f"{EVENT_PREFIX}{version:0{VERSION_DIGITS}d}"


def version_of(item: Item) -> int:
    """The version of an event's item."""
    return int(item.sort[len(EVENT_PREFIX) :])


def event_put(place: Place, version: int, event: StoredEvent, position: int = 0) -> Put:
    """The write that appends an event at a free place. Its revision is its position among the events of all streams."""
    return Put(
        Item(
            partition=place.partition,
            sort=event_sort(version),
            revision=position,
            status=DELETED if event.kind == DELETION else "",
            body=encode(event),
        ),
        ABSENT,
    )


def is_there(place: Place, version: int) -> Update:
    """The guard that a stream has at least this length."""
    return Update(partition=place.partition, sort=event_sort(version))


def is_live(place: Place, version: int) -> Update:
    """The guard that a stream has this event, and that it was not deleted."""
    return Update(partition=place.partition, sort=event_sort(version), when=StatusIn(("",)))


def deletion_in(first: Item | None) -> Deletion:
    """The last deletion of a stream, from its first place."""
    return Deletion() if first is None or first.status != DELETED else decode_deletion(first.body)


def stream_deleted(place: Place, version: int) -> StreamDeleted:
    """The error at what was deleted."""
    return StreamDeleted(f"stream {place} was deleted up to version {version}: go on behind that", version)


def recorded(place: Place, item: Item, kinds: Kinds) -> Recorded[Any]:
    """An event as users see it. Raises ``SerializationError``."""
    stored, version = decode_event(item.body), version_of(item)
    event = kinds.decode(stored.kind, stored.schema, bytes(stored.data), f"event {version} of stream {place}")
    return Recorded(
        key=place.key,
        event=event,
        version=version,
        id=stored.id,
        at_ms=stored.at_ms,
        position=item.revision,
    )
