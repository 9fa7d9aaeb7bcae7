"""The private, deterministic event loop on which a workflow body runs (DESIGN §6).

It implements what tasks, futures and timers need, so that plain ``gather``, ``TaskGroup``, ``timeout``, ``Event``,
``Queue`` and ``Semaphore`` work. Whatever would touch the world raises ``IOOutsideStep``. Order is reproducible:
callbacks run first in, first out, tasks and futures hash by the order of their creation, and time stands still while
the body runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import sys
from collections.abc import Callable, Coroutine
from typing import Any, Final, NoReturn, Protocol

from holdfast.containment import is_interrupt
from holdfast.duration import checked_wait
from holdfast.errors import InvalidInput, IOOutsideStep
from holdfast.replay.callers import is_for_wait_for, refuse_unordered_start
from holdfast.replay.generators import AnyGenerator, Generators
from holdfast.replay.intrusion import Intrusion
from holdfast.replay.tasks import DurableFuture, DurableTask, Handle, Timer, close_quietly, waits_to_clean_up
from holdfast.replay.waiting import runaway
from holdfast.texts import frames_of

_logger = logging.getLogger("holdfast")

FEW_TASKS: Final = 64
"""How many tasks may pile up before those that have ended are dropped."""


FREE_CALLBACKS: Final = 100_000
CALLBACKS_EACH: Final = 10
MOST_CALLBACKS: Final = 500_000
"""How many callbacks may run before the body waits, how many more for each future that it has made, and how many at
most."""


_running_loop: Final = asyncio._get_running_loop


class Requests(Protocol):
    """What the loop asks of its activation."""

    def start_timer(self, when: float, handle: Handle) -> Timer:
        """Fire ``handle`` at ``when`` (seconds of the loop's time)."""
        ...


class DurableLoop(asyncio.AbstractEventLoop):
    """An event loop for one activation of one workflow body, which it asks for durable timers."""

    def __init__(self, now: float, activation: Requests) -> None:
        self.now = now
        self.evicting = self.asking = False
        self.was_cancelled = False
        self.activation: Any = activation
        self._tasks: list[DurableTask] = []
        self._prune_at = FEW_TASKS
        self._ready: list[Handle] | tuple[()] = ()  # nothing of its own while the body waits: sleepers are many
        self.order = 0
        """How many tasks and futures were made."""
        self._callbacks = 0
        self._main: DurableTask | None = None
        self._generators: Generators | None = None
        self._host: asyncio.AbstractEventLoop | None = None
        self.intruded: list[Intrusion] = []
        """What has come from a thread, or another loop, that the body has not been told of."""
        self._error_outside: BaseException | None = None
        self.claimed: set[str] | None = None
        """The paths that are taken, from when the body names places itself (``holdfast.replay.naming``)."""

    # asyncio asks less of a loop than its abstract class promises: a handle that can be cancelled, a task, a time. The
    # lighter classes here are why the overrides below do not match typeshed's signatures.
    # ── What asyncio's own classes call ─────────────────────────────────────────────────────────────────────────────

    def call_soon(  # type: ignore[override]  # lighter handles, see above
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> Handle:
        handle = Handle(callback, args, contextvars.copy_context() if context is None else context)
        if _running_loop() is self:
            self._ready = self._ready or []
            self._ready += (handle,)
        else:
            self._keep_out(Intrusion("call_soon", callback, args, context))
        return handle

    def call_soon_threadsafe(  # type: ignore[override]  # lighter handles, see above
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> Handle:
        """Never run it: what comes from a thread is not for bodies, which get ``IOOutsideStep`` instead.

        So does the caller, if the callback is about no future, whose waiter will hear.
        """
        intrusion = Intrusion("call_soon_threadsafe", callback, args, context)
        if _running_loop() is self:
            intrusion.refuse(self)
        else:
            self._keep_out(intrusion)
            if not self.evicting and not intrusion.futures(self):
                raise intrusion.error
        return Handle(callback, args, contextvars.Context())

    def call_later(  # type: ignore[override]  # lighter handles, see above
        self, delay: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> Handle | Timer:
        return self.call_at(self.now + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]  # lighter handles, see above
        self, when: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> Handle | Timer:
        if checked_wait(when - self.now) <= 0 or _running_loop() is not self:
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
        if self.asking:
            coro.close()  # or Python would complain that it was never awaited
            self.refuse_in_query("asyncio.create_task")
        parent = asyncio.current_task(self)
        if not isinstance(parent, DurableTask):  # begun by a callback: what it asks for is named as if the body did
            within, path = self._main, ""
        elif is_for_wait_for():
            within, path = parent, parent.path
        else:
            within, path = None, parent.child_path(getattr(coro, "__name__", type(coro).__name__)) + "/"
        inside = contextvars.copy_context() if context is None else context
        return self.start_task(coro, path=path, context=inside, within=within)

    def start_task(
        self,
        coroutine: Coroutine[Any, Any, Any],
        *,
        path: str,
        context: contextvars.Context,
        within: DurableTask | None = None,
    ) -> DurableTask:
        """Start ``coroutine`` at a path that the caller has made sure is its own."""
        if self.claimed is not None and within is None:
            self._claim_for(coroutine, path)
        task = DurableTask(coroutine, loop=self, path=path, context=context, within=within)
        self._main = self._main or task
        self._tasks.append(task)
        if len(self._tasks) >= self._prune_at:
            self._prune_at = 2 * len(self.live_tasks()) + FEW_TASKS
        return task

    def claim(self, path: str) -> str:
        """Take a path for one task, or one place, of this run. Raises ``InvalidInput`` if it is taken."""
        claimed = self.claimed = set() if self.claimed is None else self.claimed
        if path in claimed:
            raise InvalidInput(
                f"{path.rstrip('/')!r} is a place, or a task, of this run already: what is asked for there could not "
                "be told apart. Number the visits of a place, as in Ship#0 and Ship#1"
            )
        claimed.add(path)
        return path

    def _claim_for(self, coroutine: Coroutine[Any, Any, Any], path: str) -> None:
        try:
            self.claim(path)
        except InvalidInput:
            coroutine.close()  # or Python would complain that it was never awaited
            raise

    def refuse_in_query(self, what: str) -> None:
        """Raise if a query is being answered: it looks at the body, and nothing may come of it."""
        if self.asking:
            raise InvalidInput(
                f"{what} was called in a query. A query only looks: let the body wait for what it needs, and the query "
                "answer what the body has found"
            )

    def get_debug(self) -> bool:
        return False

    def get_task_factory(self) -> None:
        """There is none; libraries ask before they start a task."""

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not self.evicting:
            error = context.get("exception")
            frames = "" if error is None else f"\n{frames_of(error)}"
            _logger.warning("in a workflow body: %s%s", context.get("message"), frames)

    # ── What the activation calls ───────────────────────────────────────────────────────────────────────────────────

    def live_tasks(self) -> list[DurableTask]:
        """The tasks that have not ended, in the order they were started."""
        if self._tasks:
            self._tasks = [task for task in self._tasks if not task.done()]
        return self._tasks

    def reject_intrusions(self) -> None:
        """Raise ``IOOutsideStep`` wherever the body waits for something that came from elsewhere."""
        while self.intruded:
            intrusion = self.intruded.pop(0)
            if tasks := self.live_tasks():
                intrusion.raise_in(tasks, self)

    def handles_cancellation(self) -> bool:
        """Whether the code that runs just now is in an ``except`` or ``finally`` block that a cancellation has led to.

        That matters, and is to be asked, only once the body was cancelled: the next request shall not interrupt it.
        """
        error = sys.exception()
        return isinstance(error, asyncio.CancelledError) and error is not self._error_outside

    def cleans_up(self) -> bool:
        """Whether a task waits for a clean-up of the body."""
        return any(map(waits_to_clean_up, self.live_tasks()))

    def schedule(self, handle: Handle) -> None:
        """Make a callback ready, as a timer does that has fired."""
        self._ready = self._ready or []
        self._ready += (handle,)

    def current_path(self, name: str) -> str:
        """The identity of the next operation called ``name`` in the task that is running."""
        task = asyncio.current_task(self)
        if isinstance(task, DurableTask):
            return task.child_path(name)
        self._callbacks += 1
        return f"callback/{name}#{self._callbacks}"

    def evict(self) -> None:
        """Unwind every task. ``finally`` blocks run, but no durable operation in them does: each raises ``Evicted``."""
        self.evicting = True
        self._ready = ()
        if self._tasks or self._generators is not None:
            self.call(self._unwind)
        self._ready = ()
        self._tasks, self._generators, self._main = [], None, None
        self.intruded.clear()
        self.activation = None  # the two hold each other: without this, every ended execution waits for the collector

    def leftover_tasks(self) -> list[DurableTask]:
        """The tasks that have not ended, but for those that close what others have left."""
        closing = () if self._generators is None else self._generators.closing
        return [task for task in self.live_tasks() if task not in closing]

    def close_generators(self) -> bool:
        """Begin to close the asynchronous generators that were left unfinished; false if there is none."""
        return self._generators is not None and self._generators.close_all()

    def _generator_begun(self, generator: AnyGenerator) -> None:
        if self._generators is None:
            self._generators = Generators(self)
        self._generators.begun(generator)

    def _generator_left(self, generator: AnyGenerator) -> None:
        if self._generators is not None:
            self._generators.left(generator)

    def _keep_out(self, intrusion: Intrusion) -> None:
        """Note it and wake the host. This may be any thread, at any time."""
        if self.evicting:
            return
        self.intruded.append(intrusion)
        if self._host is not None:
            with contextlib.suppress(RuntimeError):  # the host's loop is closed, and nothing goes on there
                self._host.call_soon_threadsafe(self._tell)

    def _tell(self) -> None:
        if not self.evicting and self.activation.waker is not None:
            self.activation.waker.wake()

    def run_ready(self) -> None:
        """Run callbacks, within ``call``, until none is ready. Raises ``Runaway`` if there is no end of them."""
        left = FREE_CALLBACKS
        while self._ready:
            ready, self._ready = self._ready, ()
            left -= len(ready)
            if left < 0 and FREE_CALLBACKS - left > self._most_callbacks:
                raise runaway(self.live_tasks(), FREE_CALLBACKS - left)
            for handle in ready:
                try:
                    handle.run()
                except (SystemExit, KeyboardInterrupt) as error:
                    if is_interrupt(error):
                        raise
                    # It is the outcome of its task already, and no reason to end the process.
                except BaseException as error:  # noqa: BLE001 - a callback of the user's own has no task that could fail
                    self.call_exception_handler({"message": "a callback of the body failed", "exception": error})

    @property
    def _most_callbacks(self) -> int:
        return min(FREE_CALLBACKS + CALLBACKS_EACH * self.order, MOST_CALLBACKS)

    def _unwind(self) -> None:
        while tasks := self.live_tasks():
            self._tasks = []  # what starts while these unwind comes here, and is unwound next
            for task in reversed(tasks):
                task.context.run(self._close, task)
        if self._generators is not None:
            self._generators.unwind()

    def _close(self, task: DurableTask) -> None:
        asyncio._enter_task(self, task)  # asyncio.timeout in a finally block asks in which task it is
        try:
            close_quietly(task.get_coro())
        finally:
            asyncio._leave_task(self, task)

    def call(self, work: Callable[..., object], *args: Any) -> None:
        """Do ``work`` with this loop as the running one. Leaves the host's loop and task as it found them."""
        host_loop = _running_loop()
        if host_loop is self:
            work(*args)
            return
        host_task: asyncio.Task[Any] | None = None
        if host_loop is not None:
            self._host = host_loop
            host_task = asyncio.current_task(host_loop)
            if host_task is not None:
                asyncio._leave_task(host_loop, host_task)
        hooks = sys.get_asyncgen_hooks()
        asyncio._set_running_loop(self)
        self._error_outside = sys.exception()
        sys.set_asyncgen_hooks(self._generator_begun, self._generator_left)
        try:
            work(*args)
        finally:
            self._error_outside = None
            sys.set_asyncgen_hooks(*hooks)
            asyncio._set_running_loop(host_loop)
            if host_loop is not None and host_task is not None:
                asyncio._enter_task(host_loop, host_task)


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
    loop = _running_loop()
    return loop.activation if isinstance(loop, DurableLoop) else None
