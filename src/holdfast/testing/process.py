"""A simulated process: an app of its own, a home of its own, a clock of its own, and ways to die.

Everything it does runs in its own context, so the loop knows which callbacks belong to it: when it dies they are
dropped, when it is stopped they wait. Cancelling a coroutine is no crash, because its ``finally`` blocks run and may
write; here nothing runs.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.testing.faults import FaultPlan
from holdfast.testing.virtual_time import Timeline, VirtualClock, VirtualHandle, VirtualTimeLoop, current_scope
from holdfast.testing.wire import Wire

if TYPE_CHECKING:
    from holdfast.app import App
    from holdfast.testing.faults import FaultCounts

T = TypeVar("T")

FEW_TASKS = 100
CLOSING_TRIES = 100
UNWINDING_SECONDS = 0.1
"""How long cancelled work may take to notice at the end."""


class ProcessDied(Exception):
    """For a caller from outside: the process crashed before it answered. Nothing inside the process ever gets this."""


class Process:
    """One simulated process. ``call`` runs code in it; ``crash``, ``pause`` and ``resume`` act on it."""

    def __init__(  # the parts of a process
        self,
        name: str,
        loop: VirtualTimeLoop,
        plan: FaultPlan,
        counts: FaultCounts,
        *,
        offset_ms: int,
        timeline: Timeline | None,
    ) -> None:
        self.name = name
        self.context = contextvars.Context()
        self.context.run(current_scope.set, self)
        self.clock = VirtualClock(loop, offset_ms=offset_ms)
        self.wire = Wire(plan, counts, self, timeline)
        self.dead = False
        self.paused = self._started = False
        self.late = offset_ms != 0
        """Whether it may have been overtaken without noticing: it was stopped once, or clocks differ."""
        self.leaving = False
        """Whether it shuts down, or has shut down."""
        self.is_client = False
        """Whether it works on nothing."""
        self.enter: Callable[[], AbstractAsyncContextManager[object]] | None = None
        """Its role while it is up, if it is neither a worker nor a client."""
        self._serving = asyncio.Lock()
        self.died: asyncio.Future[None] = loop.create_future()
        self.stopped = asyncio.Event()
        self.app: App
        self.user: Callable[[], Coroutine[Any, Any, Any]]
        self._loop = loop
        self._held_back: list[VirtualHandle | Callable[[], object]] = []
        self._tasks: list[asyncio.Task[Any]] = []
        self._working: AbstractAsyncContextManager[object] | None = None

    def __str__(self) -> str:
        return self.name

    # ── Used from outside ───────────────────────────────────────────────────────────────────────────────────────────

    async def call(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run ``work()`` inside the process and return its result, or raise ``ProcessDied``."""
        task = self._loop.create_task(_run(work), context=self.context.copy())
        try:
            both: set[asyncio.Future[Any]] = {task, self.died}
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            task.cancel()
            raise
        if task.done():
            return task.result()
        raise ProcessDied(f"process {self.name} died")

    async def start(self) -> None:
        """Open the app and, unless it is a client, its worker."""
        if self.enter is not None:
            self._working = self.enter()
        else:
            self._working = self.app if self.is_client else self.app.worker()
        await self.call(self._working.__aenter__)
        self._started = True

    async def serve(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Do this when nothing else is served: an invoked process serves one call after another."""
        async with self._serving:
            return await work()

    @property
    def is_open(self) -> bool:
        """Whether it has started and had no fault since."""
        return self._started and not (self.dead or self.paused or self.leaving)

    async def stop(self) -> None:
        """Shut down gracefully: hand over what runs, close the home."""
        working = self._working
        assert working is not None, "it was never started"
        self.leaving = True
        self.wire.tell("shuts down")
        await self.call(lambda: _exit(working))
        await asyncio.sleep(UNWINDING_SECONDS)
        self._working = None

    def resume(self) -> None:
        """Continue after a pause, with its memory unchanged."""
        if self.dead or not self.paused:
            return
        self.paused = False
        self.stopped.clear()
        self.wire.tell("goes on")
        held_back, self._held_back = self._held_back, []
        for each in held_back:
            if isinstance(each, VirtualHandle):
                self._loop.reschedule(each)
            else:
                self.when_awake(each)

    # ── Done to it ──────────────────────────────────────────────────────────────────────────────────────────────────

    def crash(self) -> None:
        """Die as by ``kill -9``: from now on nothing of it runs, and no answer reaches it."""
        if self.dead:
            return
        self.dead = True
        self.wire.tell("is gone")
        for each in self._held_back:
            if isinstance(each, VirtualHandle):
                each.drop()
        self._held_back.clear()
        if self._working is not None:  # what was not seen although it has shut down is to be told
            self._take_errors()
        if not self.died.done():
            self.died.set_result(None)

    def _take_errors(self) -> None:
        """Its tasks that have failed have no other reader: ``gather``, say, takes errors only once all have ended."""
        for task in self._tasks:
            if task.done() and not task.cancelled():
                task.exception()  # else asyncio complains that it was never retrieved

    def pause(self) -> None:
        """Stop as by SIGSTOP: its timers pass, its leases lapse, and it does not notice."""
        self.paused = self.late = True
        self.stopped.set()
        self.wire.tell("is stopped")

    def when_awake(self, action: Callable[[], object]) -> None:
        """See ``Victim.when_awake``."""
        if self.dead:
            return
        if self.paused:
            self._held_back.append(action)
        else:
            action()

    # ── Asked by the loop ───────────────────────────────────────────────────────────────────────────────────────────

    def admits(self, handle: VirtualHandle) -> bool:
        """See ``Scope.admits``."""
        if self.dead:
            handle.drop()
            return False
        if self.paused:
            self._held_back.append(handle)
        return not self.paused

    def adopt(self, task: asyncio.Task[Any]) -> None:
        """See ``Scope.adopt``."""
        self._tasks.append(task)
        if len(self._tasks) > FEW_TASKS:
            self._tasks = [each for each in self._tasks if not each.done() or _may_be_unseen(each)]

    # ── Afterwards ──────────────────────────────────────────────────────────────────────────────────────────────────

    def unfinished(self) -> list[str]:
        """Its tasks that have not ended although it stopped gracefully; from a dead process nothing is expected."""
        left = [] if self.dead or self._working is not None else self._tasks
        return [repr(task.get_coro()) for task in left if not task.done()]

    def bury(self) -> None:
        """Drop what its end left half-way. Its ports are dead, so code that still unwinds changes nothing."""
        self.crash()
        # This private attribute has no public form; without it asyncio reports every dropped task.
        workers = getattr(self.app, "_worker", None)
        if workers is not None:
            for entity in list(workers.host.entities.values()):
                program = getattr(entity, "program", None)
                if program is not None and hasattr(program, "activation"):
                    self.context.copy().run(program.evict)
        while self._tasks:
            tasks, self._tasks = self._tasks, []
            for task in tasks:
                if not task.done():
                    task._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001 - see above
                    self.context.copy().run(_close, task.get_coro())
        self._working = None


def _may_be_unseen(task: asyncio.Task[Any]) -> bool:
    return bool(task._log_traceback)  # noqa: SLF001 - no public form asks without seeing it


async def _run(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    return await work()


async def _exit(working: AbstractAsyncContextManager[object]) -> None:
    await working.__aexit__(None, None, None)


def _close(coroutine: Any) -> None:
    # A finally block that awaits makes close() fail, each time one step further.
    for _ in range(CLOSING_TRIES):
        try:
            coroutine.close()
        except RuntimeError:
            continue
        except BaseException:  # noqa: BLE001 - an error of a dead process does not matter
            return
        return
