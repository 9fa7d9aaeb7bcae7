"""The asynchronous generators of one body, and what closes those that it leaves unfinished.

One that is left by ``break`` is closed at once, by a task of its own loop, as asyncio does it. One that lies in a
reference cycle is found by the garbage collector: at a random moment, under another body, in another thread. So it is
only kept then, and closed at the end of the body with those that the collector has not found: whether and when the
collector runs makes no difference.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import TYPE_CHECKING, Any, Final
from weakref import ref

from holdfast.replay.tasks import DurableTask, close_quietly, named

if TYPE_CHECKING:
    from holdfast.replay.loop import DurableLoop

AnyGenerator = AsyncGenerator[Any, Any]

FEW_GENERATORS: Final = 64
"""How many may be remembered before those that are gone are dropped."""


class Generators:
    """Those that the body has begun to iterate over, in that order. None is kept alive, but those that were left."""

    __slots__ = ("_begun", "_closing", "_loop", "_prune_at")

    def __init__(self, loop: DurableLoop) -> None:
        self._loop = loop
        # By address: when the collector calls, all weak references to a generator are dead, but its address is its own.
        self._begun: dict[int, Callable[[], AnyGenerator | None]] = {}
        self._prune_at = FEW_GENERATORS
        self._closing: list[DurableTask] = []

    def begun(self, generator: AnyGenerator) -> None:
        """The body iterates over it for the first time."""
        if len(self._begun) >= self._prune_at:
            self._begun = {address: get for address, get in self._begun.items() if get() is not None}
            self._prune_at = 2 * len(self._begun) + FEW_GENERATORS
        self._begun.pop(id(generator), None)  # of one that is gone: this one comes last
        self._begun[id(generator)] = ref(generator)

    def left(self, generator: AnyGenerator) -> None:
        """It has no reference any more. Either the body has just dropped it, or the collector has found it."""
        running = asyncio._get_running_loop()  # noqa: SLF001 - the public one raises where there is none
        if running is not self._loop or gc.is_finalized(generator):
            self._begun[id(generator)] = lambda: generator  # in its place, until the body ends
        elif self._loop.evicting:
            close_quietly(generator.aclose())
        else:
            self._close(generator)

    @property
    def closing(self) -> list[DurableTask]:
        """The tasks that close some of them."""
        self._closing = [task for task in self._closing if not task.done()]
        return self._closing

    def close_all(self) -> bool:
        """Begin to close those that are still there, in their order; false if there is none."""
        left = list(self._take())
        for generator in left:
            self._close(generator)
        return bool(left)

    def unwind(self) -> None:
        """Close them at once. Their ``finally`` blocks run, the durable operations in them do not."""
        for generator in self._take():
            close_quietly(generator.aclose())

    def _take(self) -> Iterator[AnyGenerator]:
        begun, self._begun = self._begun, {}
        for get in begun.values():
            if (generator := get()) is not None:
                yield generator

    def _close(self, generator: AnyGenerator) -> None:
        name: str = getattr(generator, "__name__", type(generator).__name__)
        self._closing.append(self._loop.create_task(named(self._closed(generator), f"{name}.aclose")))

    async def _closed(self, generator: AnyGenerator) -> None:
        try:
            await generator.aclose()
        except Exception as error:  # noqa: BLE001 - nothing awaits it that could be told
            message = "an asynchronous generator failed to close"
            self._loop.call_exception_handler({"message": message, "exception": error})
