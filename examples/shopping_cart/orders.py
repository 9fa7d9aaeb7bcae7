"""Orders: what happened to each is a stream, and what the shop asks about all of them are documents made of it.

An order begins in one write: the cart is emptied, the order is kept, and the event that begins its checkout is in the
outbox. So the same cart cannot be ordered twice, and an order cannot be forgotten.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from examples.shopping_cart.carts import EMPTY, carts, checked
from examples.shopping_cart.shop import Lines, Refused, added, app
from msgspec import Struct

import holdfast as hf


@dataclass(frozen=True)
class Order:
    """What a customer has ordered; ``cents`` is the total that he has agreed to."""

    id: str
    customer: str
    lines: Lines
    cents: int
    card: str


@dataclass(frozen=True)
class CheckoutWanted:
    """In the outbox: an order has been placed, and somebody has to see to it."""

    order: Order


kept = app.documents(Order, name="orders")
returned = app.documents(bool, name="returned-carts")


async def place(id: str, customer: str, card: str, cents: int) -> Order:
    """Make an order of the customer's cart, or answer the one that an earlier attempt made under this id.

    Raises ``Refused`` if the cart is empty.
    """

    async def work(tx: hf.Transaction) -> Order:
        if (placed := await tx.find(kept.at(id))) is not None:
            return placed
        cart = await tx.find(carts.at(customer)) or EMPTY
        if not cart.lines:
            raise Refused("the cart is empty")
        order = Order(id, customer, cart.lines, cents, card)
        tx.put(kept.at(id), order)
        tx.put(carts.at(customer), EMPTY)
        tx.publish(CheckoutWanted(order))
        return order

    return await app.atomically(work)


async def return_to_cart(order: Order) -> None:
    """Put what was not sold back into the cart, once; unless the customer has filled it meanwhile, and both together
    would be too much.
    """

    async def work(tx: hf.Transaction) -> None:
        if await tx.find(returned.at(order.id)):
            return
        tx.put(returned.at(order.id), True)  # noqa: FBT003 - it is the document's value
        cart = await tx.find(carts.at(order.customer)) or EMPTY
        with suppress(Refused):
            tx.put(carts.at(order.customer), checked(added(cart.lines, order.lines)))

    await app.atomically(work)


# ── What happened ───────────────────────────────────────────────────────────────────────────────────────────────────
# Tagged, because the workflow's steps carry them too, and JSON alone could not tell three dataclasses apart.


class Submitted(Struct, frozen=True, tag=True):
    """The checkout has begun."""

    customer: str
    lines: Lines
    cents: int


class Confirmed(Struct, frozen=True, tag=True):
    """It is paid, and the goods are the customer's."""

    customer: str
    cents: int
    payment: str


class Declined(Struct, frozen=True, tag=True):
    """It came to nothing: nothing is held, and nothing paid."""

    customer: str
    reason: str


OrderEvent = Submitted | Confirmed | Declined

orders = app.streams(OrderEvent, name="orders", ordered=True)


async def note(order: str, event: OrderEvent) -> None:
    """Add to the order's history; each kind of event happens to it once, however often this is called."""
    await orders.at(order).append(event, id=type(event).__name__)


@dataclass(frozen=True)
class Progress:
    """What an order has come to."""

    status: str = "unknown"
    lines: Lines = field(default_factory=dict[str, int])
    cents: int = 0
    reason: str = ""


def become(progress: Progress, event: OrderEvent) -> Progress:
    """One event later."""
    match event:
        case Submitted(_, lines, cents):
            return replace(progress, status="submitted", lines=lines, cents=cents)
        case Confirmed():
            return replace(progress, status="confirmed")
        case Declined(_, reason):
            return replace(progress, status="declined", reason=reason)


whole = hf.Fold(Progress, become)


async def progress_of(order: str) -> Progress:
    """What an order has come to, by its own stream: never behind."""
    return await orders.at(order).state(whole)


# ── What the shop asks about all of them ────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Day:
    """The sales of one day (UTC)."""

    orders: int = 0
    cents: int = 0


history = app.documents(Progress, name="order-history")
sales = app.documents(Day, name="sales-by-day")


async def tell(tx: hf.Transaction, recorded: hf.Recorded[OrderEvent]) -> None:
    """One event's effect on both: the customer's history, and the sales of the day on which it was recorded."""
    event = recorded.event
    line = history.at(event.customer, *recorded.key)
    tx.put(line, become(await tx.find(line) or Progress(), event))
    if isinstance(event, Confirmed):
        day = sales.at("days", day_of(recorded.at_ms))
        sold = await tx.find(day) or Day()
        tx.put(day, Day(sold.orders + 1, sold.cents + event.cents))


def day_of(at_ms: int) -> str:
    """The day (UTC) of a moment."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).date().isoformat()


told = app.projection("order-history-and-sales", orders, tell)
