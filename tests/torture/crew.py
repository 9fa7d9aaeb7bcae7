"""The run: some workers and two clients on one file, to which the deck's faults happen, until all have happened.

Then the world heals: no more faults, and everything that was accepted must come to its end within a time.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, Final

from msgspec import Struct
from tests.torture.deck import Deck
from tests.torture.plants import PLANT
from tests.torture.points import Fault
from tests.torture.process import Process
from tests.torture.worker import CHECK_CHILDREN_MS

CLIENTS: Final = 2
OUTSIDE_SHARE: Final = 0.15
"""How many lives are ended from outside, at a random time, instead of at a point."""
CLIENT_SPARED_SHARE: Final = 0.7
"""The same of clients: they also have work to do, and few points."""
OUTSIDE_SECONDS: Final = {"worker": (0.2, 3.0), "client": (3.0, 12.0)}
STALL_SHARE: Final = 0.25
"""How many of those are first stopped, for longer than their leases."""
DRAIN_SHARE: Final = 0.25
"""How many of those are asked to end instead of being killed."""
PATIENCE_SECONDS: Final = 6.0
"""A process that has not met its fault by then is killed from outside."""
LAST_WORDS_SECONDS: Final = 20.0
IMPATIENT: Final = {CHECK_CHILDREN_MS: "1500"}


class Options(Struct, frozen=True, kw_only=True):
    """What a run is to be. ``rate`` executions begin per second; ``seconds`` bound the faults, ``healing`` the end."""

    seed: int
    kills: int
    zombies: int
    workers: int
    executions: int
    rate: float
    seconds: float
    healing: float
    plant: str = ""


class Crew:
    """Keeps the processes of one run alive, as far as that is meant."""

    def __init__(self, options: Options, folder: Path) -> None:
        self.options = options
        self.random = Random(options.seed)
        self.deck = Deck(self.random, options.kills, options.zombies)
        self.counts: Counter[str] = Counter()
        self.complaints: list[str] = []
        self._folder = folder
        self._processes: dict[str, Process] = {}
        self._healing = self._over = False
        self._epoch = time.time() + 1.0
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        """Since the run began."""
        return time.monotonic() - self._began

    @property
    def calm(self) -> bool:
        """Whether nothing at all is to happen: then nothing may be late either."""
        return not (self.options.kills or self.options.zombies)

    def started(self) -> int:
        """How many executions have begun by now, at most."""
        return int(max(0.0, time.time() - self._epoch) * self.options.rate)

    async def run(self) -> None:
        (self._folder / "stderr").mkdir()
        keepers = [asyncio.create_task(self._keep("worker", place)) for place in range(self.options.workers)]
        clients = [asyncio.create_task(self._keep("client", place)) for place in range(CLIENTS)]
        try:
            await self._torture()
            await self._heal(clients)
            self._over = True
            await self._end("worker")
            with suppress(TimeoutError):
                await asyncio.wait_for(asyncio.gather(*keepers), LAST_WORDS_SECONDS)
        finally:
            self._over = True
            for task in (*keepers, *clients):
                task.cancel()
            for process in self._processes.values():
                self.complaints.append(f"a {process.role} had to be killed at the end: {_tail(process.stderr)}")
                process.kill()
            for process in list(self._processes.values()):
                await process.ended()

    async def _torture(self) -> None:
        while not (self.deck.done and self.started() >= self.options.executions):
            if self.seconds > self.options.seconds:
                self.complaints.append(f"after {self.seconds:.0f} s these had not happened: {self.deck.missing}")
                return
            await asyncio.sleep(0.1)

    async def _heal(self, clients: list[asyncio.Task[None]]) -> None:
        self._healing = True
        self.counts["torture_seconds"] = round(self.seconds)
        await asyncio.gather(*(process.disarm() for process in self._processes.values()))
        await self._end("client")
        began = self.seconds
        _, late = await asyncio.wait(clients, timeout=self.options.healing)
        if late:
            self.complaints.append(f"{self.options.healing:.0f} s after the last fault not everything had ended")
            for name in [name for name in self._processes if name.startswith("client")]:
                self._processes.pop(name).kill()
        self.counts["healing_ms"] = round((self.seconds - began) * 1000)

    async def _end(self, role: str) -> None:
        await asyncio.gather(*(process.end() for process in self._processes.values() if process.role == role))

    # ── One place in the crew ───────────────────────────────────────────────────────────────────────────────────────

    async def _keep(self, role: str, place: int) -> None:
        arguments = [str(place), str(self._epoch), str(self.options.rate)] if role == "client" else []
        while not self._over:
            process = Process(role, arguments, self._fate(role), self._folder, self._heard)
            await process.start({PLANT: self.options.plant} | ({} if self.calm else IMPATIENT))
            self._processes[f"{role}-{place}"] = process
            self.counts["lives"] += 1
            watch = asyncio.create_task(self._end_from_outside(process))
            if self._healing and role == "client":
                await process.end()
            status = await process.ended()
            watch.cancel()
            if self._processes.get(f"{role}-{place}") is process:
                del self._processes[f"{role}-{place}"]
            self.deck.give_back(process.faults)
            if status not in {0, -signal.SIGKILL} or (status == 0 and not process.asked_to_end):
                self.complaints.append(f"a {role} ended with status {status}: {_tail(process.stderr)}")
            if role == "client" and self._healing and status == 0:
                return

    def _fate(self, role: str) -> list[Fault]:
        spared = CLIENT_SPARED_SHARE if role == "client" else OUTSIDE_SHARE
        if self._healing or self.random.random() < spared:
            return []
        living = self._processes.values()
        stopping = sum(
            any(fault.action == "stop" for fault in each.faults) or not each.awake.is_set() for each in living
        )
        may_stop = role == "worker" and stopping < self.options.workers - 1
        return self.deck.deal(client=role == "client", may_stop=may_stop)

    async def _end_from_outside(self, process: Process) -> None:
        """What comes over a process besides its own faults: it is stalled, drained, or killed at a random time."""
        if self.calm:
            return
        drain = not process.faults and process.role == "worker" and self.random.random() < DRAIN_SHARE
        stall = process.role == "worker" and self.random.random() < STALL_SHARE
        await asyncio.sleep(PATIENCE_SECONDS if process.faults else self.random.uniform(*OUTSIDE_SECONDS[process.role]))
        await process.awake.wait()
        if stall and not self._healing:
            self.counts["outside_stops"] += 1
            await process.stall()
            await asyncio.sleep(1.0)
        if self._healing:
            return
        if drain:
            self.counts["drains"] += 1
            await process.end()
        else:
            self.counts["outside_kills"] += 1
            process.kill()

    # ── What they say ───────────────────────────────────────────────────────────────────────────────────────────────

    def _heard(self, process: Process, said: dict[str, Any]) -> None:
        match said:
            case {"hit": _}:
                self.deck.hit(process.faults.pop(0))
            case {"event": str(event)}:
                self.counts[event] += 1
                if event == "fenced" and process.resumed_unfenced:
                    process.resumed_unfenced = False
                    self.counts["zombies_fenced"] += 1
                if event in {"turn_failed", "blocked", "unhandled"}:
                    self.complaints.append(f"{event}: {said}")
            case _:
                pass


def _tail(path: Path) -> str:
    return path.read_text(errors="replace")[-2_000:] if path.exists() else ""
