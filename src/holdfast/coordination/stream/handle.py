"""One stream: append events at the version you know, read them in any direction."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from msgspec import Raw
from msgspec.structs import replace

from holdfast import ids
from holdfast.coordination.stream.fold import Fold, load, snapshot
from holdfast.coordination.stream.following import follow
from holdfast.coordination.stream.log import Pointer, write_numbered
from holdfast.coordination.stream.record import (
    EVENT_PREFIX,
    REQUEST_PREFIX,
    Place,
    Recorded,
    Request,
    StoredEvent,
    decode_event,
    decode_request,
    encode,
    event_put,
    event_sort,
    is_there,
    recorded,
    version_of,
)
from holdfast.errors import Conflict, IdempotencyMismatch, InvalidInput, Refused, StoreUnavailable
from holdfast.items import ABSENT, Item, Put, Write
from holdfast.keys import check_key
from holdfast.persist import CALLER_PATIENCE_SECONDS, FIRST_PAUSE_SECONDS, send_until_known
from holdfast.retry import Jitter, Retry

if TYPE_CHECKING:
    from holdfast.coordination.stream.collection import Streams

T = TypeVar("T")
S = TypeVar("S")

CONFLICT_RETRY: Final = Retry(max_attempts=25, initial=0.005, backoff=2, max_delay=0.25, jitter=Jitter.FULL)
"""How often an append at the end, or a decision, is made anew because others were faster."""

MOST_EVENTS: Final = 48
"""One append. With the places in the log, a request id and a guard it stays below the 100 items of one write."""

PAGE_EVENTS: Final = 200


class Stream(Generic[T]):
    """The stream under a key. Making one looks nothing up.

    Versions count its events: 0 is an empty stream, and an append at version 7 writes the 8th. An append is durable
    when it returns (G7), all of it or nothing, and applied once although its answer be lost.

        account = app.stream(Deposited | Withdrawn, "account-1")
        await account.append(Deposited(100), version=0)
        async for recorded in account.read():
            print(recorded.version, recorded.event)
    """

    __slots__ = ("_seen", "_streams", "place")

    def __init__(self, streams: Streams[T], place: Place) -> None:
        self._streams = streams
        self.place = place
        self._seen = 0
        """A version that the stream has reached for sure."""

    def __repr__(self) -> str:
        return f"<Stream {self.place}>"

    @property
    def key(self) -> tuple[str, ...]:
        """The parts of its key."""
        return self.place.key

    @property
    def streams(self) -> Streams[T]:
        """The collection that it belongs to."""
        return self._streams

    # ── Appending ───────────────────────────────────────────────────────────────────────────────────────────────────

    async def append(self, *events: T, version: int | None = None, id: str | None = None) -> tuple[Recorded[T], ...]:
        """Append events behind ``version``, or at the end whatever it is. Answers what was recorded.

        Raises ``Conflict`` if the stream is not at ``version``, with the version that it has. With ``id`` the events
        are appended once however often they are sent, and a repeat gets the same answer; other events under the same
        id raise ``IdempotencyMismatch``. One write, if this handle has seen ``version``, by reading or appending.
        """
        if version is not None:
            checked_version(version)
        if id is not None:
            check_key("request", (id,))
        if not 1 <= len(events) <= MOST_EVENTS:
            raise InvalidInput(f"one append takes 1 to {MOST_EVENTS} events, not {len(events)}")
        stored, copies = self._encoded(events, id)
        base = await self.version() if version is None else version
        for attempt in range(1, CONFLICT_RETRY.max_attempts + 1):
            try:
                numbered = await self._write(base, stored, id)
                found = tuple(
                    self._recorded(base + n, *each) for n, each in enumerate(zip(numbered, copies, strict=True), 1)
                )
            except Refused as refused:
                if (repeated := await self._repeated(refused.item, stored, id)) is not None:
                    return repeated
            else:
                self.reached(base + len(events))
                return found
            there = await self.version()
            if version is not None:
                raise Conflict(f"stream {self.place} is at version {there}, not at version {version}", there)
            base = there
            self._streams.opened().tell("conflicted", partition=self.place.partition)
            await asyncio.sleep(CONFLICT_RETRY.delay_seconds(attempt, self._streams.random))
        raise Conflict(f"others appended to stream {self.place} {CONFLICT_RETRY.max_attempts} times in a row", base)

    def _encoded(self, events: Sequence[T], id: str | None) -> tuple[list[StoredEvent], list[T]]:
        opened = self._streams.opened()
        now = opened.clock.now_ms()
        stored: list[StoredEvent] = []
        copies: list[T] = []
        for n, event in enumerate(events, start=1):
            what = f"an event of stream {self.place}"
            kind, schema, data, copy = self._streams.kinds.encode(event, what, opened.limit_bytes)
            own = ids.new_ordered_id(now) if id is None else id if len(events) == 1 else f"{id}/{n}"
            stored.append(StoredEvent(id=own, kind=kind, data=Raw(data), at_ms=now, schema=schema))
            copies.append(copy)
        return stored, copies

    async def _write(self, base: int, events: Sequence[StoredEvent], id: str | None) -> Sequence[StoredEvent]:
        """Append the events behind ``base``; answers them with their positions. Raises ``Refused``."""
        opened, place = self._streams.opened(), self.place
        numbered = events

        def writes() -> list[Write]:
            found: list[Write] = []
            if id is not None:
                body = encode(Request(base, len(events), fingerprint_of(events)))
                found.append(Put(Item(partition=place.partition, sort=REQUEST_PREFIX + id, body=body), ABSENT))
            found += [event_put(place, base + n, each) for n, each in enumerate(numbered, start=1)]
            if base > self._seen:
                found.append(is_there(place, base))
            return found

        def in_order(last: int) -> tuple[Sequence[Write], Sequence[Pointer]]:
            nonlocal numbered
            numbered = [replace(each, position=last + n) for n, each in enumerate(events, start=1)]
            return writes(), [Pointer(place.key, base + n) for n in range(1, len(events) + 1)]

        async def send() -> None:
            if self._streams.ordered:
                await write_numbered(opened.home, self._streams.name, in_order)
            else:
                await opened.home.store.write(*writes())

        try:
            await send()
        except StoreUnavailable:
            await asyncio.sleep(FIRST_PAUSE_SECONDS)
            # If the first attempt was applied, this one is refused by its own events: `append` will know them.
            await send_until_known(send, ours=lambda _there: False, patience_seconds=CALLER_PATIENCE_SECONDS)
        self._streams.bell.ring(place.partition)
        if self._streams.ordered:
            self._streams.ring_log()
        return numbered

    async def _repeated(
        self, there: Item | None, events: Sequence[StoredEvent], id: str | None
    ) -> tuple[Recorded[T], ...] | None:
        """What was recorded, if these very events were appended before."""
        if there is None:
            return None
        if there.sort.startswith(REQUEST_PREFIX):
            request = decode_request(there.body)
            if request.fingerprint != fingerprint_of(events):
                raise IdempotencyMismatch(f"stream {self.place} has other events under the id {id!r}")
            first, count = request.version, request.count
        elif there.sort.startswith(EVENT_PREFIX) and decode_event(there.body).id == events[0].id:
            first, count = version_of(there) - 1, len(events)
        else:
            return None
        found = [each async for each in self.read(after=first, upto=first + count)]
        return tuple(found)

    # ── Reading ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def version(self) -> int:
        """How many events it has. One read if nobody has appended since this handle looked."""
        low, step = self._seen, 1
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
        """The events behind version ``after``, up to and with version ``upto``, in their order or ``backwards``, and at
        most ``limit`` of them. Read a page at a time, so each event is as it was when its page was read: final.
        """
        checked_version(after)
        if upto is not None:
            checked_version(upto)
        if limit is not None and limit < 0:
            raise InvalidInput(f"limit is how many events to read at most, not {limit!r}")
        count = 0
        pages = self._pages_back(after, upto) if backwards else self._pages(after, upto)
        async with aclosing(pages):
            async for page in pages:
                for item in page:
                    if limit is not None and count >= limit:
                        return
                    count += 1
                    yield recorded(self.place, item, self._streams.kinds)

    async def _pages(self, after: int, upto: int | None) -> AsyncGenerator[Sequence[Item]]:
        store = self._streams.opened().home.store
        while upto is None or after < upto:
            count = PAGE_EVENTS if upto is None else min(PAGE_EVENTS, upto - after)
            page = await store.query(self.place.partition, prefix=EVENT_PREFIX, after=event_sort(after), limit=count)
            items = [each for each in page.items if upto is None or version_of(each) <= upto]
            if items:
                after = version_of(items[-1])
                self.reached(after)
                yield items
            if page.cursor is None or len(items) < len(page.items):
                return

    async def _pages_back(self, after: int, upto: int | None) -> AsyncGenerator[Sequence[Item]]:
        last = await self.version()
        last = last if upto is None else min(upto, last)
        while last > after:
            first = max(after, last - PAGE_EVENTS)
            yield [item async for page in self._pages(first, last) for item in page][::-1]
            last = first

    def follow(self, *, after: int = 0) -> AsyncGenerator[Recorded[T]]:
        """The events behind version ``after``, and then each new one soon after it is appended; for ever."""
        bell, partition = self._streams.bell, self.place.partition
        return follow(bell, partition, lambda last: self.read(after=last), checked_version(after), _version)

    # ── State ───────────────────────────────────────────────────────────────────────────────────────────────────────

    async def state(self, fold: Fold[S, T], *, version: int | None = None, at: datetime | None = None) -> S:
        """What ``fold`` makes of the events: of all, of those up to ``version``, or of those before the first one that
        was recorded after ``at``.
        """
        return (await load(self, fold, self._streams.opened(), upto=version, at_ms=_at_ms(at))).state

    async def decide(
        self, fold: Fold[S, T], decide: Callable[[S], Sequence[T]], *, id: str | None = None
    ) -> tuple[Recorded[T], ...]:
        """Append the events that ``decide`` makes of the state; if somebody was faster, again on the state as it is
        then. Answers what was recorded. ``decide`` is a plain function that may run several times, and what it raises
        is passed on. With ``id`` it happens once however often it is asked for. Raises ``Conflict`` if others are
        faster all the time.
        """
        opened, found = self._streams.opened(), None
        if id is not None and (earlier := await self._earlier(id)) is not None:
            return earlier
        for attempt in range(1, CONFLICT_RETRY.max_attempts + 1):
            found = await load(self, fold, opened, on=found)
            if not (events := tuple(decide(found.state))):
                return ()
            try:
                appended = await self.append(*events, version=found.version, id=id)
            except Conflict:
                opened.tell("conflicted", partition=self.place.partition)
                await asyncio.sleep(CONFLICT_RETRY.delay_seconds(attempt, self._streams.random))
                continue
            await snapshot(self, fold, found, appended, opened)
            return appended
        raise Conflict(f"others appended to stream {self.place} {CONFLICT_RETRY.max_attempts} times in a row")

    async def _earlier(self, id: str) -> tuple[Recorded[T], ...] | None:
        check_key("request", (id,))
        item = await self._streams.opened().home.store.get(self.place.partition, REQUEST_PREFIX + id)
        if item is None:
            return None
        request = decode_request(item.body)
        found = [each async for each in self.read(after=request.version, upto=request.version + request.count)]
        return tuple(found)

    def reached(self, version: int) -> None:
        """Note that the stream is at least this long."""
        self._seen = max(self._seen, version)

    async def _has(self, version: int) -> bool:
        store = self._streams.opened().home.store
        return await store.get(self.place.partition, event_sort(version)) is not None

    def _recorded(self, version: int, stored: StoredEvent, event: T) -> Recorded[T]:
        return Recorded(
            key=self.key, event=event, version=version, id=stored.id, at_ms=stored.at_ms, position=stored.position
        )


def _version(found: Recorded[Any]) -> int:
    return found.version


def _at_ms(at: datetime | None) -> int | None:
    if at is None:
        return None
    if at.tzinfo is None:
        raise InvalidInput(f"{at} has no time zone: give a datetime such as datetime(2026, 11, 5, 12, 30, tzinfo=UTC)")
    return int(at.timestamp() * 1000)


def fingerprint_of(events: Sequence[StoredEvent]) -> str:
    """Tells the events of one append from those of another."""
    return ids.fingerprint(b"\0".join(each.kind.encode() + b" " + bytes(each.data) for each in events))


def checked_version(version: int) -> int:
    """A version of a stream. Raises ``InvalidInput``."""
    given: Any = version  # whatever its annotation says
    if type(given) is not int or given < 0:
        raise InvalidInput(f"a version is a number from 0 on, not {repr(given)[:60]}")
    return given
