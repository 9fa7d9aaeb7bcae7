"""Simulated processes on one database, each with an app, a clock and faults of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from tests.worlds import *
from tests.worlds import database_named

import holdfast as hf
from holdfast.testing import FaultsAt, Process, World, run_virtual

NO_FAULTS = FaultsAt()


class Machines:
    """Where simulated processes run; ``boot`` starts one that only uses its app."""

    def __init__(self, world: World) -> None:
        self.world = world

    async def boot(self, plan: Any = NO_FAULTS, *, offset_ms: int = 0) -> Process:
        process = self.world.admit(plan, offset_ms=offset_ms)
        process.is_client = True
        await process.start()
        return process

    async def items(self) -> list[Any]:
        return await self.world.database.items()


Story = Callable[[Machines], Coroutine[Any, Any, Any]]


@pytest.fixture(params=["memory", "sqlite", pytest.param("dynamodb", marks=pytest.mark.aws)])
def simulate(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Any]:
    """``simulate(story)``: run ``story(machines)`` in virtual time."""

    def run(story: Story, *, seed: int | None = None) -> Any:
        async def main() -> Any:
            world = World(
                lambda _app, _ledger: _nobody, limits=hf.Limits(), database=database_named(request.param, tmp_path)
            )
            try:
                answer = await story(Machines(world))
                assert world.violations() == []
                return answer
            finally:
                await world.close()

        return run_virtual(main, seed=seed)

    return run


async def _nobody() -> None:
    await asyncio.sleep(0)
