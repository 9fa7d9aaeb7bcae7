"""What the state patterns ask of the app they belong to, and the way to it from a thread without an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar
from weakref import WeakValueDictionary

from holdfast.errors import InvalidState
from holdfast.kernel.watch import Rings
from holdfast.opened import Opened
from holdfast.patterns.bridge import ask
from holdfast.ports import Shared

T = TypeVar("T")


class Belonging(Protocol):
    """Something that lives as long as the app is open."""

    async def close(self) -> None:
        """Let go of it."""
        ...


B = TypeVar("B", bound=Belonging)


class Ground(Protocol):
    """An app, open or not. What needs it open raises ``ConfigurationError`` if it is not."""

    turnstiles: WeakValueDictionary[str, asyncio.Lock]
    """One lock for each partition that somebody in this process waits for: they try one after another."""

    def opened(self) -> Opened:
        """The open app, as the concepts of the coordination layer see it."""
        ...

    @property
    def shared(self) -> Shared:
        """What the processes of this app share besides their home."""
        ...

    def belonging(self, of: object, make: Callable[[], B]) -> B:
        """What ``make`` answered when ``of`` first asked since the app was opened; it is closed with the app."""
        ...

    @property
    def rings(self) -> Rings:
        """Who in this process waits for a sign that an entity may have moved."""
        ...

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop on which the app is open."""
        ...


def wait_in_thread(ground: Ground, work: Coroutine[Any, Any, T]) -> T:
    """Run ``work`` on the app's event loop and wait for it here, in another thread.

    Raises ``InvalidState`` on the thread of that loop itself, which would wait for ever.
    """
    try:
        loop = _loop_elsewhere(ground)
    except BaseException:
        work.close()
        raise
    return ask(loop, work)


def _loop_elsewhere(ground: Ground) -> asyncio.AbstractEventLoop:
    loop = ground.loop
    try:
        here = asyncio.get_running_loop()
    except RuntimeError:
        return loop
    if here is loop:
        raise InvalidState("this would block the event loop it waits for: write 'async with' instead of 'with'")
    return loop
