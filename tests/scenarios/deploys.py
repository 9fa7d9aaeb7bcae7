"""Changed code: processes that start later have other code, which fits what earlier code has begun, or does not."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

import holdfast as hf
from holdfast.app import App
from holdfast.testing.ledger import Ledger
from holdfast.testing.simulation import Histories, Scenario
from holdfast.testing.world import User


def first(app: App, ledger: Ledger) -> User:
    """An order that is picked, packed and shipped."""
    return _orders(app, ledger, wrapping="in a box", weighs=False)


def in_paper(app: App, ledger: Ledger) -> User:
    """Code that packs otherwise. It does not fit, and is deployed only once an order is being packed."""
    return _orders(app, ledger, wrapping="in paper" if ledger.notes.get("is packed") else "in a box", weighs=False)


def with_scales(app: App, ledger: Ledger) -> User:
    """Code with another step behind a patch: it fits whatever the others have begun."""
    return _orders(app, ledger, wrapping="in a box", weighs=True)


def _orders(app: App, ledger: Ledger, *, wrapping: str, weighs: bool) -> User:
    @app.step
    async def pick(what: str) -> str:
        await asyncio.sleep(2)
        return ledger.effect(what)

    @app.step
    async def pack(what: str, wrapping: str) -> str:
        ledger.notes["is packed"] = True  # that it was picked is durable, and that it is asked for like this
        await asyncio.sleep(4)
        return ledger.effect(f"{what} {wrapping}")

    @app.step
    async def weigh(what: str) -> None:
        await asyncio.sleep(2)
        ledger.attempt(key=f"weighing {what}")

    @app.step
    async def ship(what: str) -> str:
        return ledger.effect(f"{what}, shipped")

    @app.workflow(version=f"{wrapping}, weighed: {weighs}")  # what differs is no text of the body
    async def parcel_order(what: str) -> str:
        picked = await pick(what)
        packed = await pack(picked, wrapping)
        await hf.sleep(20)
        if weighs and hf.patched("weigh"):
            await weigh(packed)
        await hf.sleep(20)
        return await ship(packed)

    async def user() -> str:
        return await (await parcel_order.start("a globe", id="one"))

    return user


SCENARIOS: Final[Sequence[Scenario]] = (
    Scenario("changed code", first, later=(in_paper, with_scales), histories=Histories.FREE),
)
