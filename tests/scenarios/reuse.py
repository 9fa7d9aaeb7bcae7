"""Ids that are used again: after their execution was deleted, or has expired, while others come late."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final

import holdfast as hf
from holdfast.app import App
from holdfast.errors import IdempotencyMismatch, InvalidState, NotFound
from holdfast.testing.entropy import fresh_nonces
from holdfast.testing.happenings import Happening
from holdfast.testing.ledger import Ledger
from holdfast.testing.simulation import Histories, Scenario
from holdfast.testing.world import User
from holdfast.workflows.definition import Workflow
from holdfast.workflows.handle import Handle

ROUNDS: Final = 3
LOOK_SECONDS: Final = 0.5
End = Callable[[Handle[str]], Awaitable[None]]
RETENTION_SECONDS: Final = 4
"""Shorter than a write may be under way."""


def deleted(app: App, ledger: Ledger) -> User:
    """Executions under one id, each deleted by its user before the next one begins."""

    @app.step
    async def print_receipt(number: int) -> str:
        await asyncio.sleep(1)
        return ledger.effect(f"receipt {number}")

    @app.workflow
    async def receipt(number: int) -> str:
        await hf.sleep(1)
        return await print_receipt(number)

    async def end(handle: Handle[str]) -> None:
        with suppress(NotFound, InvalidState):  # somebody else has deleted it, or it begins again just now
            await handle.delete()

    async def user() -> str:
        return await _rounds(receipt, end, ledger)

    return user


def expired(app: App, ledger: Ledger) -> User:
    """Executions under one id that expire soon, each begun when the one before has."""

    @app.step
    async def print_ticket(number: int) -> str:
        await asyncio.sleep(1)
        return ledger.effect(f"ticket {number}")

    @app.workflow(retention=RETENTION_SECONDS)
    async def ticket(number: int) -> str:
        await hf.sleep(1)
        return await print_ticket(number)

    async def end(handle: Handle[str]) -> None:
        with suppress(NotFound):
            while True:
                await handle.status()
                await asyncio.sleep(LOOK_SECONDS)
        ledger.happened[Happening.EXPIRED] += 1

    async def user() -> str:
        return await _rounds(ticket, end, ledger)

    return user


async def _rounds(workflow: Workflow[[int], str], end: End, ledger: Ledger) -> str:
    """Begin one round after another under the same id. Others may do the same: whoever is ahead leads."""
    notes = ledger.notes
    while (number := notes.get("round", 0)) < ROUNDS:
        handle = await _begun(workflow, number, ledger)
        if handle is not None:
            with suppress(NotFound):  # it has gone already
                await handle
            notes["round"] = max(notes.get("round", 0), number + 1)
        elif notes.get("round", 0) == number:  # an earlier round is there, of a user who is gone or comes late
            await end(workflow.handle("one"))
            await asyncio.sleep(LOOK_SECONDS)
    return "over"


async def _begun(workflow: Workflow[[int], str], number: int, ledger: Ledger) -> Handle[str] | None:
    try:
        with fresh_nonces():
            handle = await workflow.start(number, id="one")
    except IdempotencyMismatch:
        return None
    if number > ledger.notes.get("begun", 0):
        ledger.notes["begun"] = number
        ledger.happened[Happening.REUSED] += 1
    return handle


SCENARIOS: Final[Sequence[Scenario]] = (
    # Who comes late begins an earlier round again, as anybody may whose id is free.
    Scenario("deleted and begun again", deleted, histories=Histories.FREE, ends_vary=True),
    Scenario("expired and begun again", expired, histories=Histories.FREE, ends_vary=True),
)
