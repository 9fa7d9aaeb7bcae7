"""``holdfast run --reload``: one worker, started again whenever a source file of the project changes. For development.

This process imports none of the user's code. The end of its standard input tells the worker that this process is gone.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from holdfast.cli.supervisor import SIGNALS, describe_exit

LOOK_EVERY_SECONDS: Final = 0.5
AGAIN_SECONDS: Final = 1.0
LEFT_OUT: Final = frozenset({"site-packages", "node_modules", "__pycache__"})

Report = Callable[..., None]


def sources(folder: Path) -> Iterator[Path]:
    """The Python files below a folder; hidden folders and virtual environments are left out, links are not followed."""
    for root, folders, files in os.walk(folder):
        folders[:] = [
            each
            for each in folders
            if not each.startswith(".") and each not in LEFT_OUT and not Path(root, each, "pyvenv.cfg").exists()
        ]
        yield from (Path(root, file) for file in files if file.endswith(".py"))


def seen(folder: Path) -> dict[Path, tuple[int, int, int]]:
    """What tells whether a file was changed: its time, its size and its inode. One that vanishes is left out."""
    found: dict[Path, tuple[int, int, int]] = {}
    for path in sources(folder):
        try:
            there = path.stat()
        except OSError:
            continue
        found[path] = there.st_mtime_ns, there.st_size, there.st_ino
    return found


def changes(before: Mapping[Path, object], now: Mapping[Path, object]) -> list[Path]:
    """The files that were changed, made or removed."""
    return sorted(path for path in before.keys() | now.keys() if before.get(path) != now.get(path))


class Reloader:
    """Keeps one worker on the code as it is now, until SIGTERM or Ctrl-C. ``check`` is a command that tells which open
    executions the new code would block; it runs in a process of its own before a worker with new code starts.
    """

    def __init__(
        self, command: Sequence[str], check: Sequence[str], folder: Path, patience_seconds: float, report: Report
    ) -> None:
        self._command = command
        self._check = check
        self._folder = folder
        self._patience_seconds = patience_seconds
        self._report = report
        self._stop = asyncio.Event()
        self._seen: dict[Path, tuple[int, int, int]] = {}
        self._process: Process | None = None

    async def run(self) -> None:
        """Return when the worker has ended, after the request to stop."""
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self._signalled)
        try:
            self._seen = seen(self._folder)
            while not self._stop.is_set():
                await self._work_once()
                if not self._stop.is_set():
                    await self._run_to_the_end(self._check)
        finally:
            for number in SIGNALS:
                loop.remove_signal_handler(number)

    def _signalled(self) -> None:
        if self._stop.is_set() and self._process is not None and self._process.returncode is None:
            self._process.kill()
        self._stop.set()

    async def _work_once(self) -> None:
        """One worker, until the code changes. One that ends by itself, as it could not import it, is not replaced."""
        process = await self._start(self._command)
        ended = asyncio.ensure_future(process.wait())
        told = False
        try:
            while not self._stop.is_set() and not await self._has_changed():
                if ended.done() and not told:
                    told = True
                    self._report("waiting", reason=describe_exit(ended.result()))
                if told and ended.result() < 0:
                    await self._pause(AGAIN_SECONDS)
                    return
        finally:
            await self._end(process, ended)

    async def _end(self, process: Process, ended: asyncio.Future[int]) -> None:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
            try:
                await asyncio.wait_for(asyncio.shield(ended), self._patience_seconds)
            except TimeoutError:
                process.kill()
        await ended
        self._process = None

    async def _has_changed(self) -> bool:
        await self._pause(LOOK_EVERY_SECONDS)
        now = seen(self._folder)  # nothing else waits on this loop
        changed = changes(self._seen, now)
        self._seen = now
        if changed:
            self._report("changed", files=[str(path.relative_to(self._folder)) for path in changed[:5]])
        return bool(changed)

    async def _pause(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._stop.wait(), seconds)
        except TimeoutError:
            return

    async def _run_to_the_end(self, command: Sequence[str]) -> None:
        process = await self._start(command)
        ended = asyncio.ensure_future(process.wait())
        stopped = asyncio.ensure_future(self._stop.wait())
        await asyncio.wait((ended, stopped), timeout=self._patience_seconds, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if not ended.done():
            process.kill()
        await ended
        self._process = None

    async def _start(self, command: Sequence[str]) -> Process:
        # A process group of its own, as for every worker: Ctrl-C reaches this process only.
        self._process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, process_group=0)
        return self._process


def check_command(app: str, home: str | None) -> list[str]:
    """The command that tells which open executions the code would block."""
    return [sys.executable, "-m", "holdfast.cli.reload_check", app, *([] if home is None else [home])]
