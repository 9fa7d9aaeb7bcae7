"""A read-through cache in two tiers: this process's memory, and a ``Cache`` that processes share. Then the source.

It never loads one key twice at a time in one process. A call that came after an invalidation never gets a value that
was loaded before it. A tier never keeps a value that was loaded before an invalidation which that tier has received.
The shared tier may fail at any time: then the source is called, and the shared tier again after a pause.

Values are bytes here. Time is the event loop's: nothing in memory outlives it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, Final, TypeVar

from msgspec import Struct

from holdfast import ids
from holdfast.backoff import Pauses
from holdfast.bounded import Bounded
from holdfast.coordination.cache.breaker import Breaker
from holdfast.shared import Cache, Seen

T = TypeVar("T")

FIRST_POLL_SECONDS: Final = 0.02
LONGEST_POLL_SECONDS: Final = 0.25
"""How often a caller that waits for another process's load checks whether the value has arrived."""

AFTER_ERROR_SECONDS: Final = 1.0
"""How long a stale value replaces a failed load, before the source is called for this key again."""

MOST_OWED: Final = 10_000
"""The most invalidations that are kept for a shared tier that does not answer; above it, all of the group is
invalidated.
"""


class Rules(Struct, frozen=True, kw_only=True):
    """How long entries are kept, in seconds, and how many. ``jitter`` is the share by which times are shortened at
    random.
    """

    ttl: float
    missing_ttl: float
    stale: float
    stale_if_error: float
    memory_ttl: float
    fill_seconds: float
    jitter: float
    max_entries: int


class Loaded(Struct, frozen=True):
    """The source's answer. ``missing``: that there is no value."""

    value: bytes
    missing: bool
    version: int | None


Load = Callable[[], Awaitable[Loaded]]


class Remembered(Struct, frozen=True, gc=False):
    """A value in memory. Until ``use_until`` it is returned without asking another tier. All times are the loop's."""

    value: bytes
    use_until: float
    fresh_until: float


class ReadThrough:
    """The entries of one group. Belongs to one open app, and to its event loop."""

    def __init__(
        self, group: str, rules: Rules, shared: Cache | None, random: Random, tell: Callable[..., Any]
    ) -> None:
        self._group = group
        self._rules = rules
        self._shared = shared
        self._random = random
        self._tell = tell
        self._loop = asyncio.get_running_loop()
        self._breaker = Breaker(random)
        self._memory = Bounded[str, Remembered](rules.max_entries)
        self._flights: dict[str, asyncio.Task[bytes]] = {}
        self._departures: dict[str, float] = {}
        self._refreshes: dict[str, asyncio.Task[None]] = {}
        self._detached: set[asyncio.Task[Any]] = set()
        self._resting = Bounded[str, float](rules.max_entries)
        self._floors = Bounded[str, int](rules.max_entries)
        self._owed: dict[str, int | None] = {}
        self._owes_all = False

    # ── Reading ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def peek(self, key: str) -> bytes | None:
        """The value, if memory may answer without asking another tier."""
        there = self._memory.get(key)
        if there is None or self._loop.time() >= there.use_until:
            return None
        self._memory.move_to_end(key)
        return there.value

    async def get(self, key: str, load: Load) -> bytes:
        """The value, from the nearest tier that may answer. Raises what ``load`` raises."""
        there = self._memory.get(key)
        now = self._loop.time()
        if there is not None and now < there.use_until:
            self._memory.move_to_end(key)
            return there.value
        if self._shared is None and there is not None and now < there.fresh_until + self._rules.stale:
            self._refresh(key, load, None)
            return there.value
        flight = self._flights.get(key)
        if flight is None or (self._shared is not None and now - self._departures[key] > self._rules.memory_ttl):
            # A read that took longer may have begun before another process invalidated the value that it returns.
            self._detach(flight)
            flight = self._flights[key] = self._loop.create_task(self._fly(key, load))
            self._departures[key] = now
            flight.add_done_callback(lambda done: self._landed(key, done))
        return await asyncio.shield(flight)

    def _landed(self, key: str, flight: asyncio.Task[bytes]) -> None:
        if self._flights.get(key) is flight:
            del self._flights[key], self._departures[key]
        self._detached.discard(flight)
        if not flight.cancelled():
            flight.exception()  # retrieved, because every caller that waited for it may have gone

    async def _fly(self, key: str, load: Load) -> bytes:
        """Read the shared tier until it has the value or this process is to load it; then load it."""
        me = asyncio.current_task()
        token, gives_up_at = ids.new_id(), self._loop.time() + self._rules.fill_seconds
        polls = Pauses(FIRST_POLL_SECONDS, LONGEST_POLL_SECONDS, growth=1.5)
        while True:
            looked_at = self._loop.time()
            seen = await self._look(key, token)
            if seen is None:
                return await self._load(key, load, None, None)
            if seen.value is not None and seen.fresh_ms > 0:
                if self._flights.get(key) is me:
                    self._remember(key, seen.value, seen.fresh_ms / 1000, looked_at)
                return seen.value
            if seen.value is not None and -seen.fresh_ms <= self._rules.stale * 1000:
                if seen.may_fill:
                    await self._refresh_or_give_up(key, load, token, me)
                return seen.value
            if seen.may_fill or self._loop.time() >= gives_up_at:
                return await self._load(key, load, token if seen.may_fill else None, seen)
            await asyncio.sleep(polls.take() * self._random.uniform(0.5, 1.0))

    async def _refresh_or_give_up(self, key: str, load: Load, token: str, me: asyncio.Task[Any] | None) -> None:
        if self._flights.get(key) is me and key not in self._refreshes and not self._rests(key):
            self._refresh(key, load, token)
        else:
            await self._give_up(key, token)

    def _refresh(self, key: str, load: Load, token: str | None) -> None:
        """Load in the background, while callers get the stale value."""
        if key not in self._refreshes and not self._rests(key):
            refresh = self._refreshes[key] = self._loop.create_task(self._load_quietly(key, load, token))
            refresh.add_done_callback(lambda done: self._refreshed(key, done))

    def _refreshed(self, key: str, refresh: asyncio.Task[None]) -> None:
        if self._refreshes.get(key) is refresh:
            del self._refreshes[key]
        self._detached.discard(refresh)

    async def _load_quietly(self, key: str, load: Load, token: str | None) -> None:
        try:
            await self._load(key, load, token, None)
        except Exception as error:  # noqa: BLE001 - no caller waits for it: it is reported, and the next caller tries again
            self._tell("cache_failed", group=self._group, error=type(error).__name__)

    # ── Loading ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _load(self, key: str, load: Load, token: str | None, seen: Seen | None) -> bytes:
        me, began_at = asyncio.current_task(), self._loop.time()
        if self._rests(key) and (stale := self._stand_in(key, seen)) is not None:
            await self._give_up(key, token)
            return stale
        try:
            loaded = await load()
        except BaseException as error:
            await self._give_up(key, token)
            if not isinstance(error, Exception) or not self._is_current(key, me):
                raise
            self._resting[key] = self._loop.time() + AFTER_ERROR_SECONDS
            if (stale := self._stand_in(key, seen)) is None:
                raise
            self._tell("cache_failed", group=self._group, error=type(error).__name__)
            return stale
        self._resting.pop(key, None)
        fresh = self._thinned(self._rules.missing_ttl if loaded.missing else self._rules.ttl)
        if token is not None:
            began_at = self._loop.time()  # its age counts from its acceptance: an overtaken load is refused
            if not await self._fill(key, token, loaded, fresh):
                return loaded.value
        below = self._floors.get(key)
        if self._is_current(key, me) and (below is None or (loaded.version is not None and loaded.version >= below)):
            self._remember(key, loaded.value, fresh, began_at)
        return loaded.value

    def _rests(self, key: str) -> bool:
        return self._loop.time() < self._resting.get(key, 0.0)

    def _is_current(self, key: str, task: asyncio.Task[Any] | None) -> bool:
        """Whether there was no invalidation since this load began."""
        return self._flights.get(key) is task or self._refreshes.get(key) is task

    def _stand_in(self, key: str, seen: Seen | None) -> bytes | None:
        """The stale value that may replace an error."""
        there, now = self._memory.get(key), self._loop.time()
        if seen is not None and seen.value is not None and -seen.fresh_ms <= self._rules.stale_if_error * 1000:
            return seen.value
        if there is not None and now < there.fresh_until + self._rules.stale_if_error:
            return there.value
        return None

    def _thinned(self, length: float) -> float:
        return length * (1 - self._rules.jitter * self._random.random())

    # ── The shared tier ─────────────────────────────────────────────────────────────────────────────────────────────

    async def _look(self, key: str, token: str) -> Seen | None:
        """The entry of the shared tier; ``None`` if the tier does not answer, or still lacks an invalidation."""
        shared, fill_ms = self._shared, int(self._rules.fill_seconds * 1000)
        if shared is None or not await self._has_paid(key, shared):
            return None
        return await self._breaker.ask(lambda: shared.look(self._group, key, token, fill_ms))

    async def _has_paid(self, key: str, shared: Cache) -> bool:
        """Whether the shared tier has every invalidation of this key by this process; missing ones are sent to it."""
        if self._owes_all:
            self._owes_all = not await self._breaker.ask(lambda: self._told(shared.forget_all(self._group)))
        if key in self._owed and not self._owes_all:
            below = self._owed[key]
            if await self._breaker.ask(
                lambda: self._told(shared.forget(self._group, key, below=below, keep_ms=self._keep_ms))
            ):
                self._owed.pop(key, None)
        return not self._owes_all and key not in self._owed

    async def _told(self, telling: Awaitable[None]) -> bool:
        await telling
        return True

    @property
    def _keep_ms(self) -> int:
        return int((self._rules.ttl + max(self._rules.stale, self._rules.stale_if_error)) * 1000)

    async def _fill(self, key: str, token: str, loaded: Loaded, fresh: float) -> bool:
        shared = self._shared
        assert shared is not None, "a token is from the shared tier"
        fresh_ms, keep = int(fresh * 1000), max(self._rules.stale, self._rules.stale_if_error)
        keep_ms = fresh_ms + int(keep * 1000)
        answer = await self._breaker.ask(
            lambda: shared.fill(
                self._group, key, token, loaded.value, fresh_ms=fresh_ms, keep_ms=keep_ms, version=loaded.version
            )
        )
        return answer is True

    async def _give_up(self, key: str, token: str | None) -> None:
        shared = self._shared
        if shared is not None and token is not None:
            await self._breaker.ask(lambda: shared.give_up(self._group, key, token))

    # ── Memory ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _remember(self, key: str, value: bytes, fresh: float, as_of: float) -> None:
        """Keep a value that was true at ``as_of``.

        The shared tier is read again ``memory_ttl`` after that, in case another process has invalidated the value.
        """
        now = self._loop.time()
        use_until = now + fresh if self._shared is None else min(now + fresh, as_of + self._rules.memory_ttl)
        self._memory[key] = Remembered(value, use_until, now + fresh)

    # ── Invalidating ────────────────────────────────────────────────────────────────────────────────────────────────

    async def forget(self, key: str, below: int | None = None) -> None:
        """Never return again a value that was loaded before now; with ``below``, none of a lower version.

        Other processes may return it from memory for ``memory_ttl``. Raises ``StoreUnavailable`` if the shared tier
        does not answer: other processes may then use the old value until it expires. This process does not: it sends
        the invalidation before it reads this key from the shared tier again.
        """
        self._drop(key)
        if below is not None:
            self._floors[key] = max(below, self._floors.get(key, 0))
        if self._shared is None:
            return
        try:
            await self._shared.forget(self._group, key, below=below, keep_ms=self._keep_ms)
        except BaseException:
            owed = self._owed.get(key, 0)
            self._owed[key] = None if below is None or owed is None else max(below, owed)
            if len(self._owed) > MOST_OWED:
                self._owed.clear()
                self._owes_all = True
            raise
        finally:
            self._drop(key)  # a load that began meanwhile may have read the old value

    async def forget_all(self) -> None:
        """``forget`` every key."""
        self._drop_all()
        if self._shared is None:
            return
        try:
            await self._shared.forget_all(self._group)
        except BaseException:
            self._owes_all = True
            raise
        finally:
            self._drop_all()

    def _drop(self, key: str) -> None:
        self._memory.pop(key, None)
        self._departures.pop(key, None)
        self._detach(self._flights.pop(key, None))
        self._detach(self._refreshes.pop(key, None))

    def _detach(self, task: asyncio.Task[Any] | None) -> None:
        """Keep the load running while a caller waits for it, and cancel it if none does."""
        if task is not None:
            self._detached.add(task)

    def _drop_all(self) -> None:
        self._memory.clear()
        self._detached.update(self._flights.values(), self._refreshes.values())
        self._flights.clear()
        self._departures.clear()
        self._refreshes.clear()

    async def close(self) -> None:
        """Stop loading. Callers that wait are cancelled."""
        tasks: list[asyncio.Task[Any]] = [*self._flights.values(), *self._refreshes.values(), *self._detached]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
