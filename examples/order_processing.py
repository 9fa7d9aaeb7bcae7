"""Order processing: a workflow that moves goods and money between actors, and takes all back when it must.

Each article has a ``Stock`` and each customer a ``Wallet``: actors, which decide alone and one call at a time. The
workflow holds the goods, charges, and prints the label. If one of these refuses, the saga undoes the others, latest
first. ``Refused`` is named in ``raises=``, so it arrives from actor and step as itself, and is never tried again.

    python examples/order_processing.py
"""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import ClassVar

import holdfast as hf

app = hf.App("orders")

PRICES = {"bench": 24_900, "chair": 8_900, "clock": 5_400, "lamp": 3_950, "mug": 1_250, "vase": 2_800}


@dataclass(frozen=True)
class Order:
    """``lines`` says how many of which article."""

    id: str
    customer: str
    country: str
    lines: dict[str, int]

    @property
    def cents(self) -> int:
        return sum(PRICES[sku] * quantity for sku, quantity in self.lines.items())


class Refused(Exception):
    """The order cannot be carried out, and trying again would not help."""


UNLESS_REFUSED = hf.Retry(never=(Refused,))


# ── The actors: goods and money ─────────────────────────────────────────────────────────────────────────────────────


class Supply(hf.Actor):
    """Something that is counted: how much is free, how much is held for which order, how much is gone for good."""

    lack: ClassVar[str]

    free: int = 0
    held: dict[str, int] = hf.field(default_factory=dict[str, int])
    gone: int = 0

    async def add(self, count: int) -> None:
        self.free += count

    async def hold(self, order: str, count: int) -> None:
        if count > self.free:
            raise Refused(self.lack)
        self.free -= count
        self.held[order] = self.held.get(order, 0) + count

    async def release(self, order: str) -> None:
        self.free += self.held.pop(order, 0)

    async def settle(self, order: str) -> None:
        self.gone += self.held.pop(order, 0)


class Stock(Supply, app=app):
    """An article, in pieces."""

    lack = "sold out"


class Wallet(Supply, app=app):
    """A customer's money, in cents."""

    lack = "not enough money"


# ── The workflow ────────────────────────────────────────────────────────────────────────────────────────────────────
# An attempt of a step may be repeated. Under the step's key, an actor applies the call once.


@app.step(raises=(Refused,), retry=UNLESS_REFUSED)
async def hold(order: str, sku: str, quantity: int) -> tuple[str, str]:
    await Stock.at(sku, request_id=hf.current().idempotency_key).hold(order, quantity)
    return sku, order


@hold.undo
async def release(held: tuple[str, str]) -> None:
    sku, order = held
    await Stock.at(sku).release(order)


@app.step(raises=(Refused,), retry=UNLESS_REFUSED)
async def charge(order: Order) -> Order:
    await Wallet.at(order.customer, request_id=hf.current().idempotency_key).hold(order.id, order.cents)
    return order


@charge.undo
async def refund(order: Order) -> None:
    await Wallet.at(order.customer).release(order.id)


@app.step(raises=(Refused,), retry=UNLESS_REFUSED)
async def print_label(order: Order) -> None:
    if order.country == "Atlantis":
        raise Refused("nobody delivers to Atlantis")


@app.workflow
async def process(order: Order) -> str:
    """Ship the order and take its price, or do neither. Answers how it ended."""
    try:
        async with hf.saga():
            for sku, quantity in order.lines.items():
                await hold(order.id, sku, quantity)
            await charge(order)
            await print_label(order)
    except Refused as refused:
        return str(refused)
    await Wallet.at(order.customer).settle(order.id)
    for sku in order.lines:
        await Stock.at(sku).settle(order.id)
    return "shipped"


# ── See it work ─────────────────────────────────────────────────────────────────────────────────────────────────────

CUSTOMERS = [f"customer-{number}" for number in range(40)]
PIECES, CENTS = 150, 150_000


def orders(count: int) -> Iterator[Order]:
    random = Random(7)
    for number in range(count):
        lines = {sku: random.randint(1, 3) for sku in random.sample(sorted(PRICES), random.randint(1, 3))}
        country = "Atlantis" if random.random() < 0.05 else "Norway"
        yield Order(f"order-{number}", random.choice(CUSTOMERS), country, lines)


async def story() -> None:
    await asyncio.gather(*(Stock.at(sku).add(PIECES) for sku in PRICES))
    await asyncio.gather(*(Wallet.at(customer).add(CENTS) for customer in CUSTOMERS))
    placed = list(orders(300))
    twice = await asyncio.gather(*(process.start(order, id=order.id) for order in [*placed, *placed]))
    endings = await asyncio.gather(*twice)
    print(f"{len(placed)} orders, each sent twice:")
    for ending, count in Counter(endings[: len(placed)]).most_common():
        print(f"  {count:3} {ending}")
    assert endings[len(placed) :] == endings[: len(placed)], "an order that was sent again ended otherwise"
    shipped = [order for order, ending in zip(placed, endings, strict=False) if ending == "shipped"]
    for sku in PRICES:
        await audit("Stock", sku, PIECES, gone=sum(order.lines.get(sku, 0) for order in shipped))
    for customer in CUSTOMERS:
        await audit("Wallet", customer, CENTS, gone=sum(each.cents for each in shipped if each.customer == customer))
    print("the books are even: what was shipped was paid for, all else is back where it was")


async def audit(actor: str, key: str, begun: int, gone: int) -> None:
    state = (await app.actor(actor, key).status()).state
    assert state == {"free": begun - gone, "held": {}, "gone": gone}, f"{actor} {key}: {state}, not {gone} gone"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        app.home_url = f"sqlite:///{folder}/orders.db"
        app.run(story())


if __name__ == "__main__":
    main()
