"""Kills environments at random while they are at work, and plans the faults of ``faults.py``."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections import Counter
from pathlib import Path
from random import Random

from examples.on_aws.emulator import Emulator
from examples.on_aws.faults import FOLDERS

LOOK_SECONDS = 0.2


class Chaos:
    """One run's faults; ``folder`` is what environments look into."""

    def __init__(self, emulator: Emulator, folder: Path, random: Random) -> None:
        self.folder = folder
        self.killed = 0
        self._emulator = emulator
        self._random = random
        for name in FOLDERS:
            (folder / name).mkdir(parents=True)

    def plan(self, fault: str, times: int) -> None:
        """Let this happen so many times."""
        for number in range(times):
            (self.folder / "planned" / f"{fault}@{number}").touch()

    @property
    def happened(self) -> Counter[str]:
        """How often each fault that was planned has happened."""
        return Counter(each.name.partition("@")[0] for each in (self.folder / "happened").iterdir())

    @property
    def seen(self) -> Counter[str]:
        """What environments have told."""
        lines = self.folder / "seen"
        return Counter(lines.read_text().splitlines() if lines.exists() else ())

    async def kill_at_random(self, times: int, every_seconds: float) -> None:
        """``kill -9`` so many environments in the midst of their work, some time apart."""
        while self.killed < times:
            await asyncio.sleep(self._random.uniform(0.5, 1.5) * every_seconds)
            while (victim := await asyncio.to_thread(self._busy)) is None:
                await asyncio.sleep(LOOK_SECONDS)
            with contextlib.suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)
                self.killed += 1
            (self.folder / "busy" / str(victim)).unlink(missing_ok=True)

    def _busy(self) -> int | None:
        """An environment that handles an event now. Those are killed that the emulator has started, and no others."""
        marked = {int(each.name) for each in (self.folder / "busy").iterdir()}
        living = set(self._emulator.environments()) if marked else set[int]()
        for gone in marked - living:
            (self.folder / "busy" / str(gone)).unlink(missing_ok=True)
        busy = sorted(marked & living)
        return self._random.choice(busy) if busy else None
