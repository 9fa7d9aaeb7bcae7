"""Streams: appended to, decided on and projected, once each whatever happens."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import holdfast as hf
from holdfast.app import App
from holdfast.testing.ledger import Ledger
from holdfast.testing.simulation import Scenario
from holdfast.testing.world import User

CLERKS: Final = 3


@dataclass
class Stocked:
    """So many have come in."""

    pieces: int


@dataclass
class Sold:
    """So many have gone out."""

    pieces: int


def stocked(pieces: int, event: Stocked | Sold) -> int:
    """How many there are after an event."""
    return pieces + event.pieces if isinstance(event, Stocked) else pieces - event.pieces


STOCK: Final = hf.Fold(int, stocked, snapshot_every=2)


def projected(app: App, _ledger: Ledger) -> User:
    """Clerks sell from one stock, each request under an id of its own; a projection counts what was sold in all."""
    shelves = app.streams(Stocked | Sold, name="shelves", ordered=True)
    totals = app.documents(int, name="totals")

    async def count(tx: hf.Transaction, recorded: hf.Recorded[Stocked | Sold]) -> None:
        if isinstance(recorded.event, Sold):
            total = totals.at(recorded.key[0])
            tx.put(total, (await tx.find(total) or 0) + recorded.event.pieces)

    sales = app.projection("sales", shelves, count, batch=2)

    async def sell(number: int) -> None:
        shelf = shelves.at("left" if number % 2 else "right")
        await shelf.append(Stocked(10), id=f"stock-{number}")
        await shelf.decide(STOCK, lambda pieces: [Sold(1), Sold(1)] if pieces >= 2 else [], id=f"sale-{number}")
        await sales.catch_up()

    async def user() -> list[int]:
        await asyncio.gather(*(sell(number) for number in range(CLERKS)))
        await sales.catch_up()
        left = [await shelves.at(each).state(STOCK) for each in ("left", "right")]
        gone = [(await totals.at(each).get()).value for each in ("left", "right")]
        positions = [each.position async for each in shelves.read()]
        assert positions == list(range(1, len(positions) + 1))
        return [*left, *gone, len(positions), await sales.position()]

    return user


SCENARIOS: Final[Sequence[Scenario]] = (Scenario("streams and a projection", projected),)
