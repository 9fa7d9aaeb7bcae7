"""One attempt under an idempotency key, from acquiring the key to recording the outcome.

All of it runs on the app's event loop. Work that must not stop half-way, because a caller goes away or is cancelled,
continues as a task of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeVar

from msgspec import Raw, Struct

from holdfast.backoff import Pauses
from holdfast.bounded import Bounded
from holdfast.coordination import idempotency
from holdfast.coordination.idempotency import COMPLETED, Ended, Held, Place, Terms, Ticket
from holdfast.errors import HoldfastError, LeaseLost, ResultNotStored, StoreError
from holdfast.failure import describe
from holdfast.kernel.runtime import Connect, Runtime

T = TypeVar("T")

FIRST_PAUSE_SECONDS: Final = 0.02
LONGEST_PAUSE_SECONDS: Final = 1.0
"""The pauses between two reads of a caller that waits: short at first, then longer and longer."""

CACHED_BYTES: Final = 16 * 1024
"""Larger results are not kept in memory."""


class Policy(Struct, frozen=True, kw_only=True):
    """The rules for attempts under the keys of one handler.

    ``what`` names the handler in messages. ``cache`` is how many outcomes are kept in memory.
    """

    name: str
    what: str
    terms: Terms
    lease_ms: int
    wait_seconds: float = 0.0
    cache: int = 0


class Attempt:
    """The handler may run, once. Its lease is renewed until it is settled, unless the attempt has a fixed end."""

    __slots__ = ("_beats", "_lease_ms", "_timer", "runtime", "ticket")

    def __init__(self, runtime: Runtime, ticket: Ticket, lease_ms: int) -> None:
        self.runtime = runtime
        self.ticket = ticket
        self._lease_ms = lease_ms
        self._timer: asyncio.TimerHandle | None = None
        self._beats = set[asyncio.Task[None]]()

    def keep(self) -> None:
        """Renew the lease from time to time, beginning when a third of it is over."""
        self._timer = asyncio.get_running_loop().call_later(self._lease_ms / 3000, self._beat)

    def stop(self) -> None:
        """Let the lease lapse."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _beat(self) -> None:
        task = asyncio.get_running_loop().create_task(self._renew())
        self._beats.add(task)
        task.add_done_callback(self._beats.discard)

    async def _renew(self) -> None:
        try:
            ours = await idempotency.renew(self.runtime, self.ticket, self._lease_ms)
        except StoreError as error:
            self.runtime.emit("beat_failed", error=repr(error))
            return
        if ours and self._timer is not None:
            self.keep()


class Attempts:
    """The attempts under the keys of one handler, in this process."""

    def __init__(self, connect: Connect, policy: Policy) -> None:
        self.policy = policy
        self._connect = connect
        self._outcomes = Bounded[Place, Ended](policy.cache)
        self._outcomes_of = ""
        self._tasks = set[asyncio.Task[Any]]()

    async def begin(self, place: Place, *, ends_in_ms: int | None = None) -> Attempt | Ended:
        """The right to run the handler, or its earlier outcome.

        ``ends_in_ms`` is when this process will be stopped if it is not done: the lease then lasts that long and is not
        renewed. Raises what ``idempotency.acquire`` raises, and ``Busy``.
        """
        runtime = self._connect()
        if (known := self._known(runtime, place)) is not None:
            return known
        lease_ms = self.policy.lease_ms if ends_in_ms is None else ends_in_ms
        owner = idempotency.new_owner(runtime)
        asked = partial(idempotency.acquire, runtime, place, self.policy.terms, owner=owner, lease_ms=lease_ms)
        found = await self._through(asked, partial(self._abandon, runtime))
        if isinstance(found, Held):
            found = await self._wait(runtime, place, found, asked)
        if isinstance(found, Ended):
            self._remember(runtime, place, found)
            return found
        if not await self._in_time(runtime, found, lease_ms):
            return await self.begin(place, ends_in_ms=ends_in_ms)
        attempt = Attempt(runtime, found, lease_ms)
        if ends_in_ms is None:
            attempt.keep()
        return attempt

    async def complete(self, attempt: Attempt, result: bytes) -> None:
        """Record the result. Raises ``LeaseLost``, ``ResultNotStored``; the cancellation of a caller stops nothing."""
        await self._settle(attempt, partial(idempotency.complete, result=Raw(result)))

    async def complete_without_result(self, attempt: Attempt, why: str) -> None:
        """Record that the handler has run, and why its result is not here."""
        await self._settle(attempt, partial(idempotency.complete, lost=why))

    async def failed(self, attempt: Attempt, error: BaseException, *, final: bool) -> None:
        """Record the handler's error for every repeat, or let the handler be tried again at once.

        Never raises: the handler's own error matters more. If this could not be recorded, a note on the error says so.
        """
        move = partial(idempotency.fail, error=describe(error)) if final else idempotency.release
        try:
            await self._settle(attempt, move)
        except (LeaseLost, ResultNotStored) as why:
            error.add_note(f"{self.policy.what}: the failure was not recorded: {why}")

    async def _settle(
        self, attempt: Attempt, move: Callable[[Runtime, Ticket], Coroutine[Any, Any, Ended | None]]
    ) -> None:
        attempt.stop()
        try:
            ended = await self._through(partial(move, attempt.runtime, attempt.ticket))
        except StoreError as error:
            raise ResultNotStored(
                f"{self.policy.what} has run, and the store did not record it: {error}. Its key stays held until its "
                "lease lapses; after that a repeat may run it again"
            ) from error
        if ended is not None:
            self._remember(attempt.runtime, attempt.ticket.place, ended)

    async def _in_time(self, runtime: Runtime, ticket: Ticket, lease_ms: int) -> bool:
        """Whether the key is still ours. If the answer came so late that the lease is over, the store is asked again:
        nothing should run for an attempt that was overtaken before it began.
        """
        return runtime.clock.now_ms() < ticket.lease_until or await idempotency.renew(runtime, ticket, lease_ms)

    # ── Waiting for another attempt ─────────────────────────────────────────────────────────────────────────────────

    async def _wait(
        self,
        runtime: Runtime,
        place: Place,
        held: Held,
        asked: Callable[..., Coroutine[Any, Any, Ticket | Ended | Held]],
    ) -> Ticket | Ended:
        loop = asyncio.get_running_loop()
        ends = loop.time() + self.policy.wait_seconds
        pauses = Pauses(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
        while (left := ends - loop.time()) > 0:
            await asyncio.sleep(min(pauses.take(), left))
            seen = await idempotency.look(runtime, place)  # a read, which costs less than being refused
            again = partial(asked, seen=seen)
            found: Ticket | Ended | Held = await self._through(again, partial(self._abandon, runtime))
            if not isinstance(found, Held):
                return found
            held = found
        raise idempotency.busy(place, held, runtime.clock.now_ms())

    # ── Outliving the caller ────────────────────────────────────────────────────────────────────────────────────────

    async def _through(
        self,
        work: Callable[[], Coroutine[Any, Any, T]],
        orphaned: Callable[[T], Coroutine[Any, Any, object]] | None = None,
    ) -> T:
        """Do ``work``, which may be done again. If the caller is cancelled meanwhile, the work continues in the
        background, because its write may be on its way. ``orphaned`` then gets the answer.
        """
        try:
            return await work()
        except asyncio.CancelledError:
            task = asyncio.get_running_loop().create_task(_finish(work, orphaned))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            raise

    async def _abandon(self, runtime: Runtime, found: Ticket | Ended | Held) -> None:
        """A caller went away before it got the key: nothing was run under it."""
        if isinstance(found, Ticket):
            await idempotency.release(runtime, found)

    # ── Outcomes in memory ──────────────────────────────────────────────────────────────────────────────────────────

    def _known(self, runtime: Runtime, place: Place) -> Ended | None:
        if not self._outcomes:
            return None
        if self._outcomes_of != runtime.home.owner:  # the app was runtime on another home
            self.forget_outcomes()
            return None
        ended = self._outcomes.use(place)
        return None if ended is None or ended.expires_at <= runtime.clock.now_ms() else ended

    def _remember(self, runtime: Runtime, place: Place, ended: Ended) -> None:
        small = len(bytes(ended.record.result)) <= CACHED_BYTES
        if self.policy.cache == 0 or ended.status != COMPLETED or not small:
            return
        if self._outcomes_of != runtime.home.owner:
            self.forget_outcomes()
            self._outcomes_of = runtime.home.owner
        self._outcomes[place] = ended

    def forget_outcomes(self) -> None:
        """Forget the outcomes in memory; the store is asked again."""
        self._outcomes.clear()


async def _finish(
    work: Callable[[], Coroutine[Any, Any, T]], orphaned: Callable[[T], Coroutine[Any, Any, object]] | None
) -> None:
    with suppress(HoldfastError):  # no caller is left, and the lease lapses anyway
        found = await work()
        if orphaned is not None:
            await orphaned(found)
