"""Sweeps of several workers: each looks at its share of what is due, so that they cost as much as those of one.

An idle home is no reason to divide anything: a look at the index costs half a read unit. Where a look shows more than
``FEW`` heads that are due, at work elsewhere or overdue, reading all of them in each worker would cost a unit for each
head and each worker, and they would take the work from each other. So each worker then writes down that it is there,
one unit at each look, and reads who else is, one read unit. A head is looked at by the worker that its name and theirs
choose (rendezvous hashing: where a worker comes or goes, no head changes between the others).

It is a hint like every sweep; claims decide who works (G9). What it must not do is leave a head to a worker that does
not look. A worker counts as there while what it writes changes, by the clock of the one that reads it: a dead or
stopped one is left out ``ABSENT_SECONDS`` after its last look, and the others have its share from then on. One that has
as much as it can work on says so, and gets no share. Workers share only with those that have the same code; and as
long as two disagree about who is there, both look.

A note that arrives late, after its worker has left, is one more sign of a worker that does not look: its share is taken
up when nothing has followed it for as long. So the notes need no condition.
"""

from __future__ import annotations

import asyncio
import contextlib
import zlib
from collections.abc import Callable, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from holdfast.backends.aws.leases_seen import Entry
from holdfast.backends.aws.store import DynamoStore
from holdfast.clock import MS_PER_HOUR, Clock
from holdfast.codec.stored import stored
from holdfast.errors import StoreError
from holdfast.items import Delete, Item, Put
from holdfast.paging import items
from holdfast.ports import SALT_PARTITION, Page

FEW: Final = 10
"""What each worker looks at by itself."""

PRESENCE: Final = "sweeper#"
"""How the sort keys begin under which workers write that they are there."""

ABSENT_SECONDS: Final = 15.0
"""A worker that has not written for so long is not there: as long as its leases last."""


TOGETHER_SECONDS: Final = 1.0
"""How long a worker waits at its first look, behind its note, until it reads those of the others."""

NEW_SECONDS: Final = 10.0
"""One that started so much earlier, or later, has started at the same time."""


class There(Struct, frozen=True, omit_defaults=True):
    """What a worker writes: which code it has, whether it can begin more work, and when it started (milliseconds)."""

    code: str
    has_room: bool = True
    started_at: int = 0


class Sight(Struct, frozen=True):
    """The revision under which a worker was last seen, and since when (seconds)."""

    revision: int
    since: float


decode_there: Final = stored(There, "the presence of a worker")


class SharedSweeps:
    """The sweeps of one worker among others."""

    def __init__(self, store: DynamoStore, owner: str, clock: Clock, time: Callable[[], float] | None = None) -> None:
        self._store = store
        self._owner = owner
        self._clock = clock
        self._time = time or (lambda: asyncio.get_running_loop().time())
        self._looks = 0
        self._seen: dict[str, Sight] = {}
        self._sharing: frozenset[str] | None = None
        self._started_at = clock.now_ms()

    async def due(self, before: int, *, after: str | None, code: str, has_room: bool, is_new: bool = False) -> Page:
        """See ``Sweeps.due``."""
        if after is None:
            self._sharing = None

        async def choose(entries: Sequence[Entry]) -> Sequence[Entry]:
            if after is None and len(entries) <= FEW:
                return entries
            if self._sharing is None:
                this = There(code, has_room, self._started_at)
                self._sharing = await (self._look_at_new_ones(this) if is_new else self._look_around(this))
            return [entry for entry in entries if self._is_mine(entry.partition, self._sharing)]

        return await self._store.due_among(before, after, choose)

    async def leave(self) -> None:
        """See ``Sweeps.leave``."""
        if self._looks:
            with contextlib.suppress(StoreError):  # then the others find out by themselves
                await self._store.write(Delete(SALT_PARTITION, PRESENCE + self._owner))

    def _is_mine(self, partition: str, sharing: frozenset[str]) -> bool:
        if not sharing:
            return True
        return max(sharing, key=lambda name: (zlib.crc32(f"{name} {partition}".encode()), name)) == self._owner

    async def _look_at_new_ones(self, this: There) -> frozenset[str]:
        """Those that have started together with this worker, as after an outage. Of others it is not known yet whether
        they are alive, so the first look of a worker is at all that is theirs, too.
        """
        await self._tell(this)
        await asyncio.sleep(TOGETHER_SECONDS)
        since = self._started_at - int(NEW_SECONDS * 1000)
        return frozenset(
            name
            for name, _, there in await self._notes()
            if there.has_room and there.code == this.code and there.started_at > since
        )

    async def _look_around(self, this: There) -> frozenset[str]:
        """Write that this worker is there, and answer those with the same code that can begin more work."""
        await self._tell(this)
        now, seen, found = self._time(), dict[str, Sight](), set[str]()
        for name, revision, there in await self._notes():
            before = self._seen.get(name)
            is_same = before is not None and before.revision == revision
            seen[name] = sight = before if is_same and before is not None else Sight(revision, now)
            is_there = name == self._owner or now - sight.since < ABSENT_SECONDS
            if is_there and there.has_room and there.code == this.code:
                found.add(name)
        self._seen = seen
        return frozenset(found)

    async def _tell(self, this: There) -> None:
        """Write that this worker is there."""
        self._looks += 1
        until, body = self._clock.now_ms() + MS_PER_HOUR, msgspec.json.encode(this)
        note = Item(SALT_PARTITION, PRESENCE + self._owner, revision=self._looks, expires_at=until, body=body)
        await self._store.write(Put(note))

    async def _notes(self) -> list[tuple[str, int, There]]:
        """What all have written: the name of each, the revision of its note, and what that says."""
        notes = [item async for item in items(self._store, SALT_PARTITION, prefix=PRESENCE)]
        return [(note.sort.removeprefix(PRESENCE), note.revision, decode_there(note.body)) for note in notes]
