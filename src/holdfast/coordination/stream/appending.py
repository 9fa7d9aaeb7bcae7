"""The write that appends events, and how it is recognised."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeVar

from msgspec import Raw

from holdfast import ids
from holdfast.backoff import Pauses
from holdfast.coordination.stream.declared import DeclaredStreams
from holdfast.coordination.stream.log import Pointer, write_numbered
from holdfast.coordination.stream.record import (
    EVENT_PREFIX,
    REQUEST_PREFIX,
    Place,
    Request,
    StoredEvent,
    decode_event,
    decode_request,
    encode,
    event_put,
    is_there,
    version_of,
)
from holdfast.errors import IdempotencyMismatch, InvalidInput, StoreUnavailable
from holdfast.items import ABSENT, Item, Put, Write
from holdfast.persist import CALLER_PATIENCE_SECONDS, send_until_known

T = TypeVar("T")

MOST_EVENTS: Final = 48
"""The most events in one append. With the places in the log, a request id and a guard it stays below the 100 items of
one write.
"""


def encoded(
    streams: DeclaredStreams, place: Place, events: Sequence[T], id: str | None
) -> tuple[list[StoredEvent], list[T]]:
    """The events as they are stored, and as they will be read. Raises ``InvalidInput`` and its kinds."""
    if not 1 <= len(events) <= MOST_EVENTS:
        raise InvalidInput(f"an append must have 1 to {MOST_EVENTS} events, got {len(events)}")
    opened = streams.opened()
    now, what = opened.clock.now_ms(), f"an event of stream {place}"
    stored: list[StoredEvent] = []
    copies: list[Any] = []
    for n, event in enumerate(events, start=1):
        kind, schema, data, copy = streams.kinds.encode(event, what, opened.limit_bytes)
        own = ids.new_ordered_id(now) if id is None else id if len(events) == 1 else f"{id}/{n}"
        stored.append(StoredEvent(id=own, kind=kind, data=Raw(data), at_ms=now, schema=schema))
        copies.append(copy)
    return stored, copies


async def write_events(
    streams: DeclaredStreams,
    place: Place,
    base: int,
    events: Sequence[StoredEvent],
    *,
    id: str | None,
    seen: bool,
    besides: Sequence[Write] = (),
) -> Sequence[int]:
    """Append events behind version ``base``, which the stream has certainly reached if it was ``seen``; returns their
    positions. ``besides`` is written with them, and touches other places. Raises ``Refused``, also if this very append
    was applied before: see ``earlier``.
    """
    opened = streams.opened()
    positions: Sequence[int] = [0] * len(events)

    def writes() -> list[Write]:
        found: list[Write] = []
        if id is not None:  # first, so that a repeat is recognised whatever version it names
            body = encode(Request(base, len(events), fingerprint_of(events)))
            found.append(
                Put(Item(partition=place.partition, sort=REQUEST_PREFIX + id, revision=base, body=body), ABSENT)
            )
        numbered = enumerate(zip(events, positions, strict=True), start=1)
        found += [event_put(place, base + n, each, position) for n, (each, position) in numbered]
        if not seen:
            found.append(is_there(place, base))
        return [*found, *besides]

    def in_order(last: int) -> tuple[Sequence[Write], Sequence[Pointer]]:
        nonlocal positions  # the last time this runs is the one that is committed
        positions = range(last + 1, last + len(events) + 1)
        return writes(), [Pointer(place.key, base + n) for n in range(1, len(events) + 1)]

    async def send() -> None:
        if streams.ordered:
            await write_numbered(opened.home, streams.name, in_order)
        else:
            await opened.home.store.write(*writes())

    try:
        await send()
    except StoreUnavailable:
        await Pauses().wait()
        # If the first attempt was applied, its own events refuse this one: `earlier` recognises them.
        await send_until_known(send, ours=lambda _there: False, patience_seconds=CALLER_PATIENCE_SECONDS)
    streams.ring(place.partition)
    return positions


def earlier(there: Item | None, place: Place, events: Sequence[StoredEvent], id: str | None) -> Request | None:
    """The append of these very events, if that was the cause of the refusal. Raises ``IdempotencyMismatch``."""
    if there is None:
        return None
    if there.sort.startswith(REQUEST_PREFIX):
        request = decode_request(there.body)
        if request.fingerprint != fingerprint_of(events):
            raise IdempotencyMismatch(f"stream {place} has other events under the id {id!r}")
        return request
    # With an id its request, which is written first, would have refused it. Only our own ids are never shared.
    if id is None and there.sort.startswith(EVENT_PREFIX) and decode_event(there.body).id == events[0].id:
        return Request(version_of(there) - 1, len(events), "")
    return None


def fingerprint_of(events: Sequence[StoredEvent]) -> str:
    """Distinguishes the events of one append from those of another."""
    return ids.fingerprint(b"\0".join(each.kind.encode() + b" " + bytes(each.data) for each in events))
