"""One process of the run, as its parent sees it: started, listened to, resumed, ended. Always by its own pid."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from tests.torture.points import FAULTS, Fault
from tests.torture.shop import FOLDER, LIMITS

ROOT: Final = Path(__file__).parents[2]
STOPPED_SECONDS: Final = LIMITS.lease_ms / 1000 + 0.4
"""How long a zombie stays stopped: its leases have lapsed, and others have had the time to take over."""

Heard = Callable[["Process", dict[str, Any]], None]


class Process:
    """A worker or a client. ``faults`` are those that it still has before it."""

    def __init__(
        self, role: str, arguments: Sequence[str], faults: Sequence[Fault], folder: Path, heard: Heard
    ) -> None:
        self.role = role
        self.faults = list(faults)
        self.asked_to_end = self.resumed_unfenced = False
        self.awake = asyncio.Event()
        self.awake.set()
        self.stderr = folder / "stderr" / f"{role}-{os.urandom(4).hex()}.txt"
        self._arguments = arguments
        self._folder = folder
        self._heard = heard
        self._opened = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self, environment: Mapping[str, str]) -> None:
        faults = json.dumps(self.faults)
        with self.stderr.open("wb") as stderr:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                f"tests.torture.{self.role}",
                *self._arguments,
                cwd=ROOT,
                env={**os.environ, **environment, FOLDER: str(self._folder), FAULTS: faults},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=stderr,
            )
        self._tasks.append(asyncio.create_task(self._listen()))

    async def _listen(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            said = json.loads(line)
            if "working" in said:
                self._opened.set()
            elif said.get("action") == "stop":
                self.awake.clear()
                self._tasks.append(asyncio.create_task(self._resume()))
            elif "resumed" in said:
                self.resumed_unfenced = True
                self.awake.set()
            self._heard(self, said)

    async def _resume(self) -> None:
        await asyncio.sleep(STOPPED_SECONDS)
        while not self.awake.is_set():  # a stop signal may arrive after it is resumed: then once more
            self.send(signal.SIGCONT)
            with suppress(TimeoutError):
                await asyncio.wait_for(self.awake.wait(), 0.3)

    def send(self, number: signal.Signals) -> None:
        """Send a signal, if it still lives."""
        with suppress(ProcessLookupError):
            self._process.send_signal(number)

    async def end(self) -> None:
        """Ask it to finish what it does and go."""
        self.asked_to_end = True
        await self._send_once_open(signal.SIGTERM)

    async def disarm(self) -> None:
        """Nothing more is to happen to it."""
        if self.faults:
            await self._send_once_open(signal.SIGUSR1)

    async def stall(self) -> None:
        """Stop it from outside, wherever it is, a transaction included, and resume it when its leases have lapsed."""
        self.send(signal.SIGSTOP)
        await asyncio.sleep(STOPPED_SECONDS)
        self.send(signal.SIGCONT)

    async def _send_once_open(self, number: signal.Signals) -> None:
        """Before that it has no handlers, and would die of it."""
        ended = asyncio.ensure_future(self._process.wait())
        opened = asyncio.ensure_future(self._opened.wait())
        await asyncio.wait((ended, opened), return_when=asyncio.FIRST_COMPLETED)
        ended.cancel()
        opened.cancel()
        if self._opened.is_set():
            self.send(number)

    async def ended(self) -> int:
        """Its exit status; minus the signal's number if it was killed."""
        status = await self._process.wait()
        if self._tasks:
            await asyncio.wait(self._tasks[:1])  # all it said has been heard
        for task in self._tasks[1:]:
            task.cancel()
        return status

    def kill(self) -> None:
        """End it now."""
        self.send(signal.SIGKILL)

    @property
    def pid(self) -> int:
        return self._process.pid
