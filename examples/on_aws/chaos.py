"""Kills environments: at random while they are at work, and at the named points of ``faults.py``."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections import Counter
from pathlib import Path
from random import Random

from examples.on_aws.emulator import Emulator
from examples.on_aws.faults import FOLDERS, POINTS

LOOK_SECONDS = 0.02


class Chaos:
    """One run's faults; ``folder`` is what environments look into."""

    def __init__(self, emulator: Emulator, folder: Path, random: Random) -> None:
        self.folder = folder
        self.killed = 0
        self._emulator = emulator
        self._random = random
        for name in FOLDERS:
            (folder / name).mkdir(parents=True)

    def plan(self, times: int) -> None:
        """So many deaths at each point."""
        for name in POINTS:
            for number in range(times):
                (self.folder / "planned" / f"{name}@{number}").touch()

    @property
    def died(self) -> Counter[str]:
        """How many environments died at each point."""
        return Counter(each.name.partition("@")[0] for each in (self.folder / "died").iterdir())

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
        busy = sorted(marked & set(self._emulator.environments())) if marked else []
        return self._random.choice(busy) if busy else None
