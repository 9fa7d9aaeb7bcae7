"""The permits that one call needs, of one limit or of several, and where a process keeps its part of each limit."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from holdfast.bounded import Bounded
from holdfast.flow.borrowing import Source
from holdfast.flow.lender import Permit, Pool
from holdfast.flow.lending import Numbers
from holdfast.flow.overrides import read_numbers

if TYPE_CHECKING:
    from holdfast.kernel.runtime import Runtime

READ_AGAIN_SECONDS: Final = 5.0
"""So long the numbers of a limit are taken as they were read; a change is heard of sooner where processes hear of each
other.
"""

MOST_TICKETS: Final = 100_000
"""Of how many calls it is remembered when they first came, while they are not in memory."""

KEY_PREFIX: Final = "k#"


class Wanted(Struct, frozen=True):
    """A permit that a call needs: of which limit and key, and how many tokens."""

    partition: str
    key: str
    weight: int
    declared: Numbers


class Standing(Struct):
    """Where a call stands that has not begun: its ticket, and the line that it is in while it is not in memory."""

    ticket: int
    parked: Pool | None = None

    def leave(self) -> None:
        """Be in no line any more."""
        if self.parked is not None:
            self.parked.leave(self.ticket)
            self.parked = None


class Hold:
    """The permits of one call."""

    __slots__ = ("_lenders", "_permits", "_place", "_standing", "_wanted", "is_begun")

    def __init__(self, wanted: Sequence[Wanted], standing: Standing, lenders: Lenders) -> None:
        self._wanted = wanted
        self._standing = standing
        self._lenders = lenders
        self._permits: list[Permit] = []
        self._place = 0
        self.is_begun = False

    @property
    def is_valid(self) -> bool:
        """Whether the call may begin now."""
        return len(self._permits) == len(self._wanted) and all(permit.is_valid for permit in self._permits)

    async def take(self) -> None:
        """Wait for all permits. When this returns the call may begin, as long as the caller does not wait again.

        All calls take them in the same order, so that none of two has what the other waits for. What has become invalid
        meanwhile is taken again, before calls that came later.
        """
        ticket = self._standing.ticket
        try:
            while not self.is_valid:
                for place, wanted in enumerate(self._wanted):
                    self._place = place
                    if place == len(self._permits):
                        self._permits.append(await self._lenders.pool(wanted).take(ticket, wanted.weight))
                    elif not self._permits[place].is_valid:
                        self._permits[place].end()
                        self._permits[place] = await self._lenders.pool(wanted).take(ticket, wanted.weight)
        except BaseException:
            self.end()
            raise

    def park(self, rouse: Callable[[], object]) -> None:
        """Stop waiting in memory, keep the place in line, and have ``rouse`` called when what lacks is there."""
        lacks = self._wanted[self._place]
        self.end()
        self._standing.leave()
        self._standing.parked = pool = self._lenders.pool(lacks)
        pool.park(self._standing.ticket, lacks.weight, rouse)

    def begin(self) -> None:
        """The call begins: the caller has just seen that all are valid."""
        self.is_begun = True
        for permit in self._permits:
            permit.begin()

    def end(self) -> None:
        """The call is over, or does not begin."""
        permits, self._permits = self._permits, []
        for permit in permits:
            permit.end()


class Lenders:
    """What an open app has of its limits. One per app and process; closing it gives back what is not in use."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._pools: dict[tuple[str, str], Pool] = {}
        self._numbers: dict[str, tuple[Numbers, float]] = {}
        self._numbered = count()
        self._changes = 0
        self._standing = Bounded[tuple[str, str], Standing](MOST_TICKETS)

    def hold(self, wanted: Sequence[Wanted], place: tuple[str, str] | None = None) -> Hold:
        """Room for the permits of a call. With a ``place`` it stands where it has stood when it came first."""
        ordered = sorted(wanted, key=lambda each: each.partition)
        if place is None:
            return Hold(ordered, Standing(next(self._numbered)), self)
        if (standing := self._standing.use(place)) is None:
            standing = self._standing[place] = Standing(next(self._numbered))
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
            self._pools = {place: pool for place, pool in self._pools.items() if not pool.is_idle}

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

    async def close(self) -> None:
        """Give back what is not in use."""
        await asyncio.gather(*(pool.close() for pool in self._pools.values()))


def lenders_of(runtime: Runtime) -> Lenders:
    """The lenders of an open app."""
    return runtime.kept.get(Lenders, partial(Lenders, runtime))
