"""A worker of a story, as the story sees it: a real process, listened to, stopped and killed by its own pid."""

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

import msgspec

from holdfast.chaos.points import PART, Part
from holdfast.errors import ConfigurationError

CODE: Final = "holdfast.chaos.worker:app"
STOP_SECONDS: Final = 10.0
RESUME_SECONDS: Final = 0.3
LAST_WORDS: Final = 3

Said = dict[str, Any]


class Worker:
    """``holdfast run`` in a process of its own. It ends when its standard input does, so it does not outlive us."""

    def __init__(self, name: str, process: Process, log: Path) -> None:
        self.name = name
        self.said: list[Said] = []
        self._process = process
        self._log = log
        self._over = False
        self._news = asyncio.Condition()
        self._listener = asyncio.create_task(self._listen())

    @classmethod
    async def start(cls, name: str, part: Part, code: str) -> Self:
        """Start a worker with a part to play, and return when it is at work."""
        log = Path(part.folder) / f"worker-{name}.log"
        command = (sys.executable, "-m", "holdfast.cli", "run", code, "--supervised", "--json", "--grace", "5s")
        environment = {**os.environ, PART: msgspec.json.encode(part).decode()}
        with log.open("wb") as errors:
            # In a process group of its own: Ctrl-C is for us alone, and a stopped one is woken if we are killed.
            process = await asyncio.create_subprocess_exec(
                *command, stdin=PIPE, stdout=PIPE, stderr=errors, env=environment, process_group=0
            )
        worker = cls(name, process, log)
        try:
            await worker.heard(lambda said: said.get("event") == "ready")
        except BaseException:
            worker.kill()
            await worker.stop()
            raise
        return worker

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def __str__(self) -> str:
        return f"worker {self.name} (process {self.pid})"

    async def heard(self, wanted: Callable[[Said], bool]) -> Said:
        """What it said that is ``wanted``, when it has. Raises ``ConfigurationError`` if it ends without."""
        async with self._news:
            await self._news.wait_for(lambda: self._over or any(map(wanted, self.said)))
        for said in self.said:
            if wanted(said):
                return said
        raise ConfigurationError(f"{self} ended early: {self._last_words()}")

    async def struck(self) -> Said:
        """What it says when its fault happens."""
        return await self.heard(lambda said: "struck" in said)

    async def ended(self) -> int:
        """Its exit status; minus the signal's number if it was killed. All it has said has been heard."""
        status = await self._process.wait()
        await asyncio.wait((self._listener,))
        return status

    def kill(self) -> None:
        """``kill -9``."""
        self._send(signal.SIGKILL)

    async def resume(self) -> None:
        """SIGCONT, until it says that it goes on: a stop signal may arrive after it."""
        while not any("resumed" in said for said in self.said):
            self._send(signal.SIGCONT)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(RESUME_SECONDS):
                    await self.heard(lambda said: "resumed" in said)

    async def stop(self) -> None:
        """Ask it to end, and wait; one that does not listen, or is stopped, is killed."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        if self._is_stopped():
            self.kill()
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await self.ended()
        except TimeoutError:
            self.kill()
            await self.ended()

    def _is_stopped(self) -> bool:
        return any("struck" in said for said in self.said) and not any("resumed" in said for said in self.said)

    def _send(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    async def _listen(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            await self._note(json.loads(line))
        await self._note(None)

    async def _note(self, said: Said | None) -> None:
        async with self._news:
            if said is None:
                self._over = True
            else:
                self.said.append(said)
            self._news.notify_all()

    def _last_words(self) -> str:
        words = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return " ⏎ ".join(words[-LAST_WORDS:])
