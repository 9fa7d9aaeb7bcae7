"""Streams of one type, with all their events in one order; and one of them: append at its version, read, follow."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from datetime import datetime
from typing import Any, Final, Generic, TypeVar

from holdfast.coordination.stream import deleting
from holdfast.coordination.stream.appending import earlier, encoded, write_events
from holdfast.coordination.stream.declared import DeclaredStreams
from holdfast.coordination.stream.fold import Fold, keep_read, load, snapshot
from holdfast.coordination.stream.following import follow
from holdfast.coordination.stream.idle import Idle, idle_streams
from holdfast.coordination.stream.log import (
    decode_pointer,
    last_position,
    partition_of,
    pointers,
    position_in,
    sequencer_of,
)
from holdfast.coordination.stream.pages import PAGE_EVENTS, pages_back, pages_of, pages_since
from holdfast.coordination.stream.record import (
    DELETED,
    FIRST_EVENT,
    REQUEST_PREFIX,
    Deletion,
    Place,
    Recorded,
    Request,
    StoredEvent,
    StreamDeleted,
    decode_request,
    deletion_in,
    event_sort,
    recorded,
    stream_deleted,
)
from holdfast.errors import ConfigurationError, Conflict, IdempotencyMismatch, InvalidInput, Refused
from holdfast.items import Item
from holdfast.keys import check_key
from holdfast.opened import Opened
from holdfast.retry import Jitter, Retry

T = TypeVar("T")
S = TypeVar("S")

CONFLICT_RETRY: Final = Retry(max_attempts=25, initial=0.005, backoff=2, max_delay=0.25, jitter=Jitter.FULL)
"""How often an append at the end, or a decision, is repeated because another writer was faster."""


class Stream(Generic[T]):
    """The stream under a key. Creating a handle reads nothing.

    Versions count its events: 0 is an empty stream, and an append at version 7 writes the 8th. An append is durable
    when it returns (G7), all of it or nothing, and applied once even if its answer is lost.

        account = app.stream(Deposited | Withdrawn, "account-1")
        await account.append(Deposited(100), version=0)
        async for recorded in account.read():
            print(recorded.version, recorded.event)
    """

    __slots__ = ("_seen", "_seen_on", "_streams", "place")

    def __init__(self, streams: Streams[T], place: Place) -> None:
        self._streams = streams
        self.place = place
        self._seen = 0
        self._seen_on = ""

    def __repr__(self) -> str:
        return f"<Stream {self.place}>"

    @property
    def key(self) -> tuple[str, ...]:
        """The parts of its key."""
        return self.place.key

    @property
    def streams(self) -> Streams[T]:
        """The collection to which it belongs."""
        return self._streams

    # ── Appending ───────────────────────────────────────────────────────────────────────────────────────────────────

    async def append(self, *events: T, version: int | None = None, id: str | None = None) -> tuple[Recorded[T], ...]:
        """Append events behind ``version``, or at the end. Returns what was recorded.

        Raises ``Conflict`` if the stream is not at ``version``, with the version that it has. With ``id`` the events
        are appended once however often they are sent, and a repeat returns the same; other events under the same id
        raise ``IdempotencyMismatch``. Raises ``StreamDeleted``, a ``Conflict``, if ``version`` was deleted, or if that
        happened during this call. One write, if this handle has seen ``version``, by reading or appending.
        """
        if version is not None:
            checked_version(version)
        if id is not None:
            check_key("request", (id,))
        stored, copies = encoded(self._streams, self.place, events, id)
        base = await self.version() if version is None else version
        for attempt in range(1, CONFLICT_RETRY.max_attempts + 1):
            try:
                positions = await write_events(self._streams, self.place, base, stored, id=id, seen=base <= self._least)
            except Refused as refused:
                if await self._is_left(refused.item, base, version):
                    await deleting.empty(self)
                elif (request := earlier(refused.item, self.place, stored, id)) is not None:
                    return await self._appended(request)
            else:
                self.reached(base + len(events))
                appended = zip(stored, copies, positions, strict=True)
                return tuple(self._recorded(base + n, *each) for n, each in enumerate(appended, start=1))
            there = await self.version()
            if version is not None and version != there:
                raise Conflict(f"stream {self.place} is at version {there}, not at version {version}", there)
            base = there
            await self._give_way(attempt)
        raise self._overtaken()

    # ── Reading ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def version(self) -> int:
        """How many events it has. One read if there was no append since this handle read."""
        low, step = self._least, 1
        while await self._has(low + step):
            low += step
            step *= 2
        high = low + step
        while high - low > 1:
            middle = (low + high) // 2
            if await self._has(middle):
                low = middle
            else:
                high = middle
        self.reached(low)
        return low

    async def read(
        self, *, after: int = 0, upto: int | None = None, backwards: bool = False, limit: int | None = None
    ) -> AsyncGenerator[Recorded[T]]:
        """The events behind version ``after``, up to and with version ``upto``, in their order or ``backwards``, at
        most
        ``limit`` of them. They are read a page at a time; each event is final when its page is read. What was deleted
        before it began is not there; raises ``StreamDeleted`` if events behind ``after`` or behind one that was read
        were deleted.
        """
        checked_version(after)
        if upto is not None:
            checked_version(upto)
        if limit is not None and limit < 0:
            raise InvalidInput(f"limit must be a number of events, at least 0, got {limit!r}")
        count = 0
        pages = pages_back(self, after, upto) if backwards else pages_since(self, after, upto)
        async with aclosing(pages):
            async for page in pages:
                for item in page:
                    if limit is not None and count >= limit:
                        return
                    count += 1
                    yield recorded(self.place, item, self._streams.kinds)

    async def events(self, after: int, upto: int | None) -> AsyncGenerator[Recorded[T]]:
        """As ``read``, and raises ``StreamDeleted`` whatever was deleted behind ``after``."""
        async with aclosing(pages_of(self, after, upto)) as pages:
            async for page in pages:
                for item in page:
                    yield recorded(self.place, item, self._streams.kinds)

    def follow(self, *, after: int = 0) -> AsyncGenerator[Recorded[T]]:
        """The events behind version ``after``, and then each new one soon after it is appended, without end."""
        bell, partition = self._streams.bell, self.place.partition
        return follow(bell, partition, lambda last: self.read(after=last), checked_version(after), _version)

    # ── Deletion ────────────────────────────────────────────────────────────────────────────────────────────────────

    async def delete(self, *, version: int | None = None) -> None:
        """Delete all its events, with snapshots and request ids; only if it is at ``version``, if that is given.

        It counts as deleted from the first write on, and this can be repeated: a repeat does what is left. Versions go
        on behind the deletion, which takes one itself. Raises ``Conflict`` if it is not at ``version``.

            await account.delete()
            await account.append(Deposited(1))
        """
        if version is not None:
            checked_version(version)
        for attempt in range(1, CONFLICT_RETRY.max_attempts + 1):
            if await deleting.mark(self, version):
                await deleting.empty(self)
                return
            await self._give_way(attempt)
        raise self._overtaken()

    async def deletion(self) -> Deletion:
        """Its last deletion; version 0 if there was none."""
        store = self._streams.opened().home.store
        return deletion_in(await store.get(self.place.partition, event_sort(FIRST_EVENT)))

    async def refuse_deleted(self, version: int) -> None:
        """Raises ``StreamDeleted`` if this version is below the last deletion."""
        if version < (last := (await self.deletion()).version):
            raise stream_deleted(self.place, last)

    # ── State ───────────────────────────────────────────────────────────────────────────────────────────────────────

    async def state(self, fold: Fold[S, T], *, version: int | None = None, at: datetime | None = None) -> S:
        """The state that ``fold`` makes of the events: of all, of those up to ``version``, or of those before the first
        one recorded after ``at``.
        """
        opened = self._streams.opened()
        found = await load(self, fold, opened, upto=version, at_ms=_at_ms(at))
        if version is None and at is None:
            await keep_read(self, fold, found, opened)
        return found.state

    async def decide(
        self, fold: Fold[S, T], decide: Callable[[S], Sequence[T]], *, id: str | None = None
    ) -> tuple[Recorded[T], ...]:
        """Append the events that ``decide`` makes of the state; if another writer was faster, again on the newer state.
        Returns what was recorded. ``decide`` is a plain function that may run several times; its errors are passed on.
        With
        ``id`` it happens once however often it is called. Raises ``Conflict`` if other writers are faster every time.
        """
        opened, found = self._streams.opened(), None
        for attempt in range(1, CONFLICT_RETRY.max_attempts + 1):
            found = await load(self, fold, opened, on=found)
            # Read after the state, so that no decision rests on a state that a repeat of this call has changed.
            if id is not None and (request := await self._request(id)) is not None:
                return await self._appended(request)
            if not (events := tuple(decide(found.state))):
                return ()
            try:
                appended = await self.append(*events, version=found.version, id=id)
            except StreamDeleted:
                raise
            except (
                Conflict,
                IdempotencyMismatch,
            ):  # a repeat of this call may have decided on other events: those count
                await self._give_way(attempt)
                continue
            await snapshot(self, fold, found, appended, opened)
            return appended
        raise self._overtaken()

    # ── Within ──────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _request(self, id: str) -> Request | None:
        check_key("request", (id,))
        item = await self._streams.opened().home.store.get(self.place.partition, REQUEST_PREFIX + id)
        if item is None:
            return None
        request = decode_request(item.body)
        return None if request.version < (await self.deletion()).version else request

    async def _is_left(self, there: Item | None, base: int, version: int | None) -> bool:
        """Whether what refused an append at ``base`` is left of a deletion that came before ``base`` was read.

        Raises ``StreamDeleted`` if the deletion came later, unless it took this very place: then nothing of the append
        was ever applied, and it may go to the new end.
        """
        if there is None or not (there.status == DELETED or there.sort.startswith(REQUEST_PREFIX)):
            return False
        last = (await self.deletion()).version
        if there.status == DELETED:
            if version is None and last == base + 1:
                return False
            raise stream_deleted(self.place, last)
        if decode_request(there.body).version >= last:
            return False
        if base < last:
            raise stream_deleted(self.place, last)
        return True

    async def _appended(self, request: Request) -> tuple[Recorded[T], ...]:
        """The events that an earlier append has recorded."""
        found = [each async for each in self.read(after=request.version, upto=request.version + request.count)]
        return tuple(found)

    async def _give_way(self, attempt: int) -> None:
        self._streams.opened().emit("conflicted", partition=self.place.partition)
        await asyncio.sleep(CONFLICT_RETRY.delay_seconds(attempt, self._streams.random))

    def _overtaken(self) -> Conflict:
        times = CONFLICT_RETRY.max_attempts
        return Conflict(f"other writers appended to stream {self.place} {times} times in a row", self._least)

    @property
    def _least(self) -> int:
        """A version that the stream has certainly reached. A handle may outlive its home: if the app is opened again on
        another home, nothing is known there.
        """
        if self._seen_on != (owner := self._streams.opened().home.owner):
            self._seen, self._seen_on = 0, owner
        return self._seen

    def reached(self, version: int) -> None:
        """Note that the stream is at least this long."""
        self._seen = max(self._least, version)

    async def _has(self, version: int) -> bool:
        store = self._streams.opened().home.store
        return await store.get(self.place.partition, event_sort(version)) is not None

    def _recorded(self, version: int, stored: StoredEvent, event: T, position: int) -> Recorded[T]:
        return Recorded(key=self.key, event=event, version=version, id=stored.id, at_ms=stored.at_ms, position=position)


class Streams(DeclaredStreams, Generic[T]):
    """All streams of one type. If ``ordered``, all their events have one order."""

    def __repr__(self) -> str:
        return f"<Streams {self.name}>"

    def at(self, *key: str) -> Stream[T]:
        """The stream under this key, of one part or several. Reads nothing. Raises ``InvalidInput``."""
        return Stream(self, Place(self.name, check_key("stream", key)))

    def idle(self, before: datetime) -> AsyncGenerator[Idle[Stream[T]]]:
        """The streams whose last event was recorded before then, in no order, with their versions: to delete them by
        ``await found.stream.delete(version=found.version)``, which is refused if an event has come since.

        Reads the names of all partitions of the home. Raises ``ConfigurationError`` where they cannot be listed.
        """
        return idle_streams(self, _ms(before))

    async def position(self) -> int:
        """How many events all streams have together. Raises ``ConfigurationError`` if they are not ordered."""
        return await last_position(self._log().home.store, self.name)

    async def read(self, *, after: int = 0, limit: int | None = None) -> AsyncGenerator[Recorded[T]]:
        """The events of all streams behind a position, in the order in which they were committed, at most ``limit`` of
        them. An event is seen only after all before it: continue behind the last one. Positions have no gaps but those
        of deleted events.
        """
        checked_version(after)
        store, left = self._log().home.store, limit
        while left is None or left > 0:
            page = await pointers(store, self.name, after, PAGE_EVENTS if left is None else min(left, PAGE_EVENTS))
            deletions: dict[Place, int] = {}  # each read once in a page: events go from the last one on
            for entry in page.items:
                after = position_in(entry)
                pointer = decode_pointer(entry.body)
                place = Place(self.name, pointer.key)
                item = await store.get(place.partition, event_sort(pointer.version))
                assert item is not None  # it was appended together with its place in the log, and places stay
                if place not in deletions:
                    deletions[place] = (await self.at(*pointer.key).deletion()).version
                if item.status == DELETED or pointer.version < deletions[place]:
                    continue
                left = None if left is None else left - 1
                yield recorded(place, item, self.kinds)
            if page.cursor is None:
                return

    def follow(self, *, after: int = 0) -> AsyncGenerator[Recorded[T]]:
        """The events of all streams behind a position, then each new one soon after it is committed, without end."""
        self._log()
        return follow(
            self.bell, partition_of(self.name), lambda last: self.read(after=last), checked_version(after), _position
        )

    def _log(self) -> Opened:
        if not self.ordered:
            raise ConfigurationError(f"the streams {self.name!r} have no common order: declare them with ordered=True")
        opened = self.opened()
        sequencer_of(opened.home)
        return opened


def _position(found: Recorded[Any]) -> int:
    return found.position


def _version(found: Recorded[Any]) -> int:
    return found.version


def _at_ms(at: datetime | None) -> int | None:
    return None if at is None else _ms(at)


def _ms(at: datetime) -> int:
    if at.tzinfo is None:
        raise InvalidInput(f"{at} has no time zone: give a datetime such as datetime(2026, 11, 5, 12, 30, tzinfo=UTC)")
    return int(at.timestamp() * 1000)


def checked_version(version: int) -> int:
    """A version of a stream. Raises ``InvalidInput``."""
    given: Any = version  # whatever its annotation says
    if type(given) is not int or given < 0:
        raise InvalidInput(f"version must be a number from 0 on, got {repr(given)[:60]}")
    return given
