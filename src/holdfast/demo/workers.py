"""The workers of the demonstration: ``holdfast run --workers``, whose supervisor replaces the ones that are killed."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Final, Self

from holdfast.crew.process import Child

START_SECONDS: Final = 30.0
COMMAND: Final = ("run", "holdfast.demo.shop:app", "--grace", "5s", "--json", "--supervised")


class Workers:
    """Some workers and their supervisor, a process of its own."""

    def __init__(self, supervisor: Child) -> None:
        self._supervisor = supervisor
        self._killed: set[int] = set()

    @classmethod
    async def start(cls, log: Path, home_url: str, count: int, **environment: str) -> Self:
        """Start them, and return when all are ready."""
        options = ("--workers", str(count), "--home", home_url)
        supervisor = await Child.start("the supervisor", log, "holdfast.cli", *COMMAND, *options, **environment)
        workers = cls(supervisor)
        try:
            async with asyncio.timeout(START_SECONDS):
                await supervisor.until(lambda: len(workers.pids) >= count)
        except BaseException:
            await workers.stop()
            raise
        return workers

    @property
    def pids(self) -> frozenset[int]:
        """The processes that are at work now."""
        ready = (said["pid"] for said in self._supervisor.said if said["event"] == "ready")
        return frozenset(ready) - self._killed

    async def kill(self, pid: int) -> int:
        """``kill -9``, which gives it no chance to say anything. Returns the process that has taken its place."""
        before = self.pids
        os.kill(pid, signal.SIGKILL)
        self._killed.add(pid)
        await self._supervisor.until(lambda: bool(self.pids - before))
        (successor,) = self.pids - before
        return successor

    async def stop(self) -> None:
        """Stop them gracefully."""
        await self._supervisor.stop()
