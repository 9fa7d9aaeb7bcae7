"""The permits that one call needs, of one limit or of several, and where a process keeps its part of each limit."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import copy
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from holdfast.bounded import Bounded
from holdfast.flow.borrowing import Source
from holdfast.flow.lender import Pool
from holdfast.flow.lending import Numbers
from holdfast.flow.overrides import KEY_PREFIX, read_numbers
from holdfast.flow.permit import Permit

if TYPE_CHECKING:
    from holdfast.kernel.host import Host
    from holdfast.kernel.runtime import Runtime

READ_AGAIN_SECONDS: Final = 5.0
"""So long the numbers of a limit are taken as they were read; a change is heard of sooner where processes hear of each
other.
"""

PASSED_OVER: Final = 3
"""So often a call of several limits gives one of them back because another one lacks, before it keeps what it has."""

MOST_PASSED_OVER: Final = 10
"""No more than so often is counted."""

KEPT_SECONDS: Final = 0.5
MOST_KEPT_SECONDS: Final = 30.0
"""So long it keeps that at first; each time twice as long, up to the most."""

MOST_TICKETS: Final = 100_000
"""Of how many calls it is remembered when they first came, while they are not in memory."""


class Wanted(Struct, frozen=True):
    """A permit that a call needs: of which limit and key, and how many tokens."""

    partition: str
    key: str
    weight: int
    declared: Numbers


class Standing(Struct):
    """Where a call of an entity stands that has not begun: its ticket, the line that it is in while it is not in
    memory, and how often it had to give back what it had waited for.
    """

    ticket: int
    partition: str = ""
    parked: Pool | None = None
    passed_over: int = 0

    @property
    def keeps_seconds(self) -> float:
        """How long it may keep what it has while it waits for the rest."""
        times = min(self.passed_over, MOST_PASSED_OVER) - PASSED_OVER
        return 0.0 if times < 0 else min(KEPT_SECONDS * 2**times, MOST_KEPT_SECONDS)

    def leave(self) -> None:
        """Be in no line any more."""
        if self.parked is not None:
            self.parked.leave(self.ticket)
            self.parked = None

    def come(self) -> None:
        """It is in memory, and may take what was left to it."""
        if self.parked is not None:
            self.parked.came(self.ticket)
            self.parked = None


class Hold:
    """The permits of one call: all of them, or none.

    A call of several limits takes all at once. If one lacks it holds none, and stands in the line of that one alone. So
    a limit that is used up, or stopped, takes nothing from those that use only another one.

    By that alone it could wait for ever, where permits of two limits are never free in the same moment. So it is passed
    over only so often: that it has waited for one, and must give it back because another lacks. Then it takes them in
    the order that all calls take them in, and keeps what it has while it waits for the next one, for half a second and
    twice as long each time, up to a most. It has all of them at the latest when that is as long as the calls of others,
    since each line is in the order of the tickets. No two calls wait for each other for long: both take them in one
    order, and give back what they keep when the time is over. For a limit that is stopped nothing is kept, because a
    call is only passed over when it gets what it waits for.
    """

    __slots__ = ("_lenders", "_permits", "_place", "_standing", "_wanted", "is_begun")

    def __init__(self, wanted: Sequence[Wanted], standing: Standing, lenders: Lenders) -> None:
        self._wanted = wanted
        self._standing = standing
        self._lenders = lenders
        self._permits: dict[int, Permit] = {}
        self._place = 0
        self.is_begun = False

    @property
    def is_valid(self) -> bool:
        """Whether the call may begin now."""
        return len(self._permits) == len(self._wanted) and all(each.is_valid for each in self._permits.values())

    async def taken(self, patience_seconds: float, host: Host | None) -> bool:
        """Wait for all permits for so long, and for as much longer as what it has may be kept. False if they have not
        come, or once this process stops: it holds none then.
        """
        hurried = set[Callable[[], object]]() if host is None else host.watchers.hurried
        if host is None or not host.draining:
            with suppress(TimeoutError):
                async with asyncio.timeout(patience_seconds + self._standing.keeps_seconds) as waiting:
                    hurried.add(hurry := partial(_wait_no_longer, waiting))
                    try:
                        await self.take()
                    finally:
                        hurried.discard(hurry)
        if host is not None and host.draining:
            self.end()
        return len(self._permits) == len(self._wanted)

    async def take(self) -> None:
        """Wait for all permits. When this returns the call may begin, as long as the caller does not wait again. What
        has become invalid meanwhile is taken again, before calls that came later.
        """
        self._standing.come()
        try:
            while (lacks := self._take_now()) is not None:
                await self._wait_for(lacks)
                if len(self._wanted) > 1 and self._take_now() is not None:
                    self._standing.passed_over += 1
                    if seconds := self._standing.keeps_seconds:
                        await self._take_in_order(seconds)
        except BaseException:
            self.end()
            raise

    def _take_now(self) -> int | None:
        """Take all. If one lacks take none, and answer which."""
        for place in range(len(self._wanted)):
            if not self._has(place):
                permit = self._pool(place).take_now(self._standing.ticket, self._wanted[place].weight)
                if permit is None:
                    self.end()
                    return place
                self._permits[place] = permit
        return None

    def _has(self, place: int) -> bool:
        """Whether it has a permit that is valid."""
        if (permit := self._permits.get(place)) is None or permit.is_valid:
            return permit is not None
        del self._permits[place]
        permit.end()
        return False

    async def _wait_for(self, place: int) -> None:
        self._place = place
        self._permits[place] = await self._pool(place).take(self._standing.ticket, self._wanted[place].weight)

    async def _take_in_order(self, seconds: float) -> None:
        """Take one after the other, and keep what it has for at most so long."""
        await self._wait_for(0)
        keeping = asyncio.timeout(seconds)
        try:
            async with keeping:
                while not self.is_valid:
                    for place in range(len(self._wanted)):
                        if not self._has(place):
                            await self._wait_for(place)
        except TimeoutError:
            if not keeping.expired():
                raise
            self.end()

    def _pool(self, place: int) -> Pool:
        return self._lenders.pool(self._wanted[place])

    def park(self, rouse: Callable[[], object]) -> None:
        """Stop waiting in memory, keep the place in line, and have ``rouse`` called when what lacks is there."""
        lacks = self._wanted[self._place]
        self.end()
        self._standing.leave()
        self._standing.parked = pool = self._lenders.pool(lacks)
        pool.park(self._standing.ticket, lacks.weight, rouse, self._standing.partition)

    def begin(self) -> None:
        """The call begins: the caller has just seen that all are valid."""
        self.is_begun = True
        for permit in self._permits.values():
            permit.begin()

    def end(self) -> None:
        """The call is over, or does not begin."""
        permits, self._permits = self._permits, {}
        for permit in permits.values():
            permit.end()


def _wait_no_longer(waiting: asyncio.Timeout) -> None:
    if not waiting.expired():
        waiting.reschedule(0)


class Counted(Struct):
    """What this process has of a limit, over its keys: calls that run and wait, calls that have begun and tokens that
    were late since it was opened.
    """

    used: int = 0
    waiting: int = 0
    begun: int = 0
    late: int = 0

    def add(self, pool: Pool) -> None:
        """Add what was counted of a key."""
        self.used += pool.running
        self.waiting += pool.waiting
        self.begun += pool.count
        self.late += pool.tokens.late


class Lenders:
    """What an open app has of its limits. One per app and process; closing it gives back what is not in use."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._pools: dict[tuple[str, str], Pool] = {}
        self._numbers: dict[str, tuple[Numbers, float]] = {}
        self._numbered = count()
        self._changes = 0
        self._counted: dict[str, Counted] = {}
        self._standing = Bounded[tuple[str, str], Standing](MOST_TICKETS)

    def hold(self, wanted: Sequence[Wanted], place: tuple[str, str] | None = None) -> Hold:
        """Room for the permits of a call. With a ``place`` it stands where it has stood when it came first."""
        # those with a rate last: a token is not kept for long
        ordered = sorted(wanted, key=lambda each: (each.declared.rate is not None, each.partition))
        if place is None:
            return Hold(ordered, Standing(next(self._numbered)), self)
        if (standing := self._standing.use(place)) is None:
            standing = self._standing[place] = Standing(next(self._numbered), place[0])
        return Hold(ordered, standing, self)

    def leave(self, place: tuple[str, str]) -> None:
        """The call of a place has begun, or is not wanted any more: the next one there stands at the end."""
        if (standing := self._standing.pop(place, None)) is not None:
            standing.leave()

    def pool(self, wanted: Wanted) -> Pool:
        """This process's part of a key of a limit."""
        place = (wanted.partition, wanted.key)
        if (pool := self._pools.get(place)) is None:
            self._forget_idle()
            source = Source(
                wanted.partition,
                KEY_PREFIX + wanted.key,
                self._runtime,
                wanted.declared,
                partial(self._read_numbers, wanted),
            )
            pool = self._pools[place] = Pool(source)
        return pool

    def _forget_idle(self) -> None:
        if len(self._pools) >= 2 * (1 + sum(not pool.is_idle for pool in self._pools.values())):
            for (partition, _), pool in self._pools.items():
                if pool.is_idle:
                    self._counted.setdefault(partition, Counted()).add(pool)
            self._pools = {place: pool for place, pool in self._pools.items() if not pool.is_idle}

    def counted(self) -> dict[str, Counted]:
        """What was counted of each limit that was used here, by name."""
        found = {partition: copy(each) for partition, each in self._counted.items()}
        for (partition, _), pool in self._pools.items():
            found.setdefault(partition, Counted()).add(pool)
        return {partition.rpartition("#")[2]: each for partition, each in found.items()}

    async def _read_numbers(self, wanted: Wanted) -> Numbers:
        time = asyncio.get_running_loop().time()
        known, at = self._numbers.get(wanted.partition, (wanted.declared, None))
        if at is not None and time < at + READ_AGAIN_SECONDS:
            return known
        if at is None:
            self._runtime.wake_listeners.add(wanted.partition, partial(self._heard, wanted.partition))
            self._numbers[wanted.partition] = known, time - READ_AGAIN_SECONDS
        changes = self._changes
        numbers = await read_numbers(wanted.partition, wanted.declared, self._runtime.home.store)
        if changes == self._changes:  # else they may have been read before
            self._numbers[wanted.partition] = numbers, time
        return numbers

    def _heard(self, partition: str) -> None:
        """The numbers of a limit may have changed."""
        self._changes += 1
        if (known := self._numbers.get(partition)) is not None:
            self._numbers[partition] = known[0], -math.inf
        for (of, _), pool in self._pools.items():
            if of == partition:
                pool.reconsider()

    async def give_back(self) -> None:
        """Give back what is not in use, before this process is frozen."""
        await asyncio.gather(*(pool.give_back() for pool in self._pools.values()))

    async def close(self) -> None:
        """Give back what is not in use."""
        await asyncio.gather(*(pool.close() for pool in self._pools.values()))


def lenders_of(runtime: Runtime) -> Lenders:
    """The lenders of an open app."""
    return runtime.kept.get(Lenders, partial(Lenders, runtime))
