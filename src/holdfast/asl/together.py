"""Branches and iterations side by side, a bounded number at a time. A failure that is too much cancels the others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from msgspec import Struct

from holdfast.asl.errors import StatesError

Start = Callable[[], Coroutine[Any, Any, Any]]
TooMuch = Callable[[StatesError], StatesError | None]
"""Gets the error of one that has failed; answers what to raise for it."""


class Ended(Struct, frozen=True):
    """How one of them ended: with an output, or with an error that was tolerated."""

    output: Any = None
    error: StatesError | None = None


def first_failure(error: StatesError) -> StatesError:
    """Nothing is tolerated: the first error is raised."""
    return error


async def together(starts: Sequence[Start], limit: int, too_much: TooMuch = first_failure) -> list[Ended]:
    """Run all of them, ``limit`` at a time, in their order. Raises what ``too_much`` answers, and cancels the rest."""
    return await Together(starts, limit, too_much).all()


class Together:
    """Coroutines that run side by side, whose number may change while they run."""

    def __init__(self, starts: Sequence[Start], limit: int, too_much: TooMuch) -> None:
        self._starts = starts
        self._limit = limit
        self._too_much = too_much
        self._ended: list[Ended] = [Ended()] * len(starts)
        self._running: dict[int, asyncio.Task[Any]] = {}
        self._next = 0
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def keep_to(self, limit: int) -> None:
        """Run as many at a time from now on. Those that run already go on."""
        self._limit = limit
        if not self._over.done():
            self._fill()

    def fail(self, error: StatesError) -> None:
        """End all of them with this error."""
        if not self._over.done():
            self._over.set_exception(error)

    async def all(self) -> list[Ended]:
        """See ``together``."""
        try:
            self._fill()
            await self._over
        finally:
            running = list(self._running.values())
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
        return self._ended

    def _fill(self) -> None:
        while len(self._running) < self._limit and self._next < len(self._starts):
            place, self._next = self._next, self._next + 1
            task = asyncio.create_task(self._starts[place]())
            self._running[place] = task
            task.add_done_callback(partial(self._done, place))
        if not self._running and not self._over.done():
            self._over.set_result(None)

    def _done(self, place: int, task: asyncio.Task[Any]) -> None:
        del self._running[place]
        if task.cancelled():
            self._over.cancel()
            return
        error = task.exception()
        if self._over.done():
            return
        if error is None:
            self._ended[place] = Ended(task.result())
        elif isinstance(error, StatesError):
            self._ended[place] = Ended(error=error)
            raised = self._too_much(error)
            if raised is not None:
                self._over.set_exception(raised)
                return
        else:
            self._over.set_exception(error)
            return
        self._fill()
