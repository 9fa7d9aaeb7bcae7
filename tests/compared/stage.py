"""Where a schedule is played: simulated processes in virtual time, once with naive code in them and once with ours."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from tests.compared.naive import Store

from holdfast.app import App
from holdfast.kernel.limits import Limits
from holdfast.testing import FaultsAt, Ledger, Process, World, run_virtual
from holdfast.testing.faults import FailBefore
from holdfast.testing.world import Database, swift


class Line(FaultsAt):
    """A process's way to its store, which fails when it is told to."""

    def __init__(self, faults=None):
        super().__init__(faults)
        self.failing = 0
        self.writes = 0

    def on_write(self, number):
        self.writes = number
        if self.failing > 0:
            self.failing -= 1
            return FailBefore()
        return super().on_write(number)


class Stage:
    """What a schedule is given: processes, ``store`` and ``objects`` of naive code, and what the world has ``seen``."""

    def __init__(self, store: Store, seen: list[Any]) -> None:
        self.store = store
        self.objects: dict[str, Any] = {}
        self.seen = seen
        self.lines: list[Line] = []
        self.world: World

    async def boot(self, faults=None, *, worker: bool = False) -> Process:
        """Start a process. ``process.user`` is what was built in it."""
        line = Line(faults)
        self.lines.append(line)
        process = self.world.admit(line)
        process.is_client = not worker
        await process.start()
        return process

    def fail_writes(self, count: int) -> None:
        """Let so many of the next writes of each process fail."""
        self.store.failing = count
        for line in self.lines:
            line.failing = count


Build = Callable[[App, Stage], Any]
"""Puts the code to compare into a process's app (naive code needs none), and answers what the schedule calls."""

Schedule = Callable[[Stage], Coroutine[Any, Any, Any]]


def play(schedule: Schedule, build: Build, database: Database | None = None) -> Any:
    """Run a schedule with this code in every process; answers what the schedule answers."""

    async def main() -> Any:
        stage = Stage(Store(), [])

        def built(app: App, _ledger: Ledger) -> Any:
            return build(app, stage)

        stage.world = World(built, limits=swift(Limits()), database=database)
        try:
            answer = await schedule(stage)
            assert stage.world.violations() == []
            return answer
        finally:
            await stage.world.close()

    return run_virtual(main)


def begin(process: Process, *args: Any) -> asyncio.Task[Any]:
    """Let a process do what was built in it, meanwhile."""
    return asyncio.ensure_future(process.call(lambda: process.user(*args)))


def do(process: Process, what: str, *args: Any) -> asyncio.Task[Any]:
    """The same, if several things were built in it."""
    return asyncio.ensure_future(process.call(lambda: getattr(process.user, what)(*args)))


async def told(process: Process, *args: Any) -> Any:
    """What a process answers, or the name of its error."""
    return await outcome(begin(process, *args))


async def outcome(task: asyncio.Task[Any]) -> Any:
    """What came of it, or the name of its error."""
    try:
        return await task
    except Exception as error:
        return type(error).__name__
