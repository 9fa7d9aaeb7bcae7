"""Who may have a thread for a blocking step: so many at once, and in the order in which they asked.

A step that has a seat begins at once. So its clock, and what is noted of an at-most-once step before it begins, do not
run ahead of it in a queue.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import suppress
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Threads:
    """An executor with ``count`` threads. Belongs to the event loop on which it is used."""

    __slots__ = ("_executor", "_free", "_waiting")

    def __init__(self, executor: Executor, count: int) -> None:
        self._executor = executor
        self._free = count
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

    def give_back(self) -> None:
        """Somebody does not need a seat any more."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1

    def handing_over(self) -> Handed:
        """For one call that a thread is to make."""
        return Handed(self._executor)


class Handed(Executor):
    """An executor for one call, which tells when its thread is free. A loop that runs such calls in place asks it for
    nothing: then it is free at once.
    """

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._future: Future[Any] | None = None

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        self._future = future = self._executor.submit(fn, *args, **kwargs)
        return future

    def when_free(self, tell: Callable[[], None]) -> None:
        """Call it when the thread has done what it was given, perhaps now, perhaps from that thread."""
        if self._future is None:
            tell()
        else:
            self._future.add_done_callback(lambda _: tell())


class Seat:
    """The right to one thread, once."""

    __slots__ = ("_is_left", "_threads")

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._is_left = False

    async def run(self, call: Callable[[], Any]) -> Any:
        """What ``call`` answers, from a thread. The seat is free when that ends, however long nobody waits any more."""
        handed = self._threads.handing_over()
        self._is_left = True
        loop = asyncio.get_running_loop()

        def ended() -> None:
            with suppress(RuntimeError):  # the loop was closed: nobody waits for a seat
                loop.call_soon_threadsafe(self._threads.give_back)

        try:
            return await loop.run_in_executor(handed, call)
        finally:
            handed.when_free(ended)

    def leave(self) -> None:
        """Give it back, if nothing was run."""
        if not self._is_left:
            self._is_left = True
            self._threads.give_back()
