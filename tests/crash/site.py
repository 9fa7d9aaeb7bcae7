"""Stories of several processes, one after the other: at each of their writes one may die, or be in doubt.

The user asks again when a process dies, as users do.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from holdfast.errors import StoreUnavailable
from holdfast.items import HEAD
from holdfast.testing import FaultsAt, ProcessDied, World, run_virtual
from holdfast.testing.faults import CrashAfter, CrashBefore, FailBefore, LoseAnswer
from holdfast.testing.oracles import unrest
from holdfast.testing.world import swift

FAULTS = (CrashBefore(), CrashAfter(), LoseAnswer(), FailBefore())
VACANT_SECONDS = 0.7
MOST_TRIES = 50
PATIENCE_SECONDS = 100_000


class Site:
    """One place where a worker runs, and is replaced when it dies; the faults are those of one of its processes."""

    limits = None

    def __init__(self, victim=-1, plan=None):
        self.victim, self.plan = victim, plan or FaultsAt()
        self.place = None

    def build(self, app, ledger):
        """Declare the code of a new process, as it is now."""
        raise NotImplementedError

    async def story(self):
        """What happens; answers what is told of it."""
        raise NotImplementedError

    async def play(self):
        self.world = World(self.build, limits=swift(self.limits))
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                self.told = await self.story()
                await self.world.quiet()
                await self.close_down()
            self.items = await self.world.database.items()
            self.wrong = [*self.world.violations(), *unrest(self.items)]
            self.writes = [each.wire.writes for each in self.world.processes]
            self.faults = self.world.counts.counts.total()
        finally:
            await self.world.close()

    def open_up(self):
        """Have a worker here from now on."""
        self.place = asyncio.create_task(self._occupy())

    async def close_down(self):
        """Have none here any more."""
        if self.place is None:
            return
        self.place.cancel()
        await asyncio.gather(self.place, return_exceptions=True)
        self.place, process = None, self.world.processes[-1]
        if process.is_open:
            with suppress(ProcessDied):
                await process.stop()
        process.crash()

    async def ask(self, work):
        """``work(app)`` in the process that is here, and in the next one if it dies meanwhile."""
        for _ in range(MOST_TRIES):
            process = self.world.processes[-1] if self.world.processes else None
            if process is None or not process.is_open:
                await asyncio.sleep(VACANT_SECONDS)
                continue
            try:
                return await process.call(lambda: work(process.app))  # noqa: B023 - it is awaited here
            except (ProcessDied, StoreUnavailable):
                await asyncio.sleep(VACANT_SECONDS)
        raise AssertionError("no process could do it")

    async def reaches(self, status):
        """Wait until the one execution has this status."""
        while True:
            heads = [each for each in await self.world.database.items() if each.sort == HEAD]
            if any(each.partition.startswith("wf#") and each.status == status for each in heads):
                return
            await asyncio.sleep(0.5)

    async def _occupy(self):
        while True:
            number = len(self.world.processes)
            process = self.world.admit(self.plan if number == self.victim else FaultsAt())
            starting = asyncio.create_task(self._start(process))
            await asyncio.wait((process.died,))
            starting.cancel()
            await asyncio.sleep(VACANT_SECONDS)

    async def _start(self, process):
        try:
            await process.start()
        except (ProcessDied, StoreUnavailable):
            process.crash()


def at_every_write(make):
    """Each story of ``make(victim, plan)``: undisturbed first, then with each fault at each write of each process."""
    base = _played(make(-1, FaultsAt()))
    yield "undisturbed", base
    points = happened = 0
    for victim, writes in enumerate(base.writes):
        for number in range(1, writes + 1):
            for fault in FAULTS:
                site = _played(make(victim, FaultsAt({number: fault})))
                points, happened = points + 1, happened + bool(site.faults)
                yield f"{fault} at write {number} of process {victim + 1}", site
    print(f"{points} points, {happened} faults")
    assert happened > points // 2, "a fault that does not happen proves nothing"


def _played(site):
    run_virtual(site.play)
    return site
