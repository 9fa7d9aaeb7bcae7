"""For functions that are not async: calls to the app's event loop, which runs in another thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from holdfast.errors import InvalidState

if TYPE_CHECKING:
    from holdfast.kernel.runtime import Connect, Runtime

T = TypeVar("T")


def foreign_loop(loop: asyncio.AbstractEventLoop, name: str) -> asyncio.AbstractEventLoop:
    """The app's loop, if this thread may wait for it; else ``InvalidState``."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return loop
    raise InvalidState(
        f"handler {name!r} is not a coroutine function and would block the event loop of the thread it is called from, "
        "perhaps without end. Make it 'async def', or call it in another thread"
    )


def wait_in_thread(connect: Connect, work: Coroutine[Any, Any, T]) -> T:
    """Run ``work`` on the app's event loop and wait for it here, in another thread.

    Raises ``InvalidState`` on the thread of that loop itself, which would wait for ever.
    """
    try:
        loop = _loop_elsewhere(connect())
    except BaseException:
        work.close()
        raise
    return ask(loop, work)


def _loop_elsewhere(runtime: Runtime) -> asyncio.AbstractEventLoop:
    try:
        here = asyncio.get_running_loop()
    except RuntimeError:
        return runtime.loop
    if here is runtime.loop:
        raise InvalidState("this would block the event loop it waits for: write 'async with' instead of 'with'")
    return runtime.loop


def ask(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> T:
    """Run ``work`` on the loop of another thread and wait here for its result."""
    return _Question(loop, work).answer()


class _Question(Generic[T]):
    """One coroutine, sent to a loop. ``asyncio.run_coroutine_threadsafe`` does this too, with a future that any thread
    may watch; only one thread waits here, and without that future the round trip takes a third less.
    """

    __slots__ = ("_ended", "_loop", "_task", "_work")

    def __init__(self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> None:
        self._loop = loop
        self._work = work
        self._task: asyncio.Task[T] | None = None
        self._ended = threading.Lock()
        self._ended.acquire()

    def answer(self) -> T:
        """Run it, once, and wait."""
        try:
            self._loop.call_soon_threadsafe(self._begin)
            self._ended.acquire()
        except RuntimeError:  # the loop is closed
            self._work.close()
            raise
        except BaseException:  # Ctrl-C ends the wait; without this the coroutine would continue alone
            self._loop.call_soon_threadsafe(self._cancel)
            raise
        assert self._task is not None
        try:
            return self._task.result()
        except asyncio.CancelledError as error:
            raise CancelledError from error  # asyncio's is for coroutines; here it would look like Ctrl-C

    def _begin(self) -> None:
        self._task = self._loop.create_task(self._work)
        self._task.add_done_callback(lambda _: self._ended.release())

    def _cancel(self) -> None:
        if self._task is None:
            self._work.close()
        else:
            self._task.cancel()
