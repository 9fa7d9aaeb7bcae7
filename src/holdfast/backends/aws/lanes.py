"""The order of writes: writes of one partition go one after another, in the order of the calls; others concurrently."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

T = TypeVar("T")


class Lanes:
    """One lane per partition. DynamoDB itself guarantees no order for concurrent requests."""

    def __init__(self) -> None:
        self._last: dict[str, asyncio.Task[Any]] = {}
        self._all: set[asyncio.Task[Any]] = set()

    def run(self, lanes: Iterable[str], work: Callable[[], Coroutine[Any, Any, T]]) -> asyncio.Future[T]:
        """Do ``work`` as soon as the earlier work in these lanes has ended, with or without an error.

        It continues if its caller goes away.
        """
        mine = frozenset(lanes)
        before = {self._last[lane] for lane in mine if lane in self._last}
        task = asyncio.get_running_loop().create_task(_after(before, work))
        self._all.add(task)
        for lane in mine:
            self._last[lane] = task
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        task.add_done_callback(lambda done: self._leave(mine, done, answer))
        return answer

    def _leave(self, lanes: Iterable[str], task: asyncio.Task[T], answer: asyncio.Future[T]) -> None:
        self._all.discard(task)
        for lane in lanes:
            if self._last.get(lane) is task:
                del self._last[lane]
        # Not `asyncio.shield`: if the caller goes away, that leaves an error that is never retrieved.
        error = None if task.cancelled() else task.exception()
        if answer.done():
            return
        if task.cancelled():
            answer.cancel()
        elif error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(task.result())

    async def empty(self) -> None:
        """Wait until everything is done."""
        while self._all:
            await asyncio.wait(self._all)


async def _after(before: set[asyncio.Task[Any]], work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    if before:
        await asyncio.wait(before)
    return await work()
