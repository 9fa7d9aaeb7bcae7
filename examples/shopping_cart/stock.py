"""Stock: one document per article, and one per reservation, all of an order changed in one write.

So a reservation takes everything or nothing, and there is no half of one to clean up. Each function may be called
again, also late, by a process that was thought dead: what a reservation has come to is in its own document.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from examples.shopping_cart.shop import Lines, Refused, app

import holdfast as hf


@dataclass(frozen=True)
class Stock:
    """Pieces of one article. ``free + held + sold`` is what was ever delivered."""

    free: int = 0
    held: int = 0
    sold: int = 0


@dataclass(frozen=True)
class Reservation:
    """What is held for an order. ``given back`` may come first: then nothing will be held any more."""

    lines: Lines
    status: Literal["held", "sold", "given back"]


stocks = app.documents(Stock, name="stock")
reservations = app.documents(Reservation, name="reservations")


async def open_stock(sku: str, pieces: int) -> None:
    """Begin an article with so many pieces, unless it has begun."""
    try:
        await stocks.at(sku).create(Stock(free=pieces))
    except hf.Conflict:
        return


async def hold(order: str, lines: Lines) -> None:
    """Hold all of this for an order. Raises ``Refused`` if there is too little of anything: then nothing is held, nor
    will be, for an attempt that comes late must not hold what nobody waits for any more.
    """

    async def work(tx: hf.Transaction) -> str | None:
        """What is sold out, if anything."""
        match await tx.find(reservations.at(order)):
            case Reservation(status="given back"):
                raise Refused("this order has been called off")
            case Reservation():
                return None  # an earlier attempt has done it
            case None:
                pass
        there = {sku: await tx.find(stocks.at(sku)) or Stock() for sku in lines}
        for sku, quantity in lines.items():
            if there[sku].free < quantity:
                tx.put(reservations.at(order), Reservation({}, "given back"))
                return sku
        for sku, quantity in lines.items():
            stock = there[sku]
            tx.put(stocks.at(sku), replace(stock, free=stock.free - quantity, held=stock.held + quantity))
        tx.put(reservations.at(order), Reservation(lines, "held"))
        return None

    if (sold_out := await app.atomically(work)) is not None:
        raise Refused(f"{sold_out} is sold out")


async def sell(order: str) -> None:
    """What is held for an order is sold. Raises ``Refused`` if it was given back."""

    async def work(tx: hf.Transaction) -> None:
        reservation = await tx.get(reservations.at(order))
        if reservation.status == "given back":
            raise Refused("this order has been called off")
        if reservation.status == "sold":
            return
        for sku, quantity in reservation.lines.items():
            stock = await tx.get(stocks.at(sku))
            tx.put(stocks.at(sku), replace(stock, held=stock.held - quantity, sold=stock.sold + quantity))
        tx.put(reservations.at(order), replace(reservation, status="sold"))

    await app.atomically(work)


async def give_back(order: str) -> None:
    """Whatever an order holds, or has bought, is free again; it will get nothing any more."""

    async def work(tx: hf.Transaction) -> None:
        reservation = await tx.find(reservations.at(order)) or Reservation({}, "held")
        if reservation.status == "given back":
            return
        was_sold = reservation.status == "sold"
        for sku, quantity in reservation.lines.items():
            stock = await tx.get(stocks.at(sku))
            held, sold = (0, quantity) if was_sold else (quantity, 0)
            back = replace(stock, free=stock.free + quantity, held=stock.held - held, sold=stock.sold - sold)
            tx.put(stocks.at(sku), back)
        tx.put(reservations.at(order), replace(reservation, status="given back"))

    await app.atomically(work)
