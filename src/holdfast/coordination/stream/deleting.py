"""Deleting a stream: its deletion is appended like an event, then what lies below is emptied.

So one write decides it, and the writer that is at the version before loses, like any other that was overtaken. The
places of events stay, without content: a version never means two events, and a writer, a reader or a checkpoint that
comes back after a year finds what it knows taken or deleted. The first place says up to where. A process that dies in
between leaves a stream that counts as deleted, and the next ``delete`` empties the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol

from msgspec import Raw

from holdfast import ids
from holdfast.coordination.stream.appending import earlier, write_events
from holdfast.coordination.stream.declared import DeclaredStreams
from holdfast.coordination.stream.record import (
    DELETED,
    DELETION,
    FIRST_EVENT,
    REQUEST_PREFIX,
    SNAPSHOT_PREFIX,
    Deletion,
    Place,
    StoredEvent,
    decode_request,
    deletion_in,
    encode,
    event_sort,
)
from holdfast.errors import Conflict, Refused
from holdfast.items import ABSENT, AnyOf, Delete, EpochIs, Item, RevisionIs, Update, Write, parts_of
from holdfast.paging import Pages
from holdfast.persist import write_for_caller
from holdfast.ports import Home

BATCH: Final = 90
"""The number of places that one write empties."""

EMPTY: Final = encode(StoredEvent(id="", kind=DELETION, data=Raw(b"null"), at_ms=0))
"""What is left of an event."""


class Deletable(Protocol):
    """What is deleted: a stream."""

    @property
    def place(self) -> Place: ...
    @property
    def streams(self) -> DeclaredStreams: ...
    async def version(self) -> int: ...
    async def deletion(self) -> Deletion: ...


async def mark(stream: Deletable, version: int | None) -> bool:
    """Append the deletion, if there is anything behind the last one. False if another writer was faster.

    Raises ``Conflict`` if the stream is not at ``version``; it is, if that very version was deleted.
    """
    there, before = await stream.version(), await stream.deletion()
    is_deleted = there == before.version
    if version is not None and version != there and not (is_deleted and version == there - 1):
        raise Conflict(f"stream {stream.place} is at version {there}, not at version {version}", there)
    if is_deleted:
        return True
    now = stream.streams.opened().clock.now_ms()
    events = [StoredEvent(id=ids.new_ordered_id(now), kind=DELETION, data=Raw(b"null"), at_ms=now)]
    first = Update(
        partition=stream.place.partition,
        sort=event_sort(FIRST_EVENT),
        status=DELETED,
        body=encode(Deletion(there + 1, before.emptied)),
        add_epoch=1,
    )
    try:
        await write_events(stream.streams, stream.place, there, events, id=None, seen=True, besides=[first])
    except Refused as refused:
        return earlier(refused.item, stream.place, events, None) is not None
    return True


async def empty(stream: Deletable) -> None:
    """Empty what was deleted. Many may do it at once, and again."""
    home, partition = stream.streams.opened().home, stream.place.partition
    first = await home.store.get(partition, event_sort(FIRST_EVENT))
    found = deletion_in(first)
    if first is None or found.emptied == found.version:
        return
    await _empty_places(home, partition, found)
    # After the places: a snapshot is kept only while its event is there, so none comes later.
    for prefix in (REQUEST_PREFIX, SNAPSHOT_PREFIX):
        while not await _delete_below(home, partition, prefix, found.version):
            pass
    done = Update(
        partition=partition,
        sort=event_sort(FIRST_EVENT),
        when=EpochIs(first.epoch),
        body=encode(Deletion(found.version, found.version)),
    )
    with suppress(Refused):  # it was deleted once more, and that deletion empties the rest
        await write_for_caller(home.store, done, ours=lambda _there: False)


async def _empty_places(home: Home, partition: str, found: Deletion) -> None:
    """From the last one on, so that a process that still reads has seen all before a missing event."""
    last = max(found.emptied, FIRST_EVENT)
    for high in range(found.version - 1, last, -BATCH):
        versions = range(high, max(last, high - BATCH), -1)
        await _write(home, [_emptied(partition, each) for each in versions])


def _emptied(partition: str, version: int) -> Update:
    return Update(partition=partition, sort=event_sort(version), status=DELETED, body=EMPTY)


async def _delete_below(home: Home, partition: str, prefix: str, version: int) -> bool:
    """Delete request ids or snapshots from before a deletion. False if one was made again meanwhile."""

    def query(after: str | None) -> Any:
        return home.store.query(partition, prefix=prefix, after=after, limit=BATCH)

    try:
        async for page in Pages(query):
            await _write(home, list(_deletes(page.items, version)))
    except Refused:
        return False
    return True


def _deletes(items: Iterable[Item], version: int) -> Iterable[Write]:
    for item in items:
        of = decode_request(item.body).version if item.sort.startswith(REQUEST_PREFIX) else item.revision
        if of < version:
            yield Delete(item.partition, item.sort, AnyOf((ABSENT, RevisionIs(item.revision))))


async def _write(home: Home, writes: Sequence[Write]) -> None:
    for part in parts_of(writes, home.bounds):
        await write_for_caller(home.store, *part, ours=lambda _there: False)
