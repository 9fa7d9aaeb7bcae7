"""The private, deterministic event loop on which a workflow body runs (DESIGN §6).

It implements what tasks, futures and timers need, so that plain ``gather``, ``TaskGroup``, ``timeout``, ``Event``,
``Queue`` and ``Semaphore`` work. Whatever would touch the world raises ``IOOutsideStep``. Order is reproducible:
callbacks run first in, first out, tasks and futures hash by the order of their creation, and time stands still while
the body runs.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
import sys
from collections.abc import Callable, Collection, Coroutine
from types import CodeType, CoroutineType, FrameType
from typing import Any, Final, NoReturn, Protocol

from holdfast.containment import is_interrupt
from holdfast.errors import DeterminismError, IOOutsideStep
from holdfast.kernel.tasks import DurableFuture, DurableTask, Handle, Timer, close_quietly

_logger = logging.getLogger("holdfast")

FEW_TASKS: Final = 64
"""So many tasks may pile up before ended ones are let go of."""


class Requests(Protocol):
    """What the loop asks of its activation."""

    def start_timer(self, when: float, handle: Handle) -> Timer:
        """Fire ``handle`` at ``when`` (seconds of the loop's time)."""
        ...


class DurableLoop(asyncio.AbstractEventLoop):
    """An event loop for one activation of one workflow body, which it asks for durable timers."""

    def __init__(self, now: float, activation: Requests) -> None:
        self.now = now
        self.evicting = False
        self.activation: Any = activation
        self._tasks: list[DurableTask] = []
        self._prune_at = FEW_TASKS
        self._ready: list[Handle] = []
        self._order = 0
        self._callbacks = 0

    # asyncio asks less of a loop than its abstract class promises: a handle that can be cancelled, a task, a time. The
    # lighter classes here are why the overrides below do not match typeshed's signatures.
    # ── What asyncio's own classes call ─────────────────────────────────────────────────────────────────────────────

    def call_soon(  # type: ignore[override]  # lighter handles, see above
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> Handle:
        handle = Handle(callback, args, contextvars.copy_context() if context is None else context)
        self._ready.append(handle)
        return handle

    def call_later(  # type: ignore[override]  # lighter handles, see above
        self, delay: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> Handle | Timer:
        return self.call_at(self.now + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]  # lighter handles, see above
        self, when: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> Handle | Timer:
        if when <= self.now:
            return self.call_soon(callback, *args, context=context)
        timer: Timer = self.activation.start_timer(
            when, Handle(callback, args, contextvars.copy_context() if context is None else context)
        )
        return timer

    def time(self) -> float:
        return self.now

    def create_future(self) -> DurableFuture:
        return DurableFuture(loop=self)

    def create_task(  # type: ignore[override]  # lighter handles, see above
        self, coro: Coroutine[Any, Any, Any], *, context: contextvars.Context | None = None, **_options: object
    ) -> DurableTask:
        """Start ``coro``. Only its own name enters the task's path: Python versions differ in passing ``name`` on."""
        refuse_unordered_start(coro)
        parent = asyncio.current_task(self)
        label = getattr(coro, "__name__", type(coro).__name__)
        within = parent if isinstance(parent, DurableTask) and _is_for_wait_for() else None
        if within is not None:
            path = within.path
        else:
            path = parent.child_path(label) + "/" if isinstance(parent, DurableTask) else ""
        inside = contextvars.copy_context() if context is None else context
        task = DurableTask(coro, loop=self, path=path, context=inside, within=within)
        self._tasks.append(task)
        if len(self._tasks) >= self._prune_at:
            self._prune_at = 2 * len(self.live_tasks()) + FEW_TASKS
        return task

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not self.evicting:
            _logger.warning("in a workflow body: %s", context.get("message"), exc_info=context.get("exception"))

    # ── What the activation calls ───────────────────────────────────────────────────────────────────────────────────

    def live_tasks(self) -> list[DurableTask]:
        """The tasks that have not ended, in the order they were started."""
        self._tasks = [task for task in self._tasks if not task.done()]
        return self._tasks

    def schedule(self, handle: Handle) -> None:
        """Make a callback ready, as a timer does that has fired."""
        self._ready.append(handle)

    def next_order(self) -> int:
        self._order += 1
        return self._order

    def current_path(self, name: str) -> str:
        """The identity of the next operation called ``name`` in the task that is running."""
        task = asyncio.current_task(self)
        if isinstance(task, DurableTask):
            return task.child_path(name)
        self._callbacks += 1
        return f"callback/{name}#{self._callbacks}"

    def run_until_quiescent(self) -> None:
        """Run callbacks until none is ready."""
        self.call(self._run_ready)

    def evict(self) -> None:
        """Unwind every task. ``finally`` blocks run, but no durable operation in them does: each raises ``Evicted``."""
        self.evicting = True
        self._ready.clear()
        if self.live_tasks():
            self.call(self._unwind)
        self._ready.clear()
        self._tasks = []
        self.activation = None  # the two hold each other: without this, every ended execution waits for the collector

    def _run_ready(self) -> None:
        while self._ready:
            ready, self._ready = self._ready, []
            for handle in ready:
                try:
                    handle.run()
                except (SystemExit, KeyboardInterrupt) as error:
                    if is_interrupt(error):
                        raise
                    # It is the outcome of its task already, and no reason to end the process.
                except BaseException as error:  # noqa: BLE001 - a callback of the user's own has no task that could fail
                    self.call_exception_handler({"message": "a callback of the body failed", "exception": error})

    def _unwind(self) -> None:
        while tasks := self.live_tasks():
            self._tasks = []  # what starts while these unwind comes here, and is unwound next
            for task in reversed(tasks):
                task.context.run(self._close, task)

    def _close(self, task: DurableTask) -> None:
        asyncio._enter_task(self, task)  # asyncio.timeout in a finally block asks in which task it is
        try:
            close_quietly(task.get_coro())
        finally:
            asyncio._leave_task(self, task)

    def call(self, work: Callable[..., object], *args: Any) -> None:
        """Do ``work`` with this loop as the running one. Leaves the host's loop and task as it found them."""
        host_loop = asyncio._get_running_loop()
        if host_loop is self:
            work(*args)
            return
        host_task = asyncio.current_task(host_loop) if host_loop is not None else None
        hooks = sys.get_asyncgen_hooks()
        if host_loop is not None and host_task is not None:
            asyncio._leave_task(host_loop, host_task)
        asyncio._set_running_loop(self)
        sys.set_asyncgen_hooks(None, None)
        try:
            work(*args)
        finally:
            sys.set_asyncgen_hooks(*hooks)
            asyncio._set_running_loop(host_loop)
            if host_loop is not None and host_task is not None:
                asyncio._enter_task(host_loop, host_task)


# asyncio.as_completed puts what it is given into a set before it starts it, so bare coroutines start in the order of
# their addresses: every second replay would differ. Tasks hash by creation, so they are fine.
def _codes_of_as_completed() -> frozenset[CodeType]:
    iterator = getattr(asyncio.tasks, "_AsCompletedIterator", None)  # what as_completed is from Python 3.13 on
    functions = [asyncio.as_completed] if iterator is None else [iterator.__init__]
    return frozenset(function.__code__ for function in functions)


_AS_COMPLETED: Final = _codes_of_as_completed()
_ENSURE_FUTURE: Final = frozenset(
    function.__code__
    for function in (asyncio.ensure_future, getattr(asyncio.tasks, "_ensure_future", None))
    if function is not None
)
_FRAMES_TO_AS_COMPLETED: Final = 5


def _caller_of(frame: FrameType | None, *, levels: int) -> FrameType | None:
    for _ in range(levels):
        frame = None if frame is None else frame.f_back
    return frame


# Python 3.11's wait_for makes a task of a coroutine, newer ones await it where they are. Journals move to newer
# Pythons, so what it asks for is named alike on all of them.
_WAIT_FOR: CodeType | None = asyncio.wait_for.__code__ if sys.version_info < (3, 12) else None
_FRAMES_TO_WAIT_FOR: Final = 3


def _is_for_wait_for() -> bool:
    if _WAIT_FOR is None:
        return False
    frame = _caller_of(inspect.currentframe(), levels=2)
    for _ in range(_FRAMES_TO_WAIT_FOR):
        if frame is None or frame.f_code not in _ENSURE_FUTURE:
            break
        frame = frame.f_back
    return frame is not None and frame.f_code is _WAIT_FOR


def _close_unstarted(given: Any) -> None:
    for each in given:
        if inspect.iscoroutine(each):
            each.close()  # or Python would complain that nobody awaited it


def refuse_unordered_start(coroutine: object) -> None:
    """Raise if ``asyncio.as_completed`` is starting bare coroutines, whose order replay could not repeat.

    Called by ``create_task``, whose caller tells: as_completed always comes through ``ensure_future``.
    """
    frame = _caller_of(inspect.currentframe(), levels=2)
    if frame is None or frame.f_code not in _ENSURE_FUTURE or not isinstance(coroutine, CoroutineType):
        return
    for _ in range(_FRAMES_TO_AS_COMPLETED):
        if frame is None:
            return
        if frame.f_code in _AS_COMPLETED:
            given: Any = frame.f_locals.get("fs", frame.f_locals.get("aws", ()))
            _close_unstarted(given if isinstance(given, Collection) else (coroutine,))
            raise DeterminismError(
                "asyncio.as_completed starts bare coroutines in no fixed order, so a replay would differ; "
                "give it tasks: asyncio.as_completed([asyncio.create_task(c) for c in coroutines])"
            )
        frame = frame.f_back


def _refuse(name: str) -> Callable[..., NoReturn]:
    def refuse(_self: DurableLoop, *_args: object, **_kwargs: object) -> NoReturn:
        raise IOOutsideStep(
            f"the workflow body called loop.{name}: sockets, threads, files and processes belong in a step, because "
            "the body is run again on every replay; move the call into a function decorated with @app.step"
        )

    return refuse


for _name in dir(asyncio.AbstractEventLoop):
    if not _name.startswith("_") and _name not in vars(DurableLoop):
        setattr(DurableLoop, _name, _refuse(_name))


def running_activation() -> Any:
    """The activation whose workflow body is running here, or ``None``."""
    # The public get_running_loop() raises where there is none, which is the common case outside of workflows.
    loop = asyncio._get_running_loop()
    return loop.activation if isinstance(loop, DurableLoop) else None
