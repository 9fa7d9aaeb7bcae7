"""The bridge for callers that are not async: it runs their awaitables on an event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable
from types import TracebackType
from typing import Self, TypeVar

from holdfast.containment import Escaped
from holdfast.errors import InvalidState
from holdfast.opened import Openable

T = TypeVar("T")


class SyncBridge:
    """``with app.sync() as run: receipt = run(checkout.start(order))``. ``run`` may be called from any thread."""

    def __init__(self, app: Openable, *, worker: bool) -> None:
        self._app = app
        self._worker = worker
        self._loop: asyncio.AbstractEventLoop | None = None

    def __enter__(self) -> Self:
        if self._loop is not None:
            raise InvalidState(f"this bridge of app {self._app.name!r} is open; make another with app.sync()")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="holdfast-sync", daemon=True)
        self._thread.start()
        self._context = self._app.worker() if self._worker else self._app
        try:
            self(self._context.__aenter__())
        except BaseException:
            self._close(self._loop)
            raise
        return self

    def __exit__(
        self, type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._loop is not None
        try:
            self(self._context.__aexit__(type, error, traceback))
        finally:
            self._close(self._loop)

    def open(self) -> Self:
        """Open the bridge without a block: until ``close``, or as long as the process lives, as on AWS Lambda."""
        return self.__enter__()

    def close(self) -> None:
        """Close what ``open`` opened."""
        self.__exit__(None, None, None)

    def __call__(self, awaitable: Awaitable[T]) -> T:
        """Run an awaitable on the app's loop, and wait here for its result. Raises ``InvalidState`` if closed."""
        if self._loop is None:
            raise _refused(
                awaitable,
                f"the bridge of app {self._app.name!r} works inside its block: with app.sync() as run: run(...)",
            )
        if threading.current_thread() is self._thread:
            raise _refused(
                awaitable,
                f"run(...) was called by code that the bridge of app {self._app.name!r} runs itself, which would wait "
                "for ever: await it there",
            )
        future = asyncio.run_coroutine_threadsafe(_awaited(awaitable), self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # Ctrl-C ends the wait, and must end the coroutine, too
            raise

    def _close(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = None
        loop.call_soon_threadsafe(loop.stop)
        self._thread.join()
        loop.close()


def sync(app: Openable, *, worker: bool = False) -> SyncBridge:
    """The bridge for code that is not async: ``with app.sync() as run: run(checkout.start(order))``."""
    return SyncBridge(app, worker=worker)


def _refused(awaitable: Awaitable[object], why: str) -> InvalidState:
    if inspect.iscoroutine(awaitable):
        awaitable.close()  # or Python would complain that it was never awaited
    return InvalidState(why)


async def _awaited(awaitable: Awaitable[T]) -> T:
    try:
        return await awaitable
    except (SystemExit, KeyboardInterrupt) as error:  # it would end the loop, on which others wait
        raise Escaped(error) from error
