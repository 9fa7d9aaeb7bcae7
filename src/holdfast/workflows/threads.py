"""Which blocking steps may have a thread: a limited number at once, in the order in which they asked.

A step that has a seat begins at once. So its clock, and what is noted of an at-most-once step before it begins, do not
run ahead of it in a queue.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, Final

from holdfast.flow.permits import Hold

BUSY_SECONDS: Final = 60.0
"""So long a step may wait for a thread before that is reported."""


class Holds:
    """The permits that are kept for operations which have not begun."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: dict[str, dict[str, Hold]] = {}

    def keep(self, partition: str, op: str, hold: Hold) -> None:
        """Keep permits for an operation."""
        self._kept.setdefault(partition, {})[op] = hold

    def has(self, partition: str, op: str) -> bool:
        """Whether permits are kept for an operation."""
        return op in self._kept.get(partition, {})

    def take(self, partition: str, op: str) -> Hold | None:
        """What is kept for an operation, and is not any more."""
        kept = self._kept.get(partition)
        hold = None if kept is None else kept.pop(op, None)
        if kept is not None and not kept:
            del self._kept[partition]
        return hold

    def leave(self, partition: str, op: str) -> None:
        """Keep nothing for an operation."""
        if (hold := self.take(partition, op)) is not None:
            hold.end()

    def leave_all(self, partition: str) -> None:
        """Keep nothing for an entity."""
        for hold in self._kept.pop(partition, {}).values():
            hold.end()


class Threads:
    """An executor with ``count`` threads, and the steps that have a seat there. Belongs to the event loop that uses it.

    ``report`` is told of which entity an operation has waited for long, and for how many seconds. ``holds`` are the
    permits that its operations need besides.
    """

    __slots__ = ("_executor", "_free", "_kept", "_report", "_waiting", "holds")

    def __init__(self, executor: Executor, count: int, report: Callable[[str, str, float], object]) -> None:
        self._executor = executor
        self._free = count
        self._report = report
        self.holds = Holds()
        self._kept: dict[str, dict[str, Seat]] = {}
        self._waiting: deque[asyncio.Future[None]] = deque()

    def take_now(self) -> Seat | None:
        """A seat, if one is free."""
        if not self._free:
            return None
        self._free -= 1
        return Seat(self)

    async def take(self) -> Seat:
        """The next seat that is free."""
        if (seat := self.take_now()) is not None:
            return seat
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it was given to us in the same moment
                self.give_back()
            raise
        return Seat(self)

    # ── For the operations of an entity ─────────────────────────────────────────────────────────────────────────────

    def keep_now(self, partition: str, op: str) -> bool:
        """Whether a thread is kept for an operation, or can be from now on."""
        kept = self._kept.get(partition, {})
        if op not in kept and (seat := self.take_now()) is not None:
            self._keep(partition, op, seat)
            return True
        return op in kept

    async def keep(self, partition: str, op: str) -> None:
        """Wait for a thread for an operation, and keep it."""
        self._keep(partition, op, await self.take_for(partition, op))

    def _keep(self, partition: str, op: str, seat: Seat) -> None:
        self._kept.setdefault(partition, {})[op] = seat

    async def take_for(self, partition: str, op: str) -> Seat:
        """The thread that is kept for an operation, or the next one that is free."""
        if (kept := self._let_go(partition, op)) is not None:
            return kept
        reporting = asyncio.get_running_loop().call_later(BUSY_SECONDS, self._report, partition, op, BUSY_SECONDS)
        try:
            return await self.take()
        finally:
            reporting.cancel()

    def leave(self, partition: str, op: str) -> None:
        """Keep no thread for an operation, and no permits."""
        self.holds.leave(partition, op)
        if (kept := self._let_go(partition, op)) is not None:
            kept.leave()

    def leave_all(self, partition: str) -> None:
        """Keep no threads and no permits for an entity: nothing of it starts here for a while."""
        self.holds.leave_all(partition)
        for seat in self._kept.pop(partition, {}).values():
            seat.leave()

    def _let_go(self, partition: str, op: str) -> Seat | None:
        kept = self._kept.get(partition)
        seat = None if kept is None else kept.pop(op, None)
        if kept is not None and not kept:
            del self._kept[partition]
        return seat

    # ── Seats ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def give_back(self) -> None:
        """A seat is not needed any more."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1

    def begin(self, call: Callable[[], Any]) -> asyncio.Future[Any]:
        """Have a thread call it, as the loop has it: one in virtual time calls it in place."""
        return asyncio.get_running_loop().run_in_executor(self._executor, call)


class Seat:
    """The right to one thread, once."""

    __slots__ = ("_calling", "_is_left", "_threads")

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._is_left = False
        self._calling: asyncio.Future[Any] | None = None

    async def run(self, call: Callable[[], Any]) -> Any:
        """Run ``call`` in a thread and return its result. The seat is free once the call ends, not the wait."""
        self._calling = calling = self._threads.begin(call)
        self._is_left = True
        calling.add_done_callback(self._ended)
        await asyncio.wait((calling,))  # cancelled, it leaves the call alone: only the thread can end that
        return calling.result()

    def _ended(self, calling: asyncio.Future[Any]) -> None:
        if not calling.cancelled():
            calling.exception()  # the wait may have ended, so that no caller retrieves it
        self._threads.give_back()

    def when_over(self, call: Callable[[], object]) -> None:
        """Call ``call`` when nothing runs in the thread any more, whatever has become of the wait for it."""
        if self._calling is None or self._calling.done():
            call()
        else:
            self._calling.add_done_callback(lambda _calling: call())

    def leave(self) -> None:
        """Give it back, if nothing was run."""
        if not self._is_left:
            self._is_left = True
            self._threads.give_back()
