"""The workflows under test, and what every measurement of ours needs around them."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import time
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import Any

import holdfast as hf

LANE_WARM_UP = 4
"""So many workflows per lane before the clock starts: code paths and statements are then compiled."""


class Workload:
    """An app on a SQLite file in ``folder``, or on the home given, with the workflows that the peer's script has too.

    With ``hold`` the steps named so never end: their process is about to be killed.
    """

    def __init__(
        self, folder: str, *, home: str | None = None, hold: bool = False, limits: hf.Limits | None = None
    ) -> None:
        self.app = hf.App("bench", home=home or f"sqlite:///{Path(folder) / 'bench.db'}", limits=limits)
        self._on_a_file = home is None
        self.hold = hold
        self.began = 0
        self._awaited = 0
        self._enough = asyncio.Event()
        self.settings: dict[str, Any] = {}
        self._declare_steps()
        self._declare_fan_outs()
        self._declare_waits()

    def _declare_steps(self) -> None:
        app = self.app

        @app.step
        async def step(number: int) -> int:
            return number

        @app.step
        def sync_step(number: int) -> int:
            return number

        @app.workflow
        async def one_step(number: int) -> int:
            return await step(number)

        @app.workflow
        async def one_sync_step(number: int) -> int:
            return await sync_step(number)

        @app.workflow
        async def no_step(number: int) -> int:
            return number

        @app.workflow
        async def sequence(count: int) -> int:
            for number in range(count):
                await step(number)
            return count

        self.one_step, self.one_sync_step, self.no_step, self.sequence = one_step, one_sync_step, no_step, sequence

    def _declare_fan_outs(self) -> None:
        app = self.app

        @app.step
        async def part(number: int) -> int:
            return number

        @app.workflow
        async def child(number: int) -> int:
            return number

        @app.workflow
        async def parallel(count: int) -> int:
            return len(await asyncio.gather(*[part(number) for number in range(count)]))

        @app.workflow
        async def children(count: int) -> int:
            return len(await asyncio.gather(*[child(number) for number in range(count)]))

        self.parallel, self.children = parallel, children

    def _declare_waits(self) -> None:
        app = self.app

        @app.step
        async def mark(number: int) -> int:
            self._count()
            return number

        @app.step
        async def hold(number: int) -> int:
            self._count()
            if self.hold:
                await asyncio.sleep(3600)
            return number

        @app.workflow
        async def overshoot(due: float) -> float:
            await hf.sleep(max(0.0, due - hf.now().timestamp()))
            return time.time() - due  # the wall clock is what is measured; these executions are never replayed

        @app.workflow
        async def asleep(number: int, seconds: float) -> int:
            await mark(number)
            await hf.sleep(seconds)
            return await mark(number)

        @app.workflow
        async def nap(seconds: int) -> int:
            await hf.sleep(seconds)
            return seconds

        @app.workflow
        async def in_step(number: int) -> int:
            return await hold(number)

        @app.workflow
        async def long_history(count: int) -> int:
            for number in range(count):
                await mark(number)
            return await hold(count)

        self.overshoot, self.asleep, self.nap = overshoot, asleep, nap
        self.in_step, self.long_history = in_step, long_history

    # ── Opening ─────────────────────────────────────────────────────────────────────────────────────────────────────

    @contextlib.asynccontextmanager
    async def client(self) -> AsyncIterator[Workload]:
        """The app open, without a worker."""
        async with self.app:
            self._check_settings()
            yield self

    @contextlib.asynccontextmanager
    async def worker(self) -> AsyncIterator[Workload]:
        """The app open, with a worker in this process."""
        async with self.app.worker(grace=0):
            self._check_settings()
            yield self

    @property
    def store(self) -> Any:
        return self.app.runtime().home.transactions

    def _check_settings(self) -> None:
        """Assert that every commit is synced, and note it: a benchmark that cheats here says nothing."""
        if not self._on_a_file:
            return
        connection = self.store.runner.connection
        synchronous, journal = connection.pragma("synchronous"), connection.pragma("journal_mode")
        assert (synchronous, journal) == (2, "wal"), (synchronous, journal)
        self.settings = {"synchronous": synchronous, "journal_mode": journal}

    # ── Watching ────────────────────────────────────────────────────────────────────────────────────────────────────

    async def told(self, event: str, count: int) -> None:
        """Wait until telemetry has counted ``event`` so often."""
        reached = asyncio.Event()
        counts = self.app.telemetry.counts

        def heard(name: str, _fields: dict[str, object]) -> None:
            if name == event and counts[event] >= count:
                reached.set()

        self.app.telemetry.subscribe(heard)
        if counts[event] < count:
            await reached.wait()

    async def begun(self, count: int) -> None:
        """Wait until so many marked steps have run, or are running."""
        self._awaited = count
        if self.began < count:
            await self._enough.wait()

    def _count(self) -> None:
        self.began += 1
        if self.began == self._awaited:
            self._enough.set()

    async def check_completed(self, workflow: Any, count: int) -> None:
        """Assert that so many executions have completed: what is fast but loses work is not fast."""
        found, after = 0, None
        while True:
            page = await self.app.executions(workflow.name, status="COMPLETED", after=after, limit=1000)
            found += len(page.executions)
            if (after := page.cursor) is None:
                break
        assert found == count, f"{found} of {count} executions have completed"


async def in_lanes(call: Callable[[int], Any], numbers: Iterable[int], lanes: int) -> float:
    """Await ``call(number)`` for each number, ``lanes`` at a time; answers the seconds it took."""
    shared = iter(numbers)

    async def lane() -> None:
        for number in shared:
            await call(number)

    began = time.perf_counter()
    await asyncio.gather(*[lane() for _ in range(lanes)])
    return time.perf_counter() - began


def percentile(values: list[float], share: float) -> float:
    """The value below which that share of them lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def rss_mb() -> float:
    """The memory this process holds now, in MB; where the system does not tell, the most it ever held."""
    with contextlib.suppress(OSError):
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        return pages * resource.getpagesize() / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
