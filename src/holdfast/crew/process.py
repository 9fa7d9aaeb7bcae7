"""A process of the crew, as its parent sees it: started, listened to, stopped and killed by its own pid."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Self

from holdfast.errors import ConfigurationError

STOP_SECONDS: Final = 15.0
LAST_WORDS: Final = 3

Said = dict[str, Any]


class Child:
    """A Python module in a process of its own, which says a JSON object per line on its standard output.

    It ends when its standard input does: by ``stop``, or because this process has died.
    """

    def __init__(self, name: str, process: Process, log: Path) -> None:
        self.name = name
        self.said: list[Said] = []
        self._process = process
        self._log = log
        self._over = False
        self._news = asyncio.Condition()
        self._listener = asyncio.create_task(self._listen())

    @classmethod
    async def start(cls, name: str, log: Path, module: str, *arguments: str, **environment: str) -> Self:
        """Run a module. ``name`` is for messages; standard error goes to ``log``."""
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
                process_group=0,  # Ctrl-C is for us alone; and a process that is stopped wakes if we are killed
            )
        return cls(name, process, log)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def __str__(self) -> str:
        return f"{self.name} (process {self.pid})"

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until this holds, asked after each line. Raises ``ConfigurationError`` if the process ends without."""
        async with self._news:
            await self._news.wait_for(lambda: self._over or holds())
        if not holds():
            raise ConfigurationError(f"{self} ended early: {self._last_words()}")

    async def heard(self, wanted: Callable[[Said], bool]) -> Said:
        """The first line that is ``wanted``, as soon as it is said. Raises what ``until`` raises."""
        await self.until(lambda: any(map(wanted, self.said)))
        return next(filter(wanted, self.said))

    async def fact(self, name: str) -> Any:
        """The value of the first line that has this key. Raises what ``until`` raises."""
        return (await self.heard(lambda said: name in said))[name]

    async def ended(self) -> int:
        """Its exit status; minus the signal's number if it was killed. Every line has been heard by then."""
        status = await self._process.wait()
        await asyncio.wait((self._listener,))
        return status

    def send(self, number: signal.Signals) -> None:
        """Send it a signal, if it still runs."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    def kill(self) -> None:
        """``kill -9``."""
        self.send(signal.SIGKILL)

    async def stop(self) -> None:
        """Ask it to end, and wait; one that does not listen is killed."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await self.ended()
        except TimeoutError:
            self.kill()
            await self.ended()

    async def _listen(self) -> None:
        assert self._process.stdout is not None
        try:
            async for line in self._process.stdout:
                await self._note(json.loads(line))
        finally:
            self._over = True
            await self._note()

    async def _note(self, *said: Said) -> None:
        async with self._news:
            self.said += said
            self._news.notify_all()

    def _last_words(self) -> str:
        words = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return " ⏎ ".join(words[-LAST_WORDS:])
