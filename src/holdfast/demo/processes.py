"""The other processes of the demonstration: started beside this one, told apart by pid, and stopped with it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path
from typing import Any, Final, Self

from holdfast.errors import ConfigurationError

START_SECONDS: Final = 30.0
STOP_SECONDS: Final = 15.0


class Child:
    """One process. It ends when its standard input does: by ``stop``, or because this process has died."""

    def __init__(self, process: Process, log: Path) -> None:
        self._process = process
        self._log = log

    @classmethod
    async def start(cls, log: Path, module: str, *arguments: str, **environment: str) -> Self:
        """Run a module; what it says on standard error goes to ``log``."""
        with log.open("wb") as errors:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                module,
                *arguments,
                stdin=PIPE,
                stdout=PIPE,
                stderr=errors,
                env={**os.environ, **environment},
                process_group=0,  # Ctrl-C is for us alone; we stop the others in order
            )
        return cls(process, log)

    async def line(self) -> str:
        """Its next line on standard output. Raises ``ConfigurationError`` with its last words if it has ended."""
        assert self._process.stdout is not None
        async with asyncio.timeout(START_SECONDS):
            line = await self._process.stdout.readline()
        if not line:
            words = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            raise ConfigurationError(f"a process of the demonstration ended early: {' ⏎ '.join(words[-3:])}")
        return line.decode().strip()

    async def stop(self) -> None:
        """Ask it to end, and wait; one that does not listen is killed."""
        with contextlib.suppress(ProcessLookupError):
            if self._process.stdin is not None:
                self._process.stdin.close()
            try:
                async with asyncio.timeout(STOP_SECONDS):
                    await self._drained()
            except TimeoutError:
                self._process.kill()
                await self._process.wait()

    async def _drained(self) -> None:
        assert self._process.stdout is not None
        while await self._process.stdout.read(65_536):
            pass
        await self._process.wait()


class Workers:
    """``holdfast run --workers``: two workers and their supervisor, which replaces the ones we kill."""

    def __init__(self, supervisor: Child) -> None:
        self._supervisor = supervisor
        self._pids: set[int] = set()
        self._changed = asyncio.Condition()
        self._listener = asyncio.create_task(self._listen())

    @classmethod
    async def start(cls, log: Path, home_url: str, count: int, **environment: str) -> Self:
        """Start them, and return when all are ready."""
        options = ("--workers", str(count), "--home", home_url, "--grace", "5s", "--json", "--supervised")
        supervisor = await Child.start(log, "holdfast.cli", "run", "holdfast.demo.shop:app", *options, **environment)
        workers = cls(supervisor)
        try:
            async with asyncio.timeout(START_SECONDS):
                await workers.ready(count)
        except BaseException:
            await workers.stop()
            raise
        return workers

    @property
    def pids(self) -> frozenset[int]:
        """The processes that are at work now."""
        return frozenset(self._pids)

    async def ready(self, count: int) -> None:
        """Wait until so many are at work. Raises what ended the supervisor, if it did."""
        async with self._changed:
            await self._changed.wait_for(lambda: len(self._pids) >= count or self._listener.done())
        if self._listener.done():
            await self._listener

    async def kill(self, pid: int) -> int:
        """``kill -9``, which gives it no chance to say anything. Answers the process that has taken its place."""
        others = self._pids - {pid}
        os.kill(pid, signal.SIGKILL)
        self._pids.discard(pid)
        await self.ready(len(others) + 1)
        (successor,) = self._pids - others
        return successor

    async def stop(self) -> None:
        """Stop them gracefully."""
        self._listener.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await self._listener
        await self._supervisor.stop()

    async def _listen(self) -> None:
        try:
            while True:
                event: dict[str, Any] = json.loads(await self._patient_line())
                if event["event"] == "ready":
                    self._pids.add(event["pid"])
                    async with self._changed:
                        self._changed.notify_all()
        finally:
            async with self._changed:
                self._changed.notify_all()

    async def _patient_line(self) -> str:
        while True:
            with contextlib.suppress(TimeoutError):
                return await self._supervisor.line()
