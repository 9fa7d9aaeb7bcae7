"""The cost of a run on DynamoDB and S3, measured elsewhere: any home, with a meter of what AWS would have billed."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from copy import copy
from functools import partial
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from holdfast import keys
from holdfast.backends.aws.blobs import INLINE_BYTES
from holdfast.backends.aws.enclosing import MOST_BYTES, NOT_IN_CALL, Action, Known, actions_of, is_message
from holdfast.backends.aws.meter import Meter, write_units
from holdfast.backends.aws.settings import Settings
from holdfast.backends.aws.units import stored_bytes, units_of, units_of_read
from holdfast.clock import SystemClock
from holdfast.cost.indexes import Indexes
from holdfast.errors import Refused
from holdfast.items import HEAD, Item, Put, Update, Write, place, updated
from holdfast.ports import Blobs, Home, Page, Store

TRANSACTION_TIMES: Final = 2
"""A transaction writes each item twice, and the entries of its indexes too, as DynamoDB Local reports it."""

COUNT_BYTES: Final = 5
"""The attribute that counts what is enclosed in a head."""

SWEEP_UNITS: Final = 0.5
"""Of one read of an index that holds little, which is one request."""


DEFAULTS: Final = Settings()

wall_clock: Final = SystemClock().now_ms

_uncounted: Final[ContextVar[bool]] = ContextVar("holdfast_uncounted", default=False)


@contextmanager
def uncounted() -> Generator[None]:
    """Reads in this block belong to the observer, not to the work: they are not metered."""
    before = _uncounted.set(True)
    try:
        yield
    finally:
        _uncounted.reset(before)


class FlowUse(Struct):
    """The write units of the items of queues and limits, which are among all that were used."""

    write_units: float = 0.0

    def note(self, write: Write, units: float) -> None:
        """A write has used them."""
        if place(write)[0].startswith((keys.QUEUES, keys.LIMITS)):
            self.write_units += units


class BlobUse(Struct):
    """How often blobs were written and read."""

    writes: int = 0
    reads: int = 0


class MeteringStore:
    """A store that counts what each request would have used on DynamoDB. Otherwise it behaves like the store inside it.

    It remembers every item it has seen, since the size of the existing item decides the price: it is for short runs on
    homes that are empty when they begin. Sweeps are metered separately, in ``sweeps``: they depend on time, not on
    work.
    """

    def __init__(self, store: Store, settings: Settings = DEFAULTS, now: Callable[[], int] = wall_clock) -> None:
        self.meter = Meter()
        self.sweeps = Meter()
        self.blob_use = BlobUse()
        self.flow_use = FlowUse()
        self._store = store
        self._items: dict[tuple[str, str], Item] = {}
        self._enclosed = Enclosed()
        self._indexes = Indexes(settings, now)

    def write(self, *writes: Write) -> Awaitable[Sequence[Item | None]]:
        """See ``Store.write``."""
        answer = asyncio.ensure_future(self._store.write(*writes))
        answer.add_done_callback(partial(self._account, writes))
        return answer

    async def get(self, partition: str, sort: str = HEAD) -> Item | None:
        """See ``Store.get``."""
        item = await self._store.get(partition, sort)
        self._read("GetItem", () if item is None else (item,))
        return item

    async def query(self, partition: str, *, prefix: str = "", after: str | None = None, limit: int = 1000) -> Page:
        """See ``Store.query``."""
        page = await self._store.query(partition, prefix=prefix, after=after, limit=limit)
        if is_message(prefix):
            head = self._items.get((partition, HEAD))
            self._read("GetItem", () if head is None else (head,))
        self._read("Query", [item for item in page.items if not self._enclosed.holds(item)])
        return page

    async def due(self, before: int, *, after: str | None = None, limit: int = 1000) -> Page:
        """See ``Store.due``."""
        page = await self._store.due(before, after=after, limit=limit)
        self.sweeps.sent("Scan")
        _use(self.sweeps, "Scan", SWEEP_UNITS)
        return page

    async def scan(self, prefix: str, *, status: str | None = None, after: str | None = None, limit: int = 100) -> Page:
        """See ``Store.scan``. On DynamoDB it reads the whole table."""
        page = await self._store.scan(prefix, status=status, after=after, limit=limit)
        self._read("Scan", tuple(self._items.values()))
        return page

    async def close(self) -> None:
        """See ``Store.close``."""
        await self._store.close()

    def beside(self, store: Store) -> MeteringStore:
        """The store of another process on the same data, with the same counters."""
        other = copy(self)
        other._store = store  # noqa: SLF001 - it is of this class
        return other

    def is_due(self, before: int) -> bool:
        """Whether a head is due by then (milliseconds)."""
        return any(item.due_at is not None and item.due_at <= before for item in self._items.values())

    def reset(self) -> None:
        """Reset the counters, and keep the known items."""
        self.meter.reset()
        self.sweeps.reset()
        self.blob_use.writes = self.blob_use.reads = 0
        self.flow_use.write_units = 0.0

    # ── Accounts ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _account(self, writes: Sequence[Write], answer: asyncio.Future[Sequence[Item | None]]) -> None:
        if not writes:
            return
        actions = self._enclosed.actions(writes)
        operation = f"{type(actions[0].write).__name__}Item" if len(actions) == 1 else "TransactWriteItems"
        self.meter.sent(operation)
        if answer.cancelled():
            return
        error = answer.exception()
        if isinstance(error, Refused):
            self._refused(operation, actions, writes, error)
        elif error is None:
            self._applied(operation, actions, answer.result())

    def _applied(self, operation: str, actions: Sequence[Action], loaded: Sequence[Item | None]) -> None:
        units = 0
        times = 1 if len(actions) == 1 else TRANSACTION_TIMES
        for action in actions:
            where, item = place(action.write), None if action.index == NOT_IN_CALL else loaded[action.index]
            before = self._items.get(where)
            after = _after(action.write, before) if item is None else item
            size_before = self._size(before)
            self._enclosed.note(action)
            written = write_units(max(size_before, self._size(after)))
            used = times * (written + self._indexes.units(action.write, before, after))
            self.flow_use.note(action.write, used)
            units += used
            self._keep(where, after)
            if item is not None and len(actions) > 1:
                self._read("GetItem", (item,))  # DynamoDB's transactions return nothing, so the store reads it
        _use(self.meter, operation, units)

    def _refused(self, operation: str, actions: Sequence[Action], writes: Sequence[Write], refused: Refused) -> None:
        if refused.item is not None and not is_message(refused.item.sort):
            self._keep(place(writes[refused.index]), refused.item)
        there = [self._size(self._items.get(place(action.write))) for action in actions]
        if len(actions) == 1:
            self.meter.refused(operation, there[0])
            self.flow_use.note(actions[0].write, write_units(there[0]))
            return
        sizes = [self._size(_after(each.write, self._items.get(place(each.write)))) for each in actions]
        largest = list(map(max, there, sizes))
        self.meter.cancelled(operation, largest)
        for action, size in zip(actions, largest, strict=True):
            self.flow_use.note(action.write, TRANSACTION_TIMES * write_units(size))

    def _read(self, operation: str, items: Sequence[Item]) -> None:
        if not _uncounted.get():
            self.meter.sent(operation)
            _use(self.meter, operation, units_of_read(map(self._size, items)))
        for item in items:
            self._keep((item.partition, item.sort), item)

    def _size(self, item: Item | None) -> int:
        return stored_bytes(item) + self._enclosed.bytes_in(item)

    def _keep(self, where: tuple[str, str], item: Item | None) -> None:
        if item is None:
            self._items.pop(where, None)
        else:
            self._items[where] = item


class Enclosed:
    """The messages that DynamoDB would hold in the items of their heads, and what they add to these."""

    def __init__(self) -> None:
        self._known = Known()
        self._bytes: Counter[str] = Counter()

    def actions(self, writes: Sequence[Write]) -> Sequence[Action]:
        """What a call asks of each item."""
        return actions_of(writes, self._known, {each for each, size in self._bytes.items() if size > MOST_BYTES})

    def note(self, action: Action) -> None:
        """It was done."""
        self._known.note((action,))
        self._bytes[place(action.write)[0]] += action.added - action.freed

    def holds(self, item: Item) -> bool:
        """Whether an item is a message in a head."""
        return bool(self._known.size(item.partition, item.sort))

    def bytes_in(self, item: Item | None) -> int:
        """What is enclosed in an item, with its count."""
        enclosed = 0 if item is None or item.sort != HEAD else self._bytes[item.partition]
        return enclosed and enclosed + COUNT_BYTES


class MeteringBlobs:
    """Blobs, and how often they were written and read."""

    def __init__(self, blobs: Blobs, use: BlobUse) -> None:
        self._blobs = blobs
        self._use = use

    async def put(self, digest: str, data: bytes, keep_until: int) -> None:
        """See ``Blobs.put``."""
        self._use.writes += 1
        await self._blobs.put(digest, data, keep_until)

    async def read(self, digest: str) -> AsyncIterator[bytes]:
        """See ``Blobs.read``."""
        self._use.reads += 1
        async for piece in self._blobs.read(digest):
            yield piece


def metered(
    home: Home,
    *,
    inline_bytes: int | None = None,
    settings: Settings = DEFAULTS,
    now: Callable[[], int] = wall_clock,
) -> tuple[Home, MeteringStore]:
    """The same home with a meter, without the features that the home on AWS lacks, so that the engine works as it does
    there.

    ``inline_bytes`` is the largest body, packed, that stays in its item, by default as on AWS; larger ones are
    written to S3 as blobs. ``settings`` are those of the home, and ``now`` is the time there (milliseconds).
    """
    store = MeteringStore(home.store, settings, now)
    blobs = None if home.blobs is None else MeteringBlobs(home.blobs, store.blob_use)
    inline_bytes = INLINE_BYTES if inline_bytes is None else inline_bytes
    bare = replace(
        home,
        store=store,
        blobs=blobs,
        inline_bytes=inline_bytes,
        transactions=None,
        sequencer=None,
        writes_are_paid=True,
        units_of=units_of,
        reads_are_paid=True,
        hears_peers=False,
        packs=True,
    )
    return bare, store


def _use(meter: Meter, operation: str, units: float) -> None:
    meter.answered(operation, {"ConsumedCapacity": {"CapacityUnits": units}})


def _after(write: Write, before: Item | None) -> Item | None:
    match write:
        case Put(item):
            return item
        case Update():
            # Of an item that was never seen only the content of the write itself is known.
            return updated(before or Item(write.partition, write.sort), write)
        case _:
            return None
