"""An event that kills whoever handles it, delivered again meanwhile, with a fault at every write of every process.

The poison takes its workers away at the very moment at which relays deliver, mark and let go: what it must never do is
to come to lie in its inbox while its actor rests, or to be handled once more when it has been set aside.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass

import pytest

import holdfast as hf
from holdfast.actors.turn.failure import DEATHS_PER_ATTEMPT
from holdfast.errors import StoreUnavailable
from holdfast.testing import FaultsAt, World, run_virtual
from holdfast.testing.faults import CrashAfter, CrashBefore, Delay, FailBefore, LoseAnswer, WriteFault
from holdfast.testing.oracles import unrest
from holdfast.testing.process import Process, ProcessDied
from holdfast.testing.world import swift

FAULTS: tuple[WriteFault, ...] = (CrashBefore(), CrashAfter(), LoseAnswer(), FailBefore(), Delay(after_seconds=2.0))
PROCESSES = 2
PATIENCE_SECONDS = 600
DEADLY = "deadly"
ONCE = hf.Retry(max_attempts=1)


@dataclass
class Placed:
    order: str


class Run:
    """Two places for workers, each taken again when its process is gone; the faults are those of one process."""

    def __init__(self, victim: int, plan: FaultsAt, *, alone: bool) -> None:
        self.victim, self.plan, self.alone = victim, plan, alone
        self.handled: list[str] = []

    def build(self, app, ledger):
        @app.consumer(Placed, retry=ONCE)
        async def pack(event: Placed) -> None:
            self.handled.append(event.order)
            if event.order == DEADLY:
                next(each for each in self.world.processes if each.app is app).crash()
                await asyncio.sleep(1)
            ledger.effect(event.order, key=f"pack {event.order}")

        class Shop(hf.Actor, app=app):
            async def order(self) -> None:
                for order in (DEADLY, "behind"):
                    await app.publish(Placed(order))

        async def user() -> None:
            if self.alone:  # and nothing beside it, which would be under suspicion too
                await app.publish(Placed(DEADLY), id="e1")
            else:
                await Shop.at("a", request_id="once").order()

        return user

    async def run(self) -> None:
        self.world = World(self.build, limits=swift(hf.Limits(linger_seconds=0.05)))
        async with asyncio.timeout(PATIENCE_SECONDS):
            client = await self.world.client()
            places = [asyncio.create_task(self.occupy()) for _ in range(PROCESSES)]
            await client.call(client.user)
            await self.world.quiet()
        for place in places:
            place.cancel()
        await asyncio.gather(*places, return_exceptions=True)
        for process in self.world.processes:
            if process.is_open:
                with suppress(ProcessDied):
                    await process.stop()
        parked = (await client.call(client.app.parked)).items
        await client.stop()
        self.items = await self.world.database.items()
        self.parked = [each.message.args["event"]["order"] for each in parked]
        self.accepted = dict(self.world.ledger.accepted)
        self.deaths = sum(each.dead for each in self.world.processes)
        self.violations = [*self.world.violations(), *unrest(self.items)]
        self.writes = [each.wire.writes for each in self.world.processes]
        self.faults = self.world.counts.counts.total()
        await self.world.close()

    async def occupy(self) -> None:
        while True:
            number = len(self.world.processes)
            process = self.world.admit(self.plan if number == self.victim else FaultsAt())
            starting = asyncio.create_task(self.start(process))
            await process.died
            starting.cancel()
            await asyncio.sleep(0.7)

    async def start(self, process: Process) -> None:
        try:
            await process.start()
        except (ProcessDied, StoreUnavailable):
            process.crash()


def play(victim: int, plan: FaultsAt, *, alone: bool) -> Run:
    each = Run(victim, plan, alone=alone)
    run_virtual(each.run)
    return each


def wrong(run: Run) -> list[str]:
    """What must not be."""
    found = list(run.violations)
    if run.parked != [DEADLY]:
        found.append(f"parked are {run.parked}")
    if run.accepted != ({} if run.alone else {"pack behind": "behind"}):
        found.append(f"effects are {run.accepted}")
    return found


@pytest.mark.parametrize("alone", [True, False])
def test_a_fault_at_any_write_of_any_process_leaves_the_poison_parked_and_nothing_behind(alone):
    base = play(-1, FaultsAt(), alone=alone)
    assert wrong(base) == []
    assert base.handled.count(DEADLY) == DEATHS_PER_ATTEMPT + 1, "the first was no takeover"
    points = happened = 0
    for victim, writes in enumerate(base.writes):
        for number in range(1, writes + 1):
            for fault in FAULTS:
                run = play(victim, FaultsAt({number: fault}), alone=alone)
                points += 1
                happened += run.faults
                assert wrong(run) == [], f"{fault} at write {number} of process {victim + 1}"
                assert run.handled.count("behind") <= 2
    print(f"{points} points, {happened} faults")
    assert happened > points // 2
