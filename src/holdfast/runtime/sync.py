"""The one bridge for callers that are not async: an event loop in a thread of its own, and a way to ask it things."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

if TYPE_CHECKING:
    from holdfast.app import App

T = TypeVar("T")


class SyncBridge:
    """``with app.sync() as run: receipt = run(checkout.start(order))``. ``run`` may be called from any thread."""

    def __init__(self, app: App, *, worker: bool) -> None:
        self._app = app
        self._worker = worker
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="holdfast-sync", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._context = self._app.worker() if self._worker else self._app
        self(self._context.__aenter__())
        return self

    def __exit__(
        self, type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self(self._context.__aexit__(type, error, traceback))
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def __call__(self, awaitable: Awaitable[T]) -> T:
        """Run something awaitable on the app's loop and wait for its result here."""
        return asyncio.run_coroutine_threadsafe(_awaited(awaitable), self._loop).result()


async def _awaited(awaitable: Awaitable[T]) -> T:
    return await awaitable
