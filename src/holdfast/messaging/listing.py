"""Events that wait in the outboxes of a home: published, and not delivered yet."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from msgspec import Struct

from holdfast.actors.record import HIDDEN_MARK, describe_partition
from holdfast.clock import moment
from holdfast.coordination.census import refuse_whole
from holdfast.errors import InvalidInput
from holdfast.items import Item
from holdfast.keys import check_limit
from holdfast.messaging import bus_queue
from holdfast.messaging.outbox import (
    ENTRY_PREFIX,
    PARTITION_PREFIX,
    Entry,
    all_parts,
    app_of,
    decode_entry,
    is_shard,
    partition_of,
    stands_alone,
    subscribed,
    subscriptions,
)
from holdfast.paging import Items, heads
from holdfast.ports import Home, Store

CURSOR_MARK = "/"
"""Separates an outbox from a place in it. No app has it in its name."""


OUTBOX: Final = "outbox"
FOR_BUS: Final = "bus"
REFUSED: Final = "refused"

QUEUES: Final = (OUTBOX, FOR_BUS, REFUSED)
"""Where events of an app wait: for the relay, for the bus, and for an operator."""


class Place(Struct, frozen=True):
    """Where events of one queue lie."""

    queue: str
    partition: str
    prefix: str


def places_of(app: str) -> list[Place]:
    """All of an app's, in the order in which they are listed. Cursors hold their numbers."""
    bus = bus_queue.partition_of(app)
    waiting = [Place(OUTBOX, partition, ENTRY_PREFIX) for partition in all_parts(app)]
    return [*waiting, Place(FOR_BUS, bus, ENTRY_PREFIX), Place(REFUSED, bus, bus_queue.UNROUTABLE_PREFIX)]


class WaitingEvent(Struct, frozen=True, kw_only=True):
    """An event that the relay has not delivered yet, or that the bus has not accepted. It does not hold the payload.

    ``queue`` is where it waits: in the ``outbox`` for the relay, for the ``bus``, or ``refused`` for an operator.
    ``group`` is the actor in whose order it is handled; ``None`` if it stands alone. ``consumers`` are those that are
    subscribed now; without any the event will be dropped. ``problem`` is why the bus fails, or refused it for good.
    """

    app: str
    queue: str
    event: str
    id: str
    group: str | None
    published_at: datetime
    consumers: tuple[str, ...]
    problem: str | None = None


class WaitingPage(Struct, frozen=True):
    """A page of events that wait. Pass ``after`` to get the next one; ``None`` means that this is the last."""

    items: tuple[WaitingEvent, ...]
    after: str | None


async def list_waiting(
    home: Home, app: str | None, *, queue: str | None = None, after: str | None, limit: int, scan: bool = False
) -> WaitingPage:
    """One page of the events that wait in one app's outbox, or in all of the home's, in the order of delivery. Events
    that wait for the bus are included, unless only those of one ``queue`` are asked for. Raises ``InvalidInput`` for a
    wrong queue, limit or cursor, and for all apps if their names are not known without ``scan``.
    """
    check_limit(limit)
    if app is None:
        refuse_whole(home, "the events of all apps", scan=scan, instead="Name an app")
    if queue is not None and queue not in QUEUES:
        raise InvalidInput(f"no queue of events is called {queue!r}; there are: {', '.join(QUEUES)}")
    first, begin, place = _parts(after)
    found: list[WaitingEvent] = []
    for each in await apps_of(home) if app is None else [app]:
        if each < first:
            continue
        known = await _consumers(home.store, each)
        for number, of in enumerate(places_of(each)):
            if (each == first and number < begin) or queue not in (None, of.queue):
                continue
            cursor = place if (each, number) == (first, begin) else None
            more = True
            while more:
                if len(found) >= limit:
                    return WaitingPage(tuple(found), f"{each}{CURSOR_MARK}{number:02d}{cursor or ''}")
                page = await home.store.query(of.partition, prefix=of.prefix, after=cursor, limit=limit - len(found))
                failing = await _why_bus_fails(home.store, each) if of.queue == FOR_BUS and page.items else None
                found += [_waiting(each, item, of.queue, known, failing) for item in page.items]
                cursor, more = page.cursor, page.cursor is not None
    return WaitingPage(tuple(found), None)


async def apps_of(home: Home) -> list[str]:
    """The apps that have an outbox, by name. Without a census this reads the whole table."""
    if home.census is None:
        found = heads(home.store, PARTITION_PREFIX)
    else:
        census = home.census
        found = Items(lambda after: census.heads(PARTITION_PREFIX, after=after))
    return sorted([app_of(head.partition) async for head in found if not is_shard(head.partition)])


async def _consumers(store: Store, app: str) -> dict[str, list[str]]:
    """The consumers of each event, by the names that the app gave them."""
    known: dict[str, list[str]] = {}
    for item in await subscriptions(store, partition_of(app)):
        event, consumer = subscribed(item)
        known.setdefault(event, []).append(consumer.rpartition(HIDDEN_MARK)[2])
    return known


async def _why_bus_fails(store: Store, app: str) -> str | None:
    """What the bus has last answered, if it has not accepted events since."""
    head = await store.get(bus_queue.partition_of(app))
    return (bus_queue.decode_head(head.body).reason or None) if head is not None else None


def _waiting(app: str, item: Item, queue: str, consumers: dict[str, list[str]], failing: str | None) -> WaitingEvent:
    match queue:
        case "outbox":
            entry = decode_entry(item.body)
            wanted = consumers.get(entry.event, [])
            taken = [each for each in wanted if not (entry.foreign and each == bus_queue.BUS)]
            return _event(app, queue, entry, taken, None)
        case "bus":
            return _event(app, queue, decode_entry(item.body), [bus_queue.BUS], failing)
        case _:
            refused = bus_queue.decode_unroutable(item.body)
            return _event(app, queue, refused.entry, [bus_queue.BUS], refused.reason)


def _event(app: str, queue: str, entry: Entry, consumers: Sequence[str], problem: str | None) -> WaitingEvent:
    return WaitingEvent(
        app=app,
        queue=queue,
        event=entry.event,
        id=entry.id,
        group=None if stands_alone(entry.group) else describe_partition(entry.group),
        published_at=moment(entry.published_at),
        consumers=tuple(consumers),
        problem=problem,
    )


def _parts(after: str | None) -> tuple[str, int, str | None]:
    """What a cursor stands for: the app, the number of the place, and the cursor within that place."""
    if after is None:
        return "", 0, None
    app, mark, place = after.partition(CURSOR_MARK)
    number = place[:2]
    if not (mark and len(number) == 2 and number.isascii() and number.isdigit()):
        raise InvalidInput(f"{after!r} is not a cursor of this list; pass the after of the previous page")
    return app, int(number), place[2:] or None
