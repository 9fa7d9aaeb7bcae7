"""What a body starts and leaves to itself may be gone before the start was noted. It is not started again (G2)."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import datetime

import pytest

import holdfast as hf
from holdfast.ports import LATE_MS
from holdfast.testing import FaultsAt, ProcessDied, World, run_virtual
from holdfast.testing.faults import CrashAfter, CrashBefore, LoseAnswer
from holdfast.testing.world import swift

FAULTS = (CrashBefore(), CrashAfter(), LoseAnswer())
LONG_AGO_SECONDS = 600.0


class Post:
    """A world in which letters end, and are gone, while no process has the code of the writer."""

    def __init__(self, way, **options):
        self.has_writer, self.way, self.options = True, way, options

    def build(self, app, ledger):
        @app.step
        async def mail(written_at: datetime) -> None:
            ledger.effect("mailed", key=str(written_at))

        @app.workflow(retention=None if self.way == "deleted" else 10)
        async def letter() -> None:
            await mail(hf.now())  # another letter has another date
            if self.way == "failed":
                raise ValueError("no such address")
            if self.way == "terminated":
                await hf.signal("answer")

        if not self.has_writer:
            return lambda: self.clear(app)

        @app.workflow
        async def writer() -> str:
            started = await letter.options(**self.options).start()
            await hf.sleep("1h")
            return started.id

        async def user() -> str:
            return await (await writer.start(id="w")).result()

        return user

    async def clear(self, app):
        """Let nothing be left of the letters."""
        letters = (await app.executions(workflow="letter")).executions
        for each in letters:
            if self.way == "terminated":
                await app.handle("letter", each.id).terminate()
        await asyncio.sleep(LONG_AGO_SECONDS)
        for each in letters:
            if self.way == "deleted":
                await app.handle("letter", each.id).delete()

    async def run(self, plan):
        """Let the writer die by the plan, and its letter be gone then; answer its writes, and how many were mailed."""
        self.world = World(self.build, limits=swift())
        try:
            first = self.world.admit(plan)
            writing = asyncio.create_task(self.start(first))
            await asyncio.wait((writing, first.died), timeout=LONG_AGO_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            first.crash()
            self.has_writer = False
            second = await self.world.boot()
            await asyncio.sleep(LONG_AGO_SECONDS)
            await second.call(second.user)
            await asyncio.sleep(LATE_MS / 1000 + LONG_AGO_SECONDS)  # it is purged
            await second.stop()
            assert not [item for item in await self.world.database.items() if item.partition.startswith("wf#letter")]
            self.has_writer = True
            third = await self.world.boot()
            await third.call(third.user)
            if self.way == "terminated":
                await third.call(lambda: self.clear(third.app))
            await third.call(self.world.quiet)
            assert self.world.violations() == []
            return first.wire.writes, len(self.world.ledger.accepted)
        finally:
            await self.world.close()

    async def start(self, process):
        with suppress(ProcessDied):
            await process.start()
            await process.call(process.user)


@pytest.mark.parametrize("way", ["returned", "failed", "terminated", "deleted"])
@pytest.mark.parametrize("options", [{}, {"id": "l-1"}])
def test_a_start_that_was_not_noted_is_not_repeated_when_what_it_started_is_gone(way, options):
    writes, mailed = run_virtual(lambda: Post(way, **options).run(FaultsAt()))
    assert mailed == 1
    for number in range(1, writes + 1):
        for fault in FAULTS:
            _, mailed = run_virtual(lambda: Post(way, **options).run(FaultsAt({number: fault})))  # noqa: B023 - now
            assert mailed == 1, f"{fault} at write {number}"
