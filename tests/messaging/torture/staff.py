"""The workers of a run: hired with a point at which each is to die, and replaced when they have."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from tests.messaging.torture.points import POINTS, deliver_again
from tests.torture.process import ROOT

from holdfast.items import Item
from holdfast.ports import Store


class Staff:
    """Keeps so many workers alive. ``deaths`` has the points that are still to kill one."""

    def __init__(
        self, folder: Path, store: Store, kills: int, workers: int, random: Random, given: dict[str, Any]
    ) -> None:
        self.folder = folder
        self._store = store
        self.deaths = [POINTS[number % len(POINTS)] for number in range(kills)]
        random.shuffle(self.deaths)
        self.counts: Counter[str] = Counter()
        self.attempts: Counter[str] = Counter()
        self.delivered: set[tuple[str, str]] = set()
        self.complaints: list[str] = []
        self.killed = asyncio.Event()
        self.over = False
        self._random = random
        self._given = given
        self._keepers = [asyncio.create_task(self._keep()) for _ in range(workers)]
        self._processes: set[asyncio.subprocess.Process] = set()
        self._working: set[asyncio.subprocess.Process] = set()
        self._repeats: list[asyncio.Task[None]] = []

    async def _keep(self) -> None:
        while not self.over:
            point = self.deaths.pop() if self.deaths else None
            status = await self._employ(point)
            if status == -signal.SIGKILL and point is not None:
                self.counts[f"killed {point}"] += 1
                self.counts["kills"] += 1
                self.killed.set()
            elif point is not None:
                self.deaths.append(point)
            if status not in {0, -signal.SIGKILL} or (status == -signal.SIGKILL and point is None):
                self.complaints.append(f"a worker ended with status {status}")
                return

    async def _employ(self, point: str | None) -> int:
        faults: Sequence[Any] = []
        if point is not None:
            kind, moment = point.split(":")
            faults = [(kind, moment, "kill", 1)]
        self.counts["workers"] += 1
        with (self.folder / f"stderr-{self.counts['workers']}.txt").open("wb") as stderr:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "tests.messaging.torture.worker",
                json.dumps({**self._given, "faults": faults}),
                cwd=ROOT,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=stderr,
            )
        self._processes.add(process)
        assert process.stdout is not None
        async for line in process.stdout:
            self._heard(json.loads(line), process)
        status = await process.wait()
        self._processes.discard(process)
        return status

    def _heard(self, said: dict[str, Any], process: asyncio.subprocess.Process) -> None:
        match said:
            case {"attempt": str(key)}:
                self.attempts[key] += 1
            case {"delivered": [str(partition), str(sort)]}:
                self.delivered.add((partition, sort))
            case {"repeat": [str(partition), str(sort), str(body)]}:
                if (partition, sort) not in self.delivered:
                    self.complaints.append(f"{sort} of {partition} was to be repeated before it was delivered")
                self._repeats.append(asyncio.create_task(self._repeat(Item(partition, sort, body=body.encode()))))
            case {"working": _} if self.over:
                process.send_signal(signal.SIGTERM)
            case {"working": _}:
                self._working.add(process)
            case {"event": str(event)}:
                self.counts[event] += 1
                if event not in {"fenced", "taken over"}:
                    self.complaints.append(str(said))
            case _:
                pass

    async def _repeat(self, message: Item) -> None:
        if await deliver_again(self._store, message, self._random):
            self.counts["doubled"] += 1

    async def repeated(self) -> None:
        """Wait until whatever is to be delivered again has been."""
        while late := [task for task in self._repeats if not task.done()]:
            await asyncio.wait(late)

    async def end(self) -> None:
        """Ask all to finish and go."""
        self.over = True
        for process in self._working & self._processes:  # the others have no handler yet: they are asked when they have
            process.send_signal(signal.SIGTERM)
        _, late = await asyncio.wait(self._keepers, timeout=30)
        if late:
            self.complaints.append(f"{len(late)} workers did not end")
        await self.dismiss()

    async def dismiss(self) -> None:
        """Whatever happens, nobody stays behind."""
        self.over = True
        for process in list(self._processes):
            process.kill()
        for task in (*self._keepers, *self._repeats):
            task.cancel()
        await asyncio.gather(*self._keepers, *self._repeats, return_exceptions=True)
