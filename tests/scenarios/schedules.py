"""Schedules: a handler and a workflow, started every hour. Their timers never end, so a run of it ends by the clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import holdfast as hf
from holdfast.app import App
from holdfast.testing import PATIENT, ProcessDied, World, run_virtual
from holdfast.testing.faults import NO_FAULTS, FaultCounts, FaultPlan
from holdfast.testing.ledger import Ledger
from holdfast.testing.world import Build, Database, MemoryDatabase, User, swift

HOUR: Final = 3_600.0
MORNING_SECONDS: Final = 3.5 * HOUR + 60
TICKS: Final = 3


def schedules(app: App, ledger: Ledger) -> User:
    """A handler that tells an actor of each of its ticks, and a workflow that is started by a tick."""

    class Book(hf.Actor, app=app):
        hours: list[int] = hf.field(default_factory=list[int])

        async def enter(self, hour: int) -> None:
            self.hours.append(hour)

    @app.cron("0 * * * *")
    async def report(tick: datetime) -> None:
        ledger.effect(tick.hour, key=hf.current().idempotency_key)
        await hf.send(Book.at("b").enter, tick.hour)

    @app.cron("30 * * * *")
    @app.workflow
    async def close(tick: datetime) -> int:
        return tick.hour

    async def user() -> tuple[list[int], list[str]]:
        book = (await app.actor("Book", "b").status()).state["hours"]
        closed = [f"{each.id} {each.status}" for each in (await app.executions("close")).executions]
        return book, sorted(closed)

    return user


@dataclass(frozen=True)
class Morning:
    """A run: the writes of the first process, what the user found, and what is wrong with it."""

    writes: int
    answer: Any
    complaints: list[str]
    faults: FaultCounts


def a_morning(
    plan: FaultPlan = NO_FAULTS, *, build: Build = schedules, database: Callable[[], Database] = MemoryDatabase
) -> Morning:
    """Three and a half hours, in one process after another if the first one dies by its plan."""

    async def main() -> Morning:
        world = World(build, limits=swift(PATIENT), database=database())
        while True:
            try:
                process = await world.boot(plan if not world.processes else NO_FAULTS)
                await process.call(lambda: asyncio.sleep(MORNING_SECONDS - world.loop.time()))
                answer = await process.call(process.user)
                await process.stop()
                break
            except ProcessDied:
                continue
        once = len(set(world.ledger.accepted)) == len(world.ledger.accepted.values()) == TICKS
        complaints = [*world.violations(), *([] if once else [f"ticks were {world.ledger.accepted}"])]
        writes = world.processes[0].wire.writes
        await world.close()
        return Morning(writes, answer, complaints, world.counts)

    return run_virtual(main)
