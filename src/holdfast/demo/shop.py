"""The user's code of the demonstration: a checkout that is taken back as a whole if any part of it fails.

It talks to a payment service and a warehouse over HTTP, keeps its stock in SQL, and knows nothing of crashes: that is
what Holdfast is for.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import holdfast as hf
from holdfast.demo.loopback import HttpRefused, post

app = hf.App("shop")

CATALOGUE: Final = {
    "TEA-EARL-GREY": 890,
    "TEA-SENCHA": 1150,
    "COFFEE-KENYA": 1490,
    "COFFEE-DECAF": 1390,
    "MUG-BLUE": 1250,
    "MUG-WHITE": 1150,
    "TEAPOT-IRON": 5900,
    "KETTLE-1L": 4495,
    "GRINDER-HAND": 7900,
    "SCALE-01G": 2995,
    "FILTER-100": 640,
    "HONEY-HEATHER": 1075,
    "BISCUIT-GINGER": 445,
    "VASE-CRYSTAL": 12900,
    "LAMP-RETRO": 8900,
}
"""What the shop sells, and for how many cents."""

LARGEST_QUANTITY: Final = 20


@dataclass
class Line:
    """A quantity of one article, at a price per piece."""

    sku: str
    quantity: int
    cents: int


@dataclass
class Order:
    """What a customer sent. It is not trusted until it has been checked."""

    id: str
    customer: str
    card: str
    lines: list[Line]
    total_cents: int
    placed_at: datetime


@dataclass
class Parcel:
    """The warehouse's answer."""

    tracking: str


@dataclass
class Receipt:
    """What the customer gets."""

    order: str
    payment: str
    tracking: str
    cents: int


class InvalidCart(hf.Terminal):
    """The order is invalid. Trying again would not help."""


class OutOfStock(hf.Terminal):
    """There is not enough of an article."""


class CardDeclined(hf.Terminal):
    """The bank refused."""


# ── The shop's own tables, in the same file as its workflows ────────────────────────────────────────────────────────

SCHEMA: Final = (
    "CREATE TABLE stock (sku TEXT PRIMARY KEY, initial INTEGER NOT NULL, free INTEGER NOT NULL CHECK (free >= 0))",
    "CREATE TABLE reservations (order_id TEXT NOT NULL, sku TEXT NOT NULL, quantity INTEGER NOT NULL)",
    "CREATE TABLE sales (order_id TEXT NOT NULL, payment TEXT NOT NULL, tracking TEXT NOT NULL)",
)
TAKE: Final = "UPDATE stock SET free = free - ? WHERE sku = ? AND free >= ? RETURNING sku"
RESERVE: Final = "INSERT INTO reservations VALUES (?, ?, ?)"
RESERVED: Final = "SELECT sku, quantity FROM reservations WHERE order_id = ?"
PUT_BACK: Final = "UPDATE stock SET free = free + ? WHERE sku = ?"
RELEASE: Final = "DELETE FROM reservations WHERE order_id = ?"
SELL: Final = "INSERT INTO sales VALUES (?, ?, ?)"


# ── Steps: each is recorded once it is done, and knows how to undo itself ───────────────────────────────────────────


@app.step(raises=(InvalidCart,))
def validate_cart(order: Order) -> int:
    """Check the cart against the catalogue; return its price."""
    if not order.lines:
        raise InvalidCart("the cart is empty")
    for line in order.lines:
        if line.sku not in CATALOGUE:
            raise InvalidCart(f"there is no {line.sku}")
        if not 1 <= line.quantity <= LARGEST_QUANTITY:
            raise InvalidCart(f"{line.quantity} × {line.sku}: between 1 and {LARGEST_QUANTITY} can be ordered")
        if line.cents != CATALOGUE[line.sku]:
            raise InvalidCart(f"{line.sku} costs {CATALOGUE[line.sku]} cents, not {line.cents}")
    total = sum(line.quantity * line.cents for line in order.lines)
    if total != order.total_cents:
        raise InvalidCart(f"the cart comes to {total} cents, not {order.total_cents}")
    return total


@app.transaction(raises=(OutOfStock,))
def reserve_inventory(sql: hf.SqlCursor, order: str, lines: list[Line]) -> str:
    """Take the goods off the shelf, in the very transaction that records this step: exactly once, whatever crashes."""
    for line in lines:
        if not list(sql.execute(TAKE, (line.quantity, line.sku, line.quantity))):
            raise OutOfStock(f"not enough {line.sku}")
        sql.execute(RESERVE, (order, line.sku, line.quantity))
    return order


@reserve_inventory.undo
def release_inventory(sql: hf.SqlCursor, order: str) -> None:
    """Put the goods back."""
    for sku, quantity in list(sql.execute(RESERVED, (order,))):
        sql.execute(PUT_BACK, (quantity, sku))
    sql.execute(RELEASE, (order,))


@app.step(timeout="1s", retry=hf.Retry(max_attempts=3, initial="200ms"), raises=(CardDeclined,))
def take_payment(order: str, card: str, cents: int) -> str:
    """Charge the card. Every attempt carries the same idempotency key, so the service accepts at most one of them."""
    charge = {"key": hf.current().idempotency_key, "order": order, "card": card, "cents": cents}
    try:
        return str(post(os.environ["SHOP_PAYMENTS_URL"] + "/charge", charge)["payment"])
    except HttpRefused as refused:
        if refused.status == 402:
            raise CardDeclined(refused.reason) from None
        raise


@take_payment.undo(ambiguous=True)
def refund(payment: str | None) -> int:
    """Give the money back. Without a ``payment`` it is unknown whether one was made; the service knows."""
    order = hf.current().id
    answer = post(os.environ["SHOP_PAYMENTS_URL"] + "/refund", {"order": order, "payment": payment})
    return int(answer["refunded_cents"])


@app.step(retry=hf.Retry(max_attempts=5, initial="200ms"))
def ask_warehouse(order: str, skus: list[str], token: str) -> None:
    """Ask for a parcel. The warehouse answers later, by the token."""
    post(os.environ["SHOP_WAREHOUSE_URL"] + "/pick", {"order": order, "skus": skus, "token": token})


@app.transaction
def confirm(sql: hf.SqlCursor, order: str, payment: str, tracking: str) -> None:
    """Note the sale in the shop's own table: once again exactly once, without a key that would forbid a second."""
    sql.execute(SELL, (order, payment, tracking))


# ── The workflow ────────────────────────────────────────────────────────────────────────────────────────────────────


@app.workflow
async def checkout(order: Order) -> Receipt:
    """Validate, reserve, charge, ship, confirm; or, if that fails, leave nothing behind."""
    total = await validate_cart(order)
    async with hf.saga():
        await reserve_inventory(order.id, order.lines)
        payment = await take_payment(order.id, order.card, total)
        parcel = hf.callback(Parcel, name="parcel", timeout="2m")
        await ask_warehouse(order.id, [line.sku for line in order.lines], parcel.token)
        tracking = (await parcel).tracking
        await confirm(order.id, payment, tracking)
    return Receipt(order.id, payment, tracking, total)
