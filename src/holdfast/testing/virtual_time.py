"""Virtual time: an asyncio event loop whose clock jumps to the next timer as soon as nothing is ready to run.

A year passes in milliseconds, nothing depends on how busy the machine is, and the same seed gives the same run. Only
time is simulated: the code under test is the real code, on real asyncio tasks.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
import sys
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from heapq import heappop, heappush
from math import floor
from random import Random
from typing import Any, Final, Protocol, TypeVar, cast

from holdfast.testing.entropy import seeded_entropy

T = TypeVar("T")

START_MS: Final = 1_767_225_600_000
"""The time of a ``VirtualClock`` when the loop begins: 2026-01-01T00:00:00Z."""

CENTURY_SECONDS: Final = 100 * 365 * 86_400.0
"""At this virtual time something certainly waits for an event that never comes."""

LONGEST_REPORT_TASKS: Final = 20
MOST_STEPS_AT_ONCE: Final = 500_000
"""This many callbacks at one instant of virtual time are an endless loop."""

Timeline = Callable[[str, str], object]
"""Gets the events of a run as they happen: the process, and the event."""

_logger = logging.getLogger("asyncio")


class Deadlock(AssertionError):
    """Nothing is ready to run, and no timer will ever make anything ready."""


class OutOfTime(AssertionError):
    """Virtual time ran past its limit before the run had ended."""


class Livelock(AssertionError):
    """Callbacks run without end, and virtual time does not pass."""


class Scope(Protocol):
    """The owner of callbacks and tasks, for example one simulated process."""

    def admits(self, handle: VirtualHandle) -> bool:
        """Whether the callback may run now. If not, the scope drops it, or keeps it and reschedules it later."""
        ...

    def adopt(self, task: asyncio.Task[Any]) -> None:
        """A task was created in this scope."""
        ...


current_scope: Final[contextvars.ContextVar[Scope | None]] = contextvars.ContextVar("holdfast_scope", default=None)
"""The scope of the code that is running. It travels with the context, so it reaches every task and callback."""


def _in_scope(context: contextvars.Context | None) -> contextvars.Context:
    """The context for running code. A context without a scope, such as a new one, gets ours."""
    if context is None:
        return contextvars.copy_context()
    if current_scope not in context and (scope := current_scope.get()) is not None:
        context.run(current_scope.set, scope)
    return context


def outside() -> contextvars.Context:
    """A new context without a scope."""
    context = contextvars.Context()
    context.run(current_scope.set, None)
    return context


class VirtualHandle:
    """A callback that waits for its turn, and for its time if it has one."""

    __slots__ = ("_args", "_callback", "_cancelled", "_when", "context")

    def __init__(
        self, callback: Callable[..., object], args: tuple[Any, ...], context: contextvars.Context | None, when: float
    ) -> None:
        self._callback = callback
        self._args = args
        self._when = when
        self._cancelled = False
        self.context = _in_scope(context)

    def cancel(self) -> None:
        """Prevent it from running."""
        self._cancelled = True

    def cancelled(self) -> bool:
        """Whether it was cancelled."""
        return self._cancelled

    def when(self) -> float:
        """When it is due, in the loop's time."""
        return self._when

    def run(self) -> None:
        """Call it."""
        self.context.run(self._callback, *self._args)

    def drop(self) -> None:
        """It will never run: a failed future whose error it would have retrieved has no other reader."""
        for each in self._args:
            if isinstance(each, asyncio.Future) and each.done() and not each.cancelled():
                each.exception()  # else asyncio complains that it was never retrieved

    def describe(self) -> str:
        """Its function, for messages."""
        return getattr(self._callback, "__qualname__", repr(self._callback))


class VirtualTimeLoop(asyncio.AbstractEventLoop):
    """An event loop in virtual time.

    Callbacks run first in, first out, or, with a ``seed``, in an order drawn from it. Executors run their work at once
    and in place, so that blocking steps are deterministic too. There is no I/O: sockets and subprocesses raise
    ``NotImplementedError``. When nothing is ready and no timer is left, ``Deadlock`` lists the waiting tasks.
    """

    def __init__(self, *, seed: int | None = None, limit_seconds: float = CENTURY_SECONDS) -> None:
        self.steps = 0
        """How many callbacks have run."""
        self.unhandled: list[dict[str, Any]] = []
        """The reports to the loop's exception handler."""
        self._random = None if seed is None else Random(seed)
        self._limit = limit_seconds
        self._now = 0.0
        self._steps_before = 0
        self._ready: deque[VirtualHandle] = deque()
        self._timers: list[tuple[float, int, VirtualHandle]] = []
        self._timers_made = 0
        self._tasks: list[asyncio.Task[Any]] = []
        self._closed = False
        self._generators: dict[int, Scope | None] = {}

    # ── What asyncio asks of a loop ─────────────────────────────────────────────────────────────────────────────────

    def time(self) -> float:
        return self._now

    def call_soon(  # type: ignore[override]  # asyncio wants only cancel() of a handle
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> VirtualHandle:
        handle = VirtualHandle(callback, args, context, self._now)
        self._ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]  # there is only one thread

    def call_later(  # type: ignore[override]  # asyncio wants only cancel() and when() of a handle
        self, delay: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> VirtualHandle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]  # asyncio wants only cancel() and when() of a handle
        self, when: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> VirtualHandle:
        handle = VirtualHandle(callback, args, context, when)
        self._timers_made += 1
        heappush(self._timers, (when, self._timers_made, handle))
        return handle

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(  # newer Pythons pass options that matter only to their own loops
        self,
        coro: Coroutine[Any, Any, T] | Generator[Any, None, T],
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
        **_options: object,
    ) -> asyncio.Task[T]:
        inside = _in_scope(context)
        task: asyncio.Task[T] = asyncio.Task(cast("Any", coro), loop=self, name=name, context=inside)
        scope = inside.get(current_scope)
        if scope is not None:
            scope.adopt(task)
        elif len(self._tasks) > 2 * LONGEST_REPORT_TASKS:
            self._tasks = [each for each in self._tasks if not each.done()]
        if scope is None:
            self._tasks.append(task)
        return task

    def run_in_executor(  # type: ignore[override]  # runs in place: there is no thread to wait for
        self, _executor: object, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        outcome: asyncio.Future[T] = self.create_future()
        try:
            outcome.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the caller's
            outcome.set_exception(error)
        return outcome

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return self._closed

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.unhandled.append(context)
        error = context.get("exception")
        _logger.error("%s", context.get("message"), exc_info=error if isinstance(error, Exception) else None)

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self.call_exception_handler(context)

    # ── Running ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def run_until_complete(self, future: Coroutine[Any, Any, T]) -> T:  # type: ignore[override]  # it takes only coroutines
        """Run until ``future`` has ended. Other tasks stay where they are."""
        assert not self._closed, "this loop is closed"
        assert asyncio._get_running_loop() is None, "another loop is running; call this from plain code"  # noqa: SLF001 - documented for loop implementations
        hooks = sys.get_asyncgen_hooks()
        asyncio._set_running_loop(self)  # noqa: SLF001 - documented for loop implementations
        sys.set_asyncgen_hooks(firstiter=self._first_iteration, finalizer=self._finalize)
        try:
            # Set once: code that runs here is in no scope, whatever calls it back.
            here = contextvars.copy_context()
            here.run(current_scope.set, None)
            task = self.create_task(future, context=here)
            while not task.done():
                self._step()
            return task.result()
        finally:
            sys.set_asyncgen_hooks(*hooks)
            asyncio._set_running_loop(None)  # noqa: SLF001 - documented for loop implementations

    def close(self) -> None:
        self._closed = True
        for handle in (*self._ready, *(timer for _, _, timer in self._timers)):
            handle.drop()
        self._ready.clear()
        self._timers.clear()

    def leftover_tasks(self) -> list[asyncio.Task[Any]]:
        """The unfinished tasks without a scope."""
        return [task for task in self._tasks if not task.done()]

    def reschedule(self, handle: VirtualHandle) -> None:
        """Make a callback ready again after its scope has held it back."""
        self._ready.append(handle)

    def _step(self) -> None:
        while self._timers and (not self._ready or self._timers[0][0] <= self._now):
            when, _, handle = heappop(self._timers)
            if handle.cancelled():
                continue
            if when > self._limit:
                raise OutOfTime(f"{self._limit:,.0f} virtual seconds have passed, and {self._describe_waiting()}")
            if when > self._now:
                self._now, self._steps_before = when, self.steps
            self._ready.append(handle)
        if not self._ready:
            raise Deadlock(f"nothing is ready and no timer is left, and {self._describe_waiting()}")
        handle = self._take()
        if handle.cancelled():
            return
        scope = handle.context.get(current_scope)
        if scope is not None and not scope.admits(handle):
            return
        self.steps += 1
        if self.steps - self._steps_before > MOST_STEPS_AT_ONCE:
            raise Livelock(
                f"{MOST_STEPS_AT_ONCE:,} callbacks ran at {self._now:,.3f} s; the last is {handle.describe()}"
            )
        try:
            handle.run()
        except Exception as error:  # noqa: BLE001 - as asyncio does: a callback has no caller
            self.call_exception_handler({"message": f"exception in {handle.describe()}", "exception": error})

    def _take(self) -> VirtualHandle:
        if self._random is None or len(self._ready) == 1:
            return self._ready.popleft()
        self._ready.rotate(-self._random.randrange(len(self._ready)))
        return self._ready.popleft()

    def _describe_waiting(self) -> str:
        waiting = self.leftover_tasks()[:LONGEST_REPORT_TASKS]
        return "these tasks wait:\n" + "\n".join(f"  {_place_of(task)}" for task in waiting)

    # ── Async generators: asyncio's loops close them when they are collected ────────────────────────────────────────

    def _first_iteration(self, generator: AsyncGenerator[Any, Any]) -> None:
        # By id, because a generator that is being collected can no longer be found by weak reference.
        self._generators[id(generator)] = current_scope.get()

    def _finalize(self, generator: AsyncGenerator[Any, Any]) -> None:
        # A generator left by a simulated process is dropped: the process is dead, or the run is over.
        if not self._closed and self._generators.pop(id(generator), None) is None:
            self.create_task(generator.aclose())


def _place_of(task: asyncio.Task[Any]) -> str:
    frames = task.get_stack(limit=1)
    coroutine: Any = task.get_coro()
    name = getattr(coroutine, "__qualname__", repr(coroutine))
    if not frames:
        return f"{task.get_name()} ({name})"
    return f"{task.get_name()} ({name}) at {inspect.getfile(frames[-1])}:{frames[-1].f_lineno}"


class VirtualClock:
    """A ``Clock`` that follows a virtual loop: the one that is named, or the one that runs when it is asked first; the
    next one when that is closed. ``offset_ms`` makes it wrong, like the clocks of real machines.
    """

    def __init__(self, loop: VirtualTimeLoop | None = None, *, offset_ms: int = 0) -> None:
        self._loop = loop
        self.offset_ms = offset_ms

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch, in virtual time."""
        if self._loop is None or self._loop.is_closed():
            loop = asyncio.get_running_loop()
            assert isinstance(loop, VirtualTimeLoop), "a VirtualClock shows the time of a VirtualTimeLoop only"
            self._loop = loop
        # Because of floating point, a timer set for a whole millisecond could otherwise fire a fraction early.
        return START_MS + self.offset_ms + floor(self._loop.time() * 1000 + 1e-3)


def run_virtual(
    main: Callable[[], Coroutine[Any, Any, T]], *, seed: int | None = None, limit_seconds: float = CENTURY_SECONDS
) -> T:
    """Run ``main()`` in virtual time and return its result: ``asyncio.run`` for tests that wait for hours or years.

    Ids and secrets come from a generator, so the same ``seed`` gives the same run; with a ``seed`` callbacks that are
    ready at the same time also run in an order drawn from it. Raises ``Deadlock`` or ``OutOfTime`` if it cannot end.

    >>> async def wait_a_year() -> float:
    ...     await asyncio.sleep(365 * 86_400)
    ...     return asyncio.get_running_loop().time()
    >>> run_virtual(wait_a_year)
    31536000.0
    """
    # Unimplemented methods of event loops are refused by name, which type checkers cannot see.
    loop = VirtualTimeLoop(seed=seed, limit_seconds=limit_seconds)  # type: ignore[abstract]
    with seeded_entropy(0 if seed is None else seed):
        try:
            return loop.run_until_complete(main())
        finally:
            _end(loop)


def _end(loop: VirtualTimeLoop) -> None:
    leftover = loop.leftover_tasks()

    async def cancel() -> None:
        for task in leftover:
            task.cancel()
        await asyncio.wait(leftover)

    try:
        if leftover:
            loop.run_until_complete(cancel())
    finally:
        loop.close()
