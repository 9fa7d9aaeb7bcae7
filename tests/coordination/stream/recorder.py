"""Streams behind the interfaces of the `eventsourcing` library, so that its own test cases can judge them.

Its versions begin at 0 or 1, and those of snapshots have gaps: an event of version v is our v + 1, and the end of a
stream is found by reading it. One insert may hold events of several streams, and more than one append of ours takes.
"""

from __future__ import annotations

from eventsourcing.persistence import (
    AggregateRecorder,
    ApplicationRecorder,
    IntegrityError,
    Notification,
    ProcessRecorder,
    StoredEvent,
)
from msgspec import Struct

from holdfast import ids
from holdfast.coordination.stream import record
from holdfast.coordination.stream.log import Pointer, write_numbered
from holdfast.errors import InvalidInput, Refused
from holdfast.items import ABSENT, Item, Put, RevisionIs


class Kept(Struct):
    """What the library calls a stored event."""

    originator_id: str
    topic: str
    state: bytes


class StreamAggregateRecorder(AggregateRecorder):
    """Each aggregate is a stream. ``run`` is the sync bridge of the open app."""

    def __init__(self, run, app, *, new_id=str):
        self._run = run
        self._new_id = new_id
        self._streams = app.streams(Kept, ordered=True)

    def insert_events(self, stored_events, **options):
        self._insert(stored_events, **options)

    def _insert(self, stored_events, tracking=None):
        return self._run(self._insert_all(stored_events, tracking))

    async def _insert_all(self, stored_events, tracking):
        opened, streams, found = self._streams.opened(), self._streams, []
        events = []
        for each in stored_events:
            place = record.Place(streams.name, (str(each.originator_id),))
            kept = Kept(str(each.originator_id), each.topic, each.state)
            kind, schema, data, _ = streams.kinds.encode(kept, "an event", opened.limit_bytes)
            id, at_ms = ids.new_id(), opened.clock.now_ms()
            stored = record.StoredEvent(id=id, kind=kind, data=record.Raw(data), at_ms=at_ms, schema=schema)
            events.append((place, each.originator_version + 1, stored))
        extra = [] if tracking is None else [await self._tracked(tracking)]

        def numbered(last):
            found[:] = range(last + 1, last + len(events) + 1)
            puts = [
                record.event_put(place, version, stored, position)
                for position, (place, version, stored) in zip(found, events, strict=True)
            ]
            return [*extra, *puts], [Pointer(place.key, version) for place, version, _ in events]

        try:
            if events:
                await write_numbered(opened.home, streams.name, numbered)
            elif extra:
                await opened.home.store.write(*extra)
        except (Refused, InvalidInput) as error:
            raise IntegrityError(str(error)) from error
        return list(found)

    async def _tracked(self, tracking):
        """The write that notes how far another application was followed, never further back."""
        there = await self._streams.opened().home.store.get(f"tracking#{tracking.application_name}")
        if there is not None and there.revision >= tracking.notification_id:
            raise IntegrityError(f"{tracking} is not beyond {there.revision}")
        when = ABSENT if there is None else RevisionIs(there.revision)
        return Put(Item(f"tracking#{tracking.application_name}", revision=tracking.notification_id), when)

    def select_events(self, originator_id, *, gt=None, lte=None, desc=False, limit=None):
        after, upto = 0 if gt is None else gt + 1, None if lte is None else lte + 1

        async def read():
            stream = self._streams.at(str(originator_id))
            return [each async for each in stream.read(after=after, upto=upto, limit=None if desc else limit)]

        found = self._run(read())
        found = found[::-1][:limit] if desc else found
        return [StoredEvent(originator_id, each.version - 1, each.event.topic, each.event.state) for each in found]


class StreamApplicationRecorder(StreamAggregateRecorder, ApplicationRecorder):
    """The order of all events is the application's sequence of notifications."""

    def insert_events(self, stored_events, **options):
        return self._insert(stored_events, **options)

    def select_notifications(self, start, limit, stop=None, topics=(), *, inclusive_of_start=True):
        after = 0 if start is None else start - 1 if inclusive_of_start else start

        async def read():
            found = []
            async for each in self._streams.read(after=after):
                if len(found) == limit or (stop is not None and each.position > stop):
                    break
                if not topics or each.event.topic in topics:
                    found.append(each)
            return found

        return [
            Notification(self._new_id(each.key[0]), each.version - 1, each.event.topic, each.event.state, each.position)
            for each in self._run(read())
        ]

    def max_notification_id(self):
        return self._run(self._streams.position()) or None

    def subscribe(self, gt=None, topics=()):
        raise NotImplementedError("streams are followed by async generators: Streams.follow")


class StreamProcessRecorder(StreamApplicationRecorder, ProcessRecorder):
    """How far another application was followed commits with the events."""

    def insert_tracking(self, tracking):
        self._insert([], tracking)

    def max_tracking_id(self, application_name):
        there = self._run(self._streams.opened().home.store.get(f"tracking#{application_name}"))
        return None if there is None else there.revision
