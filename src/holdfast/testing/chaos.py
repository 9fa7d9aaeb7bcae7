"""What happens to the processes of a swarm: they die, are stopped and resumed, shut down, lose their store, come back.

Everything is drawn from one generator: which faults are on and how strong, how many processes there are, and when each
fault strikes which process. ``heal`` ends it all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from random import Random
from typing import Any, Final

from msgspec.structs import replace

from holdfast.errors import StoreUnavailable
from holdfast.testing.faults import (
    Drain,
    Kill,
    Outage,
    RandomFaults,
    Rates,
    Stop,
    WrongClock,
)
from holdfast.testing.process import Process, ProcessDied
from holdfast.testing.world import World

FEWEST_PROCESSES: Final = 2
MOST_PROCESSES: Final = 4
LONGEST_PAUSE_LEASES: Final = 3
LONGEST_OUTAGE_LEASES: Final = 2
LONGEST_RESTART_LEASES: Final = 2
LONGEST_DELAY_LEASES: Final = 3
FARTHEST_CLOCK_MS: Final = 5_000
SLOW_SHARE: Final = 0.15
CALLED_SHARE: Final = 0.6
"""How many processes are invoked, in worlds with an exchange; the others stay."""

HARDEST: Final = Rates(
    fail_before=0.1,
    lose_answer=0.1,
    delay=0.3,
    crash=0.02,
    pause=0.02,
    fail_read=0.1,
    delay_read=0.2,
    lose_ring=0.5,
    double_ring=0.3,
    delay_ring=0.3,
    early_ring=0.3,
    tear_page=0.3,
)
"""The highest rate of each fault; every seed draws its share of it."""


class Chaos:
    """Draws what happens to the processes of ``world``, and does it."""

    def __init__(self, random: Random, world: World, lease_seconds: float, calls: Random | None = None) -> None:
        self.violations: list[str] = []
        self.processes = random.randint(FEWEST_PROCESSES, MOST_PROCESSES)
        # With wrong clocks timers are early or late, and leases seem to lapse too soon; no other harm is done (G9).
        self.clocks_are_right = random.random() < 0.7
        self.rates = _drawn(random, lease_seconds)
        self._calls = calls  # a generator of its own leaves worlds without invoked processes unchanged
        if calls is not None:
            early, torn = HARDEST.early_ring * calls.random(), HARDEST.tear_page * calls.random()
            self.rates = replace(self.rates, early_ring=early, tear_page=torn)
        self._seconds_between = random.choice((None, 10.0, 30.0))
        self._kinds = random.sample((Kill, Stop, Drain, Outage), k=random.randint(1, 4))
        self._random = random
        self._world = world
        self._lease_seconds = lease_seconds
        self._healed = False
        self._plans: list[RandomFaults] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._starting: set[asyncio.Task[None]] = set()

    def begin(self) -> None:
        """Let the processes start. From now on each one that is gone is replaced."""
        self._tasks += [asyncio.create_task(self._occupy()) for _ in range(self.processes)]

    def heal(self, outdated: Collection[Process] = ()) -> None:
        """No more faults: every process continues, except ``outdated`` ones, which shut down and are replaced."""
        self._healed = True
        for plan in self._plans:
            plan.rates, plan.down = Rates(), False
        for process in self._world.processes:
            process.resume()
        self._tasks += [asyncio.create_task(self._retire(process)) for process in outdated if not process.dead]

    async def end(self) -> None:
        """Shut all processes down gracefully, without replacement."""
        places, leaving = self._tasks[: self.processes], self._tasks[self.processes :]
        for place in places:
            place.cancel()
        await asyncio.gather(*places, return_exceptions=True)
        for changing in (leaving, self._starting):  # a starting process has begun to work before it is open
            if changing:
                await asyncio.wait(changing)
        for process in self._world.processes:
            if process.is_open:
                await process.stop()

    def abandon(self) -> None:
        """Stop all faults, and leave everything as it is."""
        for task in (*self._tasks, *self._starting):
            task.cancel()
        for process in self._world.processes:
            if not process.leaving:
                process.crash()

    # ── Processes come and go ───────────────────────────────────────────────────────────────────────────────────────

    async def _occupy(self) -> None:
        """One place for a process: when its process is gone, another one takes it after a while."""
        while True:
            process, plan = self._admit()
            starting = asyncio.create_task(self._start(process))
            self._starting.add(starting)
            starting.add_done_callback(self._starting.discard)
            await self._accompany(process, plan)
            starting.cancel()
            await self._sleep(LONGEST_RESTART_LEASES)

    async def _start(self, process: Process) -> None:
        try:
            await process.start()
        except (ProcessDied, StoreUnavailable):
            process.crash()  # without a store it may give up; its supervisor starts another one
        except Exception as error:  # noqa: BLE001 - whatever else it is, it is wrong
            self.violations.append(f"{process} could not start: {error!r}")
            process.crash()

    def _admit(self) -> tuple[Process, RandomFaults]:
        plan = RandomFaults(self._random, Rates() if self._healed else self._rates_of_one())
        self._plans.append(plan)
        offset_ms = 0 if self.clocks_are_right else self._random.randint(-FARTHEST_CLOCK_MS, FARTHEST_CLOCK_MS)
        called = self._calls is not None and self._calls.random() < CALLED_SHARE
        process = self._world.admit(plan, offset_ms=offset_ms, called=called)
        process.late = not self.clocks_are_right
        if offset_ms:
            process.wire.suffer(WrongClock(offset_ms))
        return process, plan

    def _rates_of_one(self) -> Rates:
        """Mostly the seed's rates; but some processes are far from their store, and everything takes them long."""
        if self._random.random() >= SLOW_SHARE:
            return self.rates
        return replace(self.rates, delay=0.8, delay_read=0.5, longest_delay_seconds=2 * self._lease_seconds)

    async def _accompany(self, process: Process, plan: RandomFaults) -> None:
        """Until it is gone: resume it when it is stopped, and apply faults to it from time to time."""
        while not process.died.done():
            stopped = asyncio.ensure_future(process.stopped.wait())
            either: set[asyncio.Future[Any]] = {stopped, process.died}
            await asyncio.wait(either, timeout=self._seconds_to_next(), return_when=asyncio.FIRST_COMPLETED)
            stopped.cancel()
            if process.paused:
                await self._sleep(LONGEST_PAUSE_LEASES)
                process.resume()
            elif not (process.died.done() or self._healed):
                self._strike(process, plan)

    def _seconds_to_next(self) -> float | None:
        if self._healed or self._seconds_between is None:
            return None
        return self._random.expovariate(1 / self._seconds_between)

    def _strike(self, process: Process, plan: RandomFaults) -> None:
        kind = self._random.choice(self._kinds)
        if kind is Kill:
            process.wire.suffer(Kill())
            process.crash()
        elif kind is Stop:
            process.wire.suffer(Stop())
            process.pause()
        elif kind is Outage:
            seconds = self._random.uniform(0, LONGEST_OUTAGE_LEASES * self._lease_seconds)
            process.wire.suffer(Outage(seconds))
            plan.down = True
            asyncio.get_running_loop().call_later(seconds, _restore, plan)
        elif process.is_open:
            process.wire.suffer(Drain())
            self._tasks.append(asyncio.create_task(self._leave(process)))

    async def _retire(self, process: Process) -> None:
        while not (process.is_open or process.leaving or process.dead):
            await asyncio.sleep(self._lease_seconds)  # it is just starting
        if process.is_open:
            await self._leave(process)

    async def _leave(self, process: Process) -> None:
        try:
            await process.stop()
        except ProcessDied:
            return
        except Exception as error:  # noqa: BLE001 - whatever it is, shutting down shall not raise it
            self.violations.append(f"{process} could not shut down: {error!r}")
        process.crash()  # it exits

    async def _sleep(self, longest_leases: float) -> None:
        if not self._healed:
            await asyncio.sleep(self._random.uniform(0, longest_leases * self._lease_seconds))


def _restore(plan: RandomFaults) -> None:
    plan.down = False


def _drawn(random: Random, lease_seconds: float) -> Rates:
    """Rates for one seed: about half of the faults are on, and hardly ever at their hardest."""
    drawn = {
        name: getattr(HARDEST, name) * random.random() * (random.random() < 0.6)
        for name in HARDEST.__struct_fields__
        if name not in {"longest_delay_seconds", "early_ring", "tear_page"}
    }
    longest = random.choice((0.1, 1.0, lease_seconds, LONGEST_DELAY_LEASES * lease_seconds))
    return Rates(**drawn, longest_delay_seconds=longest)
