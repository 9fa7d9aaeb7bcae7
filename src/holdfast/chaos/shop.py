"""The user's code of the stories: orders are published as events, and a consumer bills each of them at the bank.

It knows nothing of crashes. What it changes in the store is exactly once; what it asks of the bank is at least once,
with a key that is the same every time (G10).
"""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import holdfast as hf
from holdfast.chaos.points import open_home, own_part
from holdfast.crew.ledger import LEDGER_FILE, Bank

LIMITS: Final = hf.Limits(
    lease_ms=own_part().lease_ms,
    sweep_seconds=0.25,  # how often the others check whether a process has died
    linger_seconds=0.05,
    courtesy_ms=10,
)
RETRY: Final = hf.Retry(max_attempts=own_part().attempts, initial="50ms", backoff=1)
BROKEN: Final = "broken"
"""The customer whose orders crash their worker."""

app = hf.App("chaos", home=open_home, limits=LIMITS)


@dataclass
class OrderPlaced:
    """A customer has ordered something."""

    order: str
    customer: str
    cents: int


class NoAddress(Exception):
    """The invoice has nowhere to go."""


@app.consumer(OrderPlaced, retry=RETRY)
async def bill(event: OrderPlaced) -> None:
    """Charge for an order, send the invoice, and enter it into the books."""
    if event.customer == BROKEN:
        os.kill(os.getpid(), signal.SIGKILL)  # as a bug in a C library would
    info = hf.current()
    assert isinstance(info, hf.HandlerInfo)
    Bank(Path(own_part().folder) / LEDGER_FILE).charge(event.order, event.cents, info.idempotency_key)
    if not await Customer.at(event.customer).address_on_file():
        raise NoAddress(f"{event.customer} has no address: where does the invoice of {event.order} go?")
    await hf.send(Books.at("shop").enter, event.order)


class Customer(hf.Actor, app=app):
    """A customer, with an address unless it was lost."""

    address: str = "1 Kelp Street"

    async def move_to(self, address: str) -> None:
        """Change the address."""
        self.address = address

    @hf.read
    async def address_on_file(self) -> str:
        """Where invoices go."""
        return self.address


class Books(hf.Actor, app=app):
    """The shop's own books: how often each order was entered. Once, if all is well."""

    entered: dict[str, int] = hf.field(default_factory=dict[str, int])

    async def open(self) -> None:
        """Begin the books, with nothing in them."""

    async def enter(self, order: str) -> None:
        """Enter an order."""
        self.entered[order] = self.entered.get(order, 0) + 1


class Shop(hf.Actor, app=app):
    """Takes orders, and publishes them with its commit: events of one actor are handled in their order."""

    orders: int = 0

    async def place(self, orders: list[OrderPlaced]) -> None:
        """Take some orders at once."""
        for order in orders:
            self.orders += 1
            await app.publish(order)
