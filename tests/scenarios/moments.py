"""Cancels at any moment: before anything is done, in the middle of it, while it is undone, and too late."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from random import Random
from typing import Final

import holdfast as hf
from holdfast import ids
from holdfast.app import App
from holdfast.errors import ExecutionCancelled, InvalidState
from holdfast.testing.happenings import Happening
from holdfast.testing.ledger import Ledger
from holdfast.testing.simulation import Histories, Scenario
from holdfast.testing.world import User

LATEST_SECONDS: Final = 40.0
PARTS: Final = ("cabin", "table", "guide")


def cancelled(app: App, ledger: Ledger) -> User:
    """A saga with a child, cancelled at a moment that is drawn."""

    @app.step
    async def take(what: str) -> str:
        await asyncio.sleep(1)
        return ledger.effect(what)

    @take.undo
    async def give_back(what: str) -> None:
        await asyncio.sleep(2)
        ledger.effect(f"no {what}")

    @app.workflow
    async def shuttle() -> str:
        async with hf.saga():
            await take("shuttle")
            await hf.sleep(10)
        return "there and back"

    @app.workflow
    async def tour() -> str:
        async with hf.saga():
            await take("cabin")
            await hf.sleep(5)
            await asyncio.gather(take("table"), shuttle())
            await hf.sleep(5)
            await take("guide")
        return "departed"

    async def user() -> str:
        handle = await tour.start(id="one")
        await asyncio.sleep(Random(ids.new_id()).uniform(0, LATEST_SECONDS))
        with suppress(InvalidState):  # it has ended
            await handle.cancel("enough")
            ledger.happened[Happening.CANCELLED] += 1
        with suppress(ExecutionCancelled):
            await handle
        ledger.notes["end"] = (await handle.status()).status
        return "over"

    return user


def all_or_nothing(ledger: Ledger) -> list[str]:
    """All of it was done, or whatever was done is undone."""
    effects = set(ledger.accepted.values())
    done = [each for each in PARTS if each in effects]
    undone = [each for each in PARTS if f"no {each}" in effects]
    end = ledger.notes.get("end")
    is_whole = done == list(PARTS) and not undone if end == "COMPLETED" else done == undone
    return [] if is_whole else [f"{done} were done and {undone} undone, and it ended as {end}"]


SCENARIOS: Final[Sequence[Scenario]] = (
    Scenario("cancelled at any moment", cancelled, check=all_or_nothing, histories=Histories.FREE, ends_vary=True),
)
