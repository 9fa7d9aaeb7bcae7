"""Streams: appended to, decided on and projected, once each whatever happens."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
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


def deleted(app: App, _ledger: Ledger) -> User:
    """A stream is filled, deleted by two at once, and begun anew; each write is repeated by whoever comes after."""
    shelves = app.streams(Stocked | Sold, name="shelves", ordered=True)

    async def user() -> list[object]:
        shelf = shelves.at("left")
        with suppress(hf.Conflict, hf.IdempotencyMismatch):  # it was deleted, or has begun anew
            await shelf.append(Stocked(3), Sold(1), Sold(1), version=0, id="first")
        if await shelf.version() == 3:
            await shelf.state(STOCK)
        if await shelf.version() <= 4:
            ended = await asyncio.gather(*(shelf.delete(version=3) for _ in range(2)), return_exceptions=True)
            assert all(each is None or isinstance(each, hf.Conflict) for each in ended), ended
        with suppress(hf.Conflict):
            await shelf.append(Stocked(7), Sold(2), version=4, id="first")
        seen = [(each.version, each.event.pieces) async for each in shelf.read()]
        in_order = [(each.position, each.event.pieces) async for each in shelves.read()]
        page = await app.runtime().home.store.query(shelf.place.partition)
        places = [(each.sort, each.status) for each in page.items]
        gone = await shelf.deletion()
        return [seen, in_order, places, gone.version, gone.emptied, await shelf.state(hf.Fold(int, stocked))]

    return user


DELETED: Final = Scenario("a stream is deleted", deleted)
