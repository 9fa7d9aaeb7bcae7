"""A worker: an open home, a host that takes turns, and a sweep that finds what wake-ups have missed."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from typing import TYPE_CHECKING, Any, Final, TypeVar

from holdfast import ids
from holdfast.kernel.host import Host
from holdfast.kernel.limits import Limits
from holdfast.kernel.sweep import Sweeper
from holdfast.runtime.threads import StepThreads
from holdfast.workflows.programs import Workflows, shared_items
from holdfast.workflows.threads import Threads

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator, Sequence

    from holdfast.kernel.model import Model
    from holdfast.kernel.runtime import Runtime
    from holdfast.kernel.wakeups import Wakeups
    from holdfast.registrations import Registrations

T = TypeVar("T")

DEFAULT_GRACE_SECONDS: Final = 10.0
STEP_THREADS: Final = 32


class Worker:
    """Works on the executions of one app in this process, between ``start`` and ``stop``."""

    def __init__(
        self,
        runtime: Runtime,
        models: Sequence[Model],
        limits: Limits,
        later: Wakeups | None = None,
    ) -> None:
        self._hosting = runtime.hosting
        self._pool = StepThreads(STEP_THREADS)
        threads = Threads(
            self._pool,
            STEP_THREADS,
            lambda partition, op, seconds: runtime.emit("threads_busy", partition=partition, op=op, seconds=seconds),
        )
        shared = runtime.kept.get(Workflows, shared_items)
        workflows = Workflows(runtime.registry, threads, runtime.sender, runtime.limit_bytes, shared)
        self.host = Host(runtime.home, (workflows, *models), runtime.clock, runtime.telemetry, limits, later)
        self.sweeper = Sweeper(self.host, _code_of(runtime.registry))

    async def start(self) -> None:
        """Start work on everything that is due or was left by a dead worker, and listen for wake-ups from now on."""
        self._hosting.host = self.host
        await self.sweeper.start()

    def begin(self) -> None:
        """Work only on what is asked for. Leases are renewed as long as the loop runs."""
        self._hosting.host = self.host
        self.sweeper.keep_leases()

    @contextlib.contextmanager
    def resting(self) -> Generator[None]:
        """Be a client inside the block: work that is asked for is left to the worker that its wake-up reaches."""
        self._hosting.host = None
        try:
            yield
        finally:
            self._hosting.host = self.host

    async def until(self, work: Coroutine[Any, Any, T]) -> T:
        """Await ``work`` and return its result. If the store becomes unusable, cancel it and raise
        ``StoreUnusable``.
        """
        task = asyncio.ensure_future(work)
        try:
            waited: list[asyncio.Future[Any]] = [task, self.sweeper.ruined]
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise self.sweeper.ruined.result()
            return await task
        finally:
            task.cancel()
            await asyncio.wait((task,))  # it cleans up while the worker still runs

    async def stop(self, grace_seconds: float = DEFAULT_GRACE_SECONDS) -> None:
        """Finish running steps within the grace period, leave the rest to other workers, and release every lease."""
        await self.sweeper.stop()
        # A store that is slow to note that this worker leaves takes nothing from the grace period.
        await asyncio.gather(self.host.drain(grace_seconds), self.sweeper.leave())
        self._end()

    def abandon(self) -> None:
        """Stop at once. Leases are not released; other workers take them over when they expire."""
        self.host.abandon()
        self._end()

    def _end(self) -> None:
        self._hosting.host = None
        self._pool.shutdown(wait=False, cancel_futures=True)


def _code_of(registry: Registrations) -> str:
    """What tells workers with different code apart: only those with the same share what they look at."""
    workflows = (f"workflow {each.name} {each.version}" for each in registry.workflows.values())
    actors = (f"actor {each.name} {each.schema}" for each in registry.actors.values())
    return ids.fingerprint("\n".join(sorted((*workflows, *actors))).encode())


async def stop_requested() -> None:
    """Wait for SIGTERM or SIGINT. A second signal ends the process at once, without releasing its leases."""
    loop = asyncio.get_running_loop()
    asked = asyncio.Event()

    def ask() -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            with contextlib.suppress(ValueError, RuntimeError):
                loop.remove_signal_handler(number)
                signal.signal(number, signal.SIG_DFL)
        asked.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ask)
    try:
        await asked.wait()
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
