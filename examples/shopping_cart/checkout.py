"""The checkout: validate, hold the goods, take the money, confirm; or undo what was done, latest first, and say so.

Its id is the order's, so an order is checked out once, whoever asks for it how often (G11). Whatever its steps change
knows the order's id: a repeat changes nothing, and an attempt that comes after its own undo is refused.
"""

from __future__ import annotations

from dataclasses import dataclass

from examples.shopping_cart import catalogue, stock
from examples.shopping_cart.orders import (
    CheckoutWanted,
    Confirmed,
    Declined,
    Order,
    OrderEvent,
    Submitted,
    note,
    return_to_cart,
)
from examples.shopping_cart.outside import Outside
from examples.shopping_cart.shop import Refused, app

import holdfast as hf

PATIENT = hf.Retry(max_attempts=10, initial="100ms", max_delay="30s")
"""For steps after which there is no way back: about two minutes."""


@dataclass(frozen=True)
class OrderPlaced:
    """Published once an order is confirmed."""

    order: str
    customer: str
    cents: int


@dataclass(frozen=True)
class OrderDeclined:
    """Published once an order has come to nothing."""

    order: str
    customer: str
    reason: str


@dataclass(frozen=True)
class Outcome:
    """How a checkout ended: ``confirmed``, or ``declined`` for a reason."""

    status: str
    reason: str = ""


@app.step(raises=(Refused,))
async def validate(order: Order) -> None:
    """What the customer has agreed to is what it costs."""
    cents = await catalogue.true_total(order.lines)
    if cents != order.cents:
        raise Refused(f"the price has changed to {cents / 100:.2f}")


@app.step(raises=(Refused,), retry=PATIENT)
async def hold_goods(order: Order) -> str:
    """All of it, or nothing. Many orders of one article get in each other's way, hence the patience."""
    await stock.hold(order.id, order.lines)
    return order.id


@hold_goods.undo(ambiguous=True)
async def give_goods_back() -> None:
    await stock.give_back(hf.current().id)


@app.step(raises=(Refused,), timeout="10s")
def pay(order: Order, outside: Outside = hf.injected) -> str:
    """Blocking, so it has a thread. The key is the order's, which its undo knows as well."""
    return outside.charge(order.id, order.card, order.cents)


@pay.undo(ambiguous=True)  # after a time-out nobody knows whether the money was taken
def pay_back(outside: Outside = hf.injected) -> None:
    outside.void(hf.current().id)


@app.step(raises=(Refused,), retry=PATIENT)
async def sell_goods(order: Order) -> None:
    await stock.sell(order.id)


@app.step(retry=PATIENT)
async def write_down(order: Order, event: OrderEvent) -> None:
    await note(order.id, event)


@app.step(retry=PATIENT)
async def refill_cart(order: Order) -> None:
    await return_to_cart(order)


@app.workflow
async def checkout(order: Order) -> Outcome:
    """Sell the order and take its price, or do neither."""
    await write_down(order, Submitted(order.customer, order.lines, order.cents))
    try:
        async with hf.saga():
            await validate(order)
            await hold_goods(order)
            payment = await pay(order)
            await sell_goods(order)
    except Refused as refused:
        return await decline(order, str(refused))
    except (hf.StepFailed, hf.StepTimeout, hf.StoreError, hf.Conflict, OSError):
        return await decline(order, "something broke; nothing was charged")
    await write_down(order, Confirmed(order.customer, order.cents, payment))
    await app.publish(OrderPlaced(order.id, order.customer, order.cents), id=order.id)
    return Outcome("confirmed")


async def decline(order: Order, reason: str) -> Outcome:
    """The end of an order that came to nothing; part of the body."""
    await refill_cart(order)
    await write_down(order, Declined(order.customer, reason))
    await app.publish(OrderDeclined(order.id, order.customer, reason), id=order.id)
    return Outcome("declined", reason)


@app.consumer(CheckoutWanted)
async def begin_checkout(event: CheckoutWanted) -> None:
    """Begin it, unless the request that placed the order has done so: it may have died first."""
    await checkout.start(event.order, id=event.order.id)
