"""For functions that are not async: asking the app's event loop, which runs in another thread."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from holdfast.errors import InvalidState

T = TypeVar("T")


def foreign_loop(loop: asyncio.AbstractEventLoop, name: str) -> asyncio.AbstractEventLoop:
    """The app's loop, if this thread may wait for it; else ``InvalidState``."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return loop
    raise InvalidState(
        f"handler {name!r} is no coroutine function, and would block the event loop of the thread it is called from, "
        "perhaps for ever. Make it 'async def', or call it in another thread"
    )


def ask(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> T:
    """Run ``work`` on the loop of another thread and wait here for what it answers."""
    future = asyncio.run_coroutine_threadsafe(work, loop)
    try:
        return future.result()
    except BaseException:
        future.cancel()  # Ctrl-C ends the wait; without this the coroutine would go on alone
        raise
