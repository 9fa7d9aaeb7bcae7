"""``holdfast run --reload``: workers that start again when the code of their app changes."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from holdfast.cli.code_check import Imported, Rehearsed
from holdfast.cli.file_stamps import Stamp, changed_files, stamps_of, told_file, with_folders, written_between
from holdfast.cli.supervisor import SIGNALS, Report, Supervisor, describe_exit, handling
from holdfast.clock import SystemClock

POLL_SECONDS: Final = 0.3
REHEARSAL_SECONDS: Final = 20.0
"""How long the replays of open executions may take: a body that never waits must not keep the worker from starting."""

LONGEST_LINE_BYTES: Final = 1 << 26
TOLD_UNFIT: Final = 10

T = TypeVar("T", Imported, Rehearsed)


class Reloader:
    """Keeps workers running with the code that is on the disk, until SIGTERM, Ctrl-C or a lost terminal.

    When a file of the app has changed, the workers stop gracefully, a process of its own imports the new code and
    replays open executions with it, and new workers start. Code that does not import is reported, and waits for the
    next change. ``workers`` makes a supervisor that has not run; ``check`` is the command that checks the code,
    ``check_home`` refuses a home. It never imports the user's code itself.
    """

    def __init__(
        self,
        check: Sequence[str],
        check_home: Callable[[str], None],
        workers: Callable[[], Supervisor],
        report: Report,
    ) -> None:
        self._check_command = check
        self._check_home = check_home
        self._workers = workers
        self._report = report
        self._stopping = asyncio.Event()
        self._checking: Process | None = None
        self._supervisor: Supervisor | None = None
        self._stamps: dict[str, Stamp] = {}
        self._here = Path.cwd()
        self._clock = SystemClock()

    async def run(self) -> None:
        """Check, start, and watch, until it is asked to stop and every process has ended."""
        with handling(SIGNALS, self._signalled):
            while not self._stopping.is_set():
                imports = await self._check()
                if self._stopping.is_set() or imports is None:
                    continue
                if imports:
                    await self._work()
                else:
                    await self._until_changed()

    def _signalled(self) -> None:
        if self._supervisor is not None and self._stopping.is_set():
            self._supervisor.signalled()
        elif self._supervisor is not None:
            self._supervisor.stop()
        self._stopping.set()
        if self._checking is not None:
            with contextlib.suppress(ProcessLookupError):
                self._checking.kill()

    # ── The check ───────────────────────────────────────────────────────────────────────────────────────────────────

    async def _check(self) -> bool | None:
        """Whether the code imports; ``None`` if a file was written meanwhile, so that nothing is known."""
        known = tuple(self._stamps)
        began = self._clock.now_ms()
        async with self._check_process() as process:
            found = await self._answer_of(process, Imported)
            if found is None:
                code = await process.wait()
                found = Imported(known, f"the process that imported the app ended with {describe_exit(code)}")
            stamps = stamps_of(found.files)
            self._stamps = stamps
            if self._stopping.is_set() or written_between(stamps.values(), began, self._clock.now_ms()):
                return None
            if found.error:
                self._stamps = stamps_of(with_folders({*found.files, *known}, self._here))
                self._report("import_failed", error=found.error)
                return False
            self._check_home(found.home)
            await self._tell_unfit(process)
        return True

    async def _tell_unfit(self, process: Process) -> None:
        try:
            async with asyncio.timeout(REHEARSAL_SECONDS):
                found = await self._answer_of(process, Rehearsed)
        except TimeoutError:
            self._report("not_replayed", error=f"it took longer than {REHEARSAL_SECONDS:g} s")
            return
        if self._stopping.is_set():
            return
        if found is None:
            self._report("not_replayed", error=describe_exit(await process.wait()))
        elif found.error:
            self._report("not_replayed", error=found.error)
        else:
            for each in found.unfit[:TOLD_UNFIT]:
                self._report("would_block", workflow=each.workflow, id=each.id, reason=each.reason)
            self._report("replayed", replayed=found.replayed, would_block=len(found.unfit), more=found.more)

    @contextlib.asynccontextmanager
    async def _check_process(self) -> AsyncGenerator[Process]:
        process = await asyncio.create_subprocess_exec(
            *self._check_command, stdin=PIPE, stdout=PIPE, process_group=0, limit=LONGEST_LINE_BYTES
        )
        self._checking = process
        try:
            yield process
        finally:
            self._checking = None
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def _answer_of(self, process: Process, kind: type[T]) -> T | None:
        assert process.stdout is not None
        line = await process.stdout.readline()
        return msgspec.json.decode(line, type=kind) if line.endswith(b"\n") else None

    # ── The work ────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _work(self) -> None:
        """Run workers until a file changes, or all shall stop."""
        self._supervisor = supervisor = self._workers()
        watch = asyncio.ensure_future(self._stop_when_changed(supervisor))
        try:
            await supervisor.keep()
        finally:
            self._supervisor = None
            watch.cancel()

    async def _stop_when_changed(self, supervisor: Supervisor) -> None:
        await self._until_changed()
        supervisor.stop()

    async def _until_changed(self) -> None:
        """Wait until a file has changed, and was not written any more for one look; or until all shall stop."""
        last = self._stamps
        while not self._stopping.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS):
                    await self._stopping.wait()
            now = stamps_of(self._stamps)
            changed = changed_files(self._stamps, now)
            if changed and now == last and not self._stopping.is_set():
                self._report("changed", files=[told_file(file, self._here) for file in changed])
                return
            last = now


def check_command(app: str, home: str | None) -> list[str]:
    """The command that checks the code of an app."""
    run = "from holdfast.cli.code_check import main; main()"
    return [sys.executable, "-c", run, app, *([] if home is None else [home])]
