"""How a caller acquires a lease, or one of several permits: try, read, wait for a wake-up, try again.

The item of a lease is no head, so no worker's sweep ever reads it. Its epoch survives release and lapse: it is the
fence, and only grows (G3). The owner's name is ``<home>/<nonce>``: the home says whether its process still lives, the
nonce distinguishes this acquisition from every other, also of the same process.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from random import Random
from typing import Final, TypeVar
from weakref import WeakValueDictionary

import msgspec
from msgspec import Struct

from holdfast import ids
from holdfast.backoff import Pauses
from holdfast.codec.stored import stored
from holdfast.coordination.lease import Claimed, Closed, claim, release
from holdfast.errors import Refused, StoreError, StoreUnavailable, WaitTimeout
from holdfast.items import ABSENT, Item, Put
from holdfast.kernel.listeners import Listening
from holdfast.kernel.runtime import Runtime
from holdfast.kernel.wake import notify
from holdfast.persist import CALLER_PATIENCE_SECONDS

T = TypeVar("T")

SKEW_MARGIN_MS: Final = 2_000
"""How long a lease must have lapsed by our clock before we take it over: clocks that differ by less do no harm."""

FIRST_LOOK_SECONDS: Final = 0.25
LONGEST_LOOK_SECONDS: Final = 5.0
LOOK_GROWTH: Final = 1.5
"""A waiting caller reads the lease now and then, in case a wake-up was lost or the owner has died."""

SHORTEST_WAIT_SECONDS: Final = 0.01

LEASE: Final = "LEASE"
"""The status of every lease."""


class Terms(Struct, frozen=True):
    """The body of a lease: its length as requested, in milliseconds, and when its owner got it."""

    ttl_ms: int
    since_ms: int = 0


terms_of: Final = stored(Terms, "the terms of a lease")


class Won(Struct, frozen=True):
    """A lease that is ours: its item, and the loop's time before we requested it."""

    item: Item
    asked_at: float


class Sighting(Struct, frozen=True):
    """A lease that has not changed since we first saw it, and the loop's time then."""

    item: Item
    at: float


class ReleaseOutcome(enum.Enum):
    """The store's answer to a release."""

    RELEASED = enum.auto()
    TAKEN_OVER = enum.auto()
    UNKNOWN = enum.auto()


class Turnstiles:
    """One lock for each partition that tasks of this process wait for: they try one after another."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def of(self, partition: str) -> asyncio.Lock:
        """The lock of a partition."""
        return self._locks.setdefault(partition, asyncio.Lock())


class Acquisition:
    """One attempt to own one of the leases ``sorts`` of a partition."""

    def __init__(self, runtime: Runtime, partition: str, sorts: Sequence[str], ttl_ms: int) -> None:
        self.runtime = runtime
        self.owner = f"{self.runtime.home.owner}/{ids.new_id()[:12]}"
        self.partition = partition
        self.ttl_ms = ttl_ms
        self.random = Random(self.owner)
        first = self.random.randrange(len(sorts))
        self._sorts = (*sorts[first:], *sorts[:first])
        self._sightings: dict[str, Sighting] = {}
        self._loop = asyncio.get_running_loop()

    # ── Trying ──────────────────────────────────────────────────────────────────────────────────────────────────────

    async def win(self, wait_seconds: float | None) -> Won:
        """Become an owner: one write if a lease is free. The waiting callers of one process try one after another.

        Raises ``WaitTimeout`` when the wait is over, ``StoreUnavailable`` when the store has not answered for a while.
        In that case a lease may be ours without our knowledge, until it lapses.
        """
        deadline = None if wait_seconds is None else self._loop.time() + wait_seconds
        turnstile = self.runtime.kept.get(Turnstiles, Turnstiles).of(self.partition)
        try:
            async with asyncio.timeout_at(deadline):
                await turnstile.acquire()
        except TimeoutError:
            raise self._too_late() from None
        listening = self.runtime.wake_listeners.listen(self.partition)
        try:
            return await self._compete(listening, deadline)
        finally:
            listening.close()
            turnstile.release()

    async def _compete(self, listening: Listening, deadline: float | None) -> Won:
        candidates: Sequence[str] = self._sorts[:1]
        looks = Pauses(FIRST_LOOK_SECONDS, LONGEST_LOOK_SECONDS, LOOK_GROWTH)
        while True:
            for sort in candidates:
                if won := await self._sit_out(partial(self._try_whole, sort)):
                    return won
            candidates = await self._sit_out(self._look)
            if candidates:
                continue
            left = looks.seconds if deadline is None else deadline - self._loop.time()
            if left <= 0:
                raise self._too_late()
            pause = min(left, self._until_lapse(), self.random.uniform(0.8, 1.0) * looks.take())
            await listening.next(pause)
            candidates = await self._sit_out(self._look)

    async def _try_whole(self, sort: str) -> Won | None:
        """One try, to its end: a cancelled wait leaves no unknown lease behind."""
        trying = asyncio.ensure_future(self._try(sort))
        try:
            return await asyncio.shield(trying)
        except asyncio.CancelledError:
            (outcome,) = await asyncio.gather(trying, return_exceptions=True)
            if isinstance(outcome, Won):
                await self.release(outcome, outcome.asked_at + self.ttl_ms / 1000)
            raise

    async def _try(self, sort: str) -> Won | None:
        asked_at, now = self._loop.time(), self.runtime.clock.now_ms()
        terms = msgspec.json.encode(Terms(self.ttl_ms, now))
        outcome = await claim(
            self.runtime.home.store,
            self.partition,
            sort=sort,
            owner=self.owner,
            now=now - SKEW_MARGIN_MS,
            until=now + self.ttl_ms,
            claimable=(LEASE,),
            running=LEASE,
            alive=self._alive,
            body=terms,
            silent=self._silent(sort),
        )
        match outcome:
            case Claimed(item):
                pass
            case Closed():
                until = now + self.ttl_ms
                item = Item(
                    self.partition, sort, status=LEASE, owner=self.owner, lease_until=until, epoch=1, body=terms
                )
                try:
                    await self.runtime.home.store.write(Put(item, ABSENT))
                except Refused:
                    return None  # another caller was faster, or our own answer was lost: the next read shows
            case _:
                return None
        late = self._loop.time() - asked_at >= self.ttl_ms / 1000
        return None if late else Won(item, asked_at)  # the answer is so late that the lease is over: try again

    # ── Looking ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _look(self) -> Sequence[str]:
        """The leases that are worth a try now."""
        page = await self.runtime.home.store.query(self.partition)
        found = {item.sort: item for item in page.items}
        for sort in self._sorts:
            item, seen = found.get(sort), self._sightings.get(sort)
            if item is None:
                self._sightings.pop(sort, None)
            elif seen is None or (seen.item.epoch, seen.item.lease_until) != (item.epoch, item.lease_until):
                self._sightings[sort] = Sighting(item, self._loop.time())
        living: dict[str, bool] = {}
        return [sort for sort in self._sorts if self._is_open(found.get(sort), living)]

    def _is_open(self, item: Item | None, living: dict[str, bool]) -> bool:
        if item is None or item.owner is None or item.owner == self.owner:
            return True
        if item.owner not in living:
            living[item.owner] = self._alive(item.owner)
        lapsed = (item.lease_until or 0) < self.runtime.clock.now_ms() - SKEW_MARGIN_MS
        return lapsed or not living[item.owner] or self._silent(item.sort) is not None

    def _silent(self, sort: str) -> Item | None:
        """The lease as we saw it, if its owner has not renewed it for longer than its length.

        So a dead owner whose clock was fast blocks others no longer than a living one may: this uses no wall clock.
        """
        seen = self._sightings.get(sort)
        if seen is None or seen.item.owner is None:
            return None
        ttl_ms = terms_of(seen.item.body).ttl_ms
        return seen.item if self._loop.time() - seen.at > (ttl_ms + SKEW_MARGIN_MS) / 1000 else None

    def _until_lapse(self) -> float:
        ends = [seen.item.lease_until or 0 for seen in self._sightings.values() if seen.item.owner is not None]
        left_ms = min(ends, default=0) + SKEW_MARGIN_MS + 1 - self.runtime.clock.now_ms()
        return max(left_ms / 1000, SHORTEST_WAIT_SECONDS)

    def _alive(self, owner: str) -> bool:
        return self.runtime.home.doorbell.alive(owner.partition("/")[0])

    def _too_late(self) -> WaitTimeout:
        return WaitTimeout(f"{self.partition.replace('#', ' ')!r} is held by others; wait longer, or try again later")

    async def _sit_out(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Repeat the request through a short outage of the store."""
        pauses, gives_up_at = Pauses(), self._loop.time() + CALLER_PATIENCE_SECONDS
        while True:
            try:
                return await ask()
            except StoreUnavailable:
                if self._loop.time() >= gives_up_at:
                    raise
            await pauses.wait()

    # ── Releasing ───────────────────────────────────────────────────────────────────────────────────────────────────

    async def release(self, won: Won, until: float) -> ReleaseOutcome:
        """Release it, and wake the callers that wait.

        A store that does not answer is asked until ``until``, by the loop's time, when the lease lapses by itself.
        """
        sort, epoch = won.item.sort, won.item.epoch
        pauses, repeated, parting = Pauses(), False, ReleaseOutcome.RELEASED
        while True:
            try:
                await self.runtime.home.store.write(release(self.partition, self.owner, epoch, sort=sort))
                break
            except Refused as refused:
                if refused.item is None or refused.item.epoch != epoch:
                    if not repeated:
                        return ReleaseOutcome.TAKEN_OVER
                    parting = ReleaseOutcome.UNKNOWN  # perhaps another owner has it because of our own earlier release
                break
            except StoreError as error:
                if not isinstance(error, StoreUnavailable) or self._loop.time() + pauses.seconds >= until:
                    self.runtime.emit("release_failed", partition=self.partition, error=repr(error))
                    return ReleaseOutcome.UNKNOWN
            repeated = True
            await pauses.wait()
        self.runtime.wake_listeners.heard(self.partition)
        notify(self.partition, self.runtime.home)
        return parting
