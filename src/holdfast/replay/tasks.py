"""What runs on the private loop: tasks that know their path, futures and handles that sort by creation."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, TypeVar

from msgspec import Struct

from holdfast.errors import Evicted

if TYPE_CHECKING:
    from holdfast.replay.loop import DurableLoop

T = TypeVar("T")


class Handle(Struct, eq=False):
    """A callback waiting for its turn; asyncio asks of it only that it can be cancelled."""

    callback: Callable[..., object]
    args: tuple[Any, ...]
    context: contextvars.Context
    is_cancelled: bool = False

    __repr__ = object.__repr__  # that of a struct would show arguments

    def cancel(self) -> None:
        self.is_cancelled = True

    def cancelled(self) -> bool:
        return self.is_cancelled

    @property
    def callback_name(self) -> str:
        """The name of the function that it calls."""
        return str(getattr(self.callback, "__name__", ""))

    @property
    def argument(self) -> Any:
        """What it is called with first; ``None`` if with nothing."""
        return self.args[0] if self.args else None

    def run(self) -> None:
        """Call it, once. Frames outlive it: from Python 3.13 on those of an error lead back to here."""
        if not self.is_cancelled:
            self.context.run(self.callback, *self.args)
            del self.callback, self.args


class DurableFuture(asyncio.Future[Any]):
    """A future whose place in a set depends on when it was made, not on where it lies in memory.

    ``cleans_up``: it was made while a cancellation was being handled, by a ``finally`` block say.
    """

    __slots__ = ("cleans_up", "order")

    def __init__(self, *, loop: DurableLoop) -> None:
        super().__init__(loop=loop)
        self.order = loop.order = loop.order + 1
        self.cleans_up = loop.was_cancelled and loop.handles_cancellation()

    def __hash__(self) -> int:
        return self.order

    def fail(self, error: Exception) -> None:
        """Let the code that waits for it get an error that is not recorded."""
        self.set_exception(error)


class DurableTask(asyncio.Task[Any]):
    """A task that knows its path: the names and occurrences of the tasks above it and of its own coroutine.

    What one asks for that runs ``within`` another is named as if that had asked for it.
    """

    __slots__ = ("_occurrences", "cleans_up", "context", "order", "path")

    def __init__(
        self,
        coroutine: Coroutine[Any, Any, Any],
        *,
        loop: DurableLoop,
        path: str,
        context: contextvars.Context,
        within: DurableTask | None = None,
    ) -> None:
        self.path = path
        self.context = context
        self.cleans_up = loop.was_cancelled and loop.handles_cancellation()
        self._occurrences: dict[str, int] = {} if within is None else within._occurrences  # noqa: SLF001 - another task's, same class
        # asyncio keeps every task in one set for the whole process, under the hash that it has now: were it the order,
        # the first tasks of all executions would have the same and be compared one by one.
        self.order = id(self)
        super().__init__(coroutine, loop=loop, name=path, context=context)
        self.order = loop.order = loop.order + 1

    def __hash__(self) -> int:
        return self.order

    def child_path(self, name: str) -> str:
        """The path of the next thing called ``name`` that this task makes: ``path/name#occurrence``."""
        occurrence = self._occurrences.get(name, 0)
        self._occurrences[name] = occurrence + 1
        return f"{self.path}{name}#{occurrence}"

    @property
    def has_named(self) -> bool:
        """Whether something is named by where this task is now."""
        return any(not name.startswith("!") for name in self._occurrences)

    @contextmanager
    def at(self, path: str) -> Generator[None]:
        """Name what this task makes inside the block by another path than its own."""
        outside = self.path, self._occurrences
        self.path, self._occurrences = path, {}
        try:
            yield
        finally:
            self.path, self._occurrences = outside


class Timer:
    """What ``call_at`` answers: a callback for later."""

    __slots__ = ("_handle", "_when")

    def __init__(self, when: float, handle: Handle) -> None:
        self._when = when
        self._handle = handle

    def when(self) -> float:
        return self._when

    def cancel(self) -> None:
        self._handle.cancel()

    def cancelled(self) -> bool:
        return self._handle.cancelled()


timer_kind: ContextVar[str] = ContextVar("holdfast_timer", default="")
"""What the timers are for that Holdfast itself starts in a body."""


@contextmanager
def timers_called(name: str) -> Generator[None]:
    """Give the timers that start inside the block this name."""
    token = timer_kind.set(name)
    try:
        yield
    finally:
        timer_kind.reset(token)


closed_callback: ContextVar[str] = ContextVar("holdfast_closed_callback", default="")
"""The callback that takes no answer any more once the timers that start now have fired."""


@contextmanager
def timers_closing(callback: str) -> Generator[None]:
    """Let the timers that start inside the block end the time of this callback."""
    token = closed_callback.set(callback)
    try:
        yield
    finally:
        closed_callback.reset(token)


def timer_name(handle: Handle) -> str:
    """By what a timer is known: what asked for it. A sleep and a time-out are never taken for each other."""
    return timer_kind.get() or _TIMER_NAMES.get(handle.callback_name, "timer")


def context_here(loop: DurableLoop) -> contextvars.Context:
    """The context of the task that is running: it does for a callback that changes nothing there, without a copy."""
    task = asyncio.current_task(loop)
    return task.context if isinstance(task, DurableTask) else contextvars.copy_context()


def wake_sleeper(woken: asyncio.Future[None]) -> None:
    """What the timer of ``hf.sleep`` calls."""
    if not woken.cancelled():
        woken.set_result(None)


_TIMER_NAMES: Final = {
    wake_sleeper.__name__: "sleep",
    "_set_result_unless_cancelled": "sleep",  # asyncio.sleep
    "_on_timeout": "timeout",  # asyncio.timeout, and wait_for from Python 3.12 on
    "_release_waiter": "timeout",  # wait_for before that, and asyncio.wait
}


def named(coroutine: Coroutine[Any, Any, T], name: str) -> Coroutine[Any, Any, T]:
    """Give a coroutine the name by which it appears in the paths of tasks."""
    running: Any = coroutine  # its type has no name, which is that of one that Python made
    running.__name__ = name
    return coroutine


def close_quietly(coroutine: Any) -> None:
    """Throw ``Evicted`` into a coroutine until it gives up; what it raises on the way out is dropped.

    One that never does (``while True`` around a bare ``except``) is kept for good: were it collected, Python would run
    its handlers once more, outside of its loop, where a step is a plain function. So its reference is never given back,
    not even at the interpreter's exit, as that of a global would be.
    """
    for _ in range(100):
        try:
            coroutine.throw(Evicted())
        except BaseException:  # noqa: BLE001 - whatever it is, the coroutine is closed
            return
    import ctypes  # noqa: PLC0415 - for this rare case only

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(coroutine))


def waits_to_clean_up(task: DurableTask) -> bool:
    """Whether a task waits for something that was begun while a cancellation was being handled."""
    waiter: Any = getattr(task, "_fut_waiter", None)
    children = getattr(waiter, "_children", ())  # what asyncio.gather makes is a future of its own
    return any(getattr(each, "cleans_up", False) for each in (waiter, *children))
