"""The checkout of ``holdfast demo``, for AWS: the same orders, bank and warehouse, and the same steps towards them.

There the stock is in SQL tables, changed in the very transactions that record the steps; that is for SQLite only. Here
it is in documents, one per article, reservation and sale: a step that is repeated finds in them what it did before.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from typing import Literal

from examples.on_aws.faults import point

import holdfast as hf
from holdfast.demo import shop
from holdfast.demo.shop import CardDeclined, InvalidCart, Line, Order, OutOfStock, Parcel, Receipt

app = hf.App("shop")


@dataclass(frozen=True)
class Shelf:
    """Pieces of one article: how many there were, and how many are free."""

    initial: int
    free: int


@dataclass(frozen=True)
class Reservation:
    """What is taken off the shelves for an order. Once it was released, nothing will be taken any more."""

    lines: list[Line]
    status: Literal["taken", "released"]


@dataclass(frozen=True)
class Sale:
    """What the shop has sold for."""

    payment: str
    tracking: str


shelves = app.documents(Shelf, name="shelves")
reservations = app.documents(Reservation, name="reservations")
sales = app.documents(Sale, name="sales")

PATIENT = hf.Retry(max_attempts=6, initial="200ms")

# ── Steps ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@app.step(raises=(InvalidCart,))
def validate_cart(order: Order) -> int:
    total: int = shop.validate_cart.function(order)
    return total


@app.step(raises=(OutOfStock,), retry=PATIENT)
async def reserve_inventory(order: str, lines: list[Line]) -> str:
    """Take all of it off the shelves, or nothing."""
    wanted: dict[str, int] = {}
    for line in lines:
        wanted[line.sku] = wanted.get(line.sku, 0) + line.quantity

    async def take(tx: hf.Transaction) -> None:
        if await tx.find(reservations.at(order)) is not None:
            return  # an earlier attempt has done it, or was called off
        for sku, quantity in wanted.items():
            shelf = await tx.get(shelves.at(sku))
            if shelf.free < quantity:
                raise OutOfStock(f"not enough {sku}")
            tx.put(shelves.at(sku), replace(shelf, free=shelf.free - quantity))
        tx.put(reservations.at(order), Reservation(lines, "taken"))

    await app.atomically(take)
    point("reserved")
    return order


@reserve_inventory.undo
async def release_inventory(order: str) -> None:
    """Put the goods back."""

    async def put_back(tx: hf.Transaction) -> None:
        reservation = await tx.get(reservations.at(order))
        if reservation.status == "released":
            return
        back: dict[str, int] = {}
        for line in reservation.lines:
            back[line.sku] = back.get(line.sku, 0) + line.quantity
        for sku, quantity in back.items():
            shelf = await tx.get(shelves.at(sku))
            tx.put(shelves.at(sku), replace(shelf, free=shelf.free + quantity))
        tx.put(reservations.at(order), Reservation([], "released"))

    await app.atomically(put_back)


@app.step(timeout="1s", retry=hf.Retry(max_attempts=3, initial="200ms"), raises=(CardDeclined,))
def take_payment(order: str, card: str, cents: int) -> str:
    point("paying")
    payment: str = shop.take_payment.function(order, card, cents)
    point("paid")
    return payment


@take_payment.undo(ambiguous=True)
def refund(payment: str | None) -> int:
    return shop.refund(payment)


@app.step(retry=hf.Retry(max_attempts=5, initial="200ms"))
def ask_warehouse(order: str, skus: list[str], token: str) -> None:
    shop.ask_warehouse.function(order, skus, token)
    point("asked")


@app.step(retry=PATIENT)
async def confirm(order: str, payment: str, tracking: str) -> None:
    """Note the sale: once, however often this is tried."""
    with contextlib.suppress(hf.Conflict):  # an earlier attempt has done it
        await sales.at(order).create(Sale(payment, tracking))
    point("sold")


# ── The workflow ────────────────────────────────────────────────────────────────────────────────────────────────────


@app.workflow
async def checkout(order: Order) -> Receipt:
    """Validate, reserve, charge, ship, confirm; or, if that cannot be, leave nothing behind."""
    total = await validate_cart(order)
    async with hf.saga():
        await reserve_inventory(order.id, order.lines)
        payment = await take_payment(order.id, order.card, total)
        parcel = hf.callback(Parcel, name="parcel", timeout="5m")
        await ask_warehouse(order.id, [line.sku for line in order.lines], parcel.token)
        tracking = (await parcel).tracking
        await confirm(order.id, payment, tracking)
    return Receipt(order.id, payment, tracking, total)
