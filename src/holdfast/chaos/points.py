"""Named points at which a worker dies or stops: at a chosen write, just before it leaves or just after it is durable.

The engine knows nothing of them. The store of a worker that plays a part in a story is wrapped; every other is not.
What happens is real: ``kill -9`` and SIGSTOP, sent by the process to itself.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
from collections.abc import Awaitable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.actors.record import PARKED_PREFIX, PARTITION_PREFIX
from holdfast.backends.sqlite import open_sqlite_home
from holdfast.clock import SystemClock
from holdfast.coordination.inbox import INBOX_PREFIX
from holdfast.errors import Refused
from holdfast.items import Delete, Item, Put, Update, Write
from holdfast.messaging.outbox import ENTRY_PREFIX
from holdfast.messaging.outbox import PARTITION_PREFIX as OUTBOX_PREFIX
from holdfast.ports import Home, Store

PART: Final = "HOLDFAST_CHAOS_PART"
"""The environment variable with the part of a worker in a story, as JSON."""

CONSUMER_PREFIX: Final = f"{PARTITION_PREFIX}!"
"""Begins the partitions of the hidden actors that handle events."""

SIGNAL_SECONDS: Final = 0.25
"""A stop signal to the own process may take a moment to arrive."""


Moment = Literal["before", "after"]
Action = Literal["kill", "stop"]


class Point(StrEnum):
    """The writes at which a worker can die, by their meaning."""

    CLAIM = "claim"
    """A worker becomes the owner of an event: it has the lease from here on."""
    COMMIT = "commit"
    """The handler has run: the mark that the event is handled, and everything that the handler sent."""
    DELIVERY = "delivery"
    """The relay puts events into a consumer's inbox."""
    MARK = "mark"
    """The relay takes delivered events out of the outbox."""


class Fault(Struct, frozen=True, kw_only=True):
    """Die (``kill``) or be stopped (``stop``) before or after the first write at one of these points, of the
    ``number``-th entity that reaches it.

    With ``handled``, not before all events that this worker has delivered have been handled.
    """

    at: tuple[Point, ...]
    moment: Moment
    action: Action
    number: int = 1
    handled: bool = False


class Part(Struct, frozen=True, kw_only=True):
    """The part of a worker in a story: where its files are, how long its leases are, how often it tries to handle an
    event, and its fault.
    """

    folder: str = "."
    lease_ms: int = 15_000
    attempts: int = 3
    fault: Fault | None = None


def own_part() -> Part:
    """The part of this process."""
    return msgspec.json.decode(os.environ.get(PART, "{}"), type=Part)


def home_file(folder: Path) -> Path:
    """Where a story keeps the home of its shop."""
    return folder / "shop.db"


async def open_home() -> Home:
    """The home of this process, with its fault."""
    part = own_part()
    home = await open_sqlite_home(home_file(Path(part.folder)))
    return replace(home, store=ChaosStore(home.store, part.fault))


def tell(**facts: Any) -> None:
    """One line to the parent. It arrives whole, and even if we die in the next instruction."""
    os.write(1, json.dumps({**facts, "now": SystemClock().now_ms()}).encode() + b"\n")


Reached = tuple[Point, str, int]
"""A point, its entity, and the number of its events."""


def points_of(writes: Sequence[Write]) -> list[Reached]:
    """The points of a call of the store's ``write``: an event may be delivered with the lease of its consumer."""
    events: list[tuple[Point, str]] = []
    for write in writes:
        match write:
            case Put(Item(sort=sort)) if sort.startswith(PARKED_PREFIX):
                return []
            case Put(Item(partition=partition, sort=sort)) if _is_message(partition, sort):
                events.append((Point.DELIVERY, partition))
            case Delete(partition, sort) if _is_message(partition, sort):
                events.append((Point.COMMIT, partition))
            case Delete(partition, sort) if partition.startswith(OUTBOX_PREFIX) and sort.startswith(ENTRY_PREFIX):
                events.append((Point.MARK, partition))
            case Update(partition=partition, owner=str()) | Put(Item(partition=partition, owner=str())) if (
                partition.startswith(CONSUMER_PREFIX)
            ):
                events.append((Point.CLAIM, partition))
            case _:
                pass
    first: dict[Point, str] = {}
    for point, partition in events:
        first.setdefault(point, partition)
    return [(point, partition, sum(1 for each, _ in events if each is point)) for point, partition in first.items()]


def _is_message(partition: str, sort: str) -> bool:
    return partition.startswith(CONSUMER_PREFIX) and sort.startswith(INBOX_PREFIX)


class ChaosStore:
    """A store that reports writes at the named points, and applies the fault at one of them."""

    def __init__(self, store: Store, fault: Fault | None) -> None:
        self._store = store
        self._fault = fault
        self._entities: set[str] = set()
        self._under_way: set[asyncio.Future[Any]] = set()
        self._unhandled = 0
        self._all_handled = asyncio.Event()
        self.get = store.get
        self.query = store.query
        self.due = store.due
        self.scan = store.scan
        self.close = store.close

    def write(self, *writes: Write) -> Awaitable[Sequence[Item | None]]:
        """See ``Store.write``."""
        points, fault = points_of(writes), self._fault
        struck = next((each for each in points if fault is not None and each[0] in fault.at), None)
        if struck is None or fault is None:
            return self._send(writes, points)
        self._entities.add(struck[1])
        if len(self._entities) < fault.number:
            return self._send(writes, points)
        self._fault = None
        return self._strike_at(fault, writes, points, struck)

    def _send(self, writes: Sequence[Write], points: Sequence[Reached]) -> asyncio.Future[Sequence[Item | None]]:
        sent = asyncio.ensure_future(self._store.write(*writes))
        self._under_way.add(sent)
        sent.add_done_callback(lambda done: self._answered(done, points))
        return sent

    def _answered(self, done: asyncio.Future[Any], points: Sequence[Reached]) -> None:
        self._under_way.discard(done)
        if done.cancelled():
            return
        match done.exception():
            case None:
                for point in points:
                    self._passed(*point)
            case Refused():
                for name, partition, _ in points:
                    tell(refused=name, partition=partition)
            case _:
                pass

    def _passed(self, name: Point, partition: str, count: int) -> None:
        tell(passed=name, partition=partition, count=count)
        self._unhandled += {Point.DELIVERY: count, Point.COMMIT: -count}.get(name, 0)
        if name is Point.COMMIT and not self._unhandled:
            self._all_handled.set()

    async def _strike_at(
        self, fault: Fault, writes: Sequence[Write], points: Sequence[Reached], struck: Reached
    ) -> Sequence[Item | None]:
        if fault.moment == "before":
            await self._strike(fault, struck)
            return await self._send(writes, points)
        try:
            answer = await self._send(writes, points)
        except Refused:
            self._fault = fault  # nothing was written: try the next write
            raise
        await self._strike(fault, struck)
        return answer

    async def _strike(self, fault: Fault, point: Reached) -> None:
        if fault.handled:
            await self._all_handled.wait()
        name, partition, count = point
        tell(struck=name, partition=partition, count=count, action=fault.action)
        if fault.action == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        while self._under_way:  # stopped in a transaction we would hold the file's lock, and no process could take over
            await asyncio.wait(self._under_way)
        os.kill(os.getpid(), signal.SIGSTOP)
        threading.Event().wait(SIGNAL_SECONDS)  # the signal is on its way: the event loop does nothing meanwhile
        tell(resumed=True)
