"""Handlers that call others, and run again: in another order, or long after they were set aside."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from tests.scenarios.mail import LOOK_SECONDS, TWICE, handled

import holdfast as hf
from holdfast.app import App
from holdfast.errors import NotFound
from holdfast.retry import Jitter, Retry
from holdfast.testing.ledger import Ledger
from holdfast.testing.simulation import Scenario
from holdfast.testing.world import User

WINDOW_SECONDS: Final = 60
"""Longer than a write may be under way to whom it calls: what comes later is not known to be a repeat any more."""
ORDERS: Final = (1, 2)


def in_another_order(app: App, ledger: Ledger) -> User:
    """A method that reads once more in each run, and whose branches come the other way round."""

    class Till(hf.Actor, app=app):
        paid: dict[str, int] = hf.field(default_factory=dict[str, int])

        async def pay(self, what: str) -> None:
            self.paid[what] = self.paid.get(what, 0) + 1
            self.paid = dict(sorted(self.paid.items()))

        @hf.read
        async def all(self) -> dict[str, int]:
            return self.paid

    # Attempts enough, for those that chaos ends count too.
    class Shop(hf.Actor, app=app, retry=Retry(max_attempts=100, initial="1s", max_delay="10s", jitter=Jitter.NONE)):
        sold: int = 0

        async def sell(self) -> None:
            runs = ledger.notes["runs"] = ledger.notes.get("runs", 0) + 1
            for _ in range(runs):
                await Till.at("t").all()
            goods = ["pen", "ink", "pen"]
            await asyncio.gather(*(Till.at("t").pay(each) for each in (goods if runs % 2 else goods[1:] + goods[:1])))
            if runs < 3:
                raise ValueError("sold out")
            self.sold += 1

    async def user() -> dict[str, int]:
        await hf.send(Shop.at("s").sell, request_id="one")
        await handled(app.actor("Shop", "s"))
        return await Till.at("t").all()

    return user


def long_after(app: App, ledger: Ledger) -> User:
    """Messages that call over two actors, are set aside, and are redriven when those replies would be gone."""

    class Bank(hf.Actor, app=app, reply_window=WINDOW_SECONDS):
        cents: int = 0

        async def book(self, cents: int) -> int:
            self.cents += cents
            return self.cents

        @hf.read
        async def balance(self) -> int:
            return self.cents

    class Till(hf.Actor, app=app, reply_window=WINDOW_SECONDS):
        paid: int = 0

        async def pay(self, order: int) -> None:
            await Bank.at("b").book(order)
            if order == 2 and not ledger.notes.get("mended"):
                raise ValueError("the till is jammed")
            self.paid += 1

    class Shop(hf.Actor, app=app, retry=TWICE):
        sold: list[int] = hf.field(default_factory=list[int])

        async def sell(self, order: int) -> None:
            await Till.at("t").pay(order)
            if not ledger.notes.get("mended"):
                raise ValueError("the shop is closed")
            self.sold = sorted([*self.sold, order])

    async def user() -> int:
        shop = app.actor("Shop", "s")
        for order in ORDERS:
            await hf.send(Shop.at("s").sell, order, request_id=f"order {order}")
        while not ledger.notes.get("mended"):
            await asyncio.sleep(LOOK_SECONDS)
            if len(await shop.parked()) >= len(ORDERS):  # a user who comes again sends again
                await asyncio.sleep(2 * WINDOW_SECONDS)
                ledger.notes["mended"] = True
        while (waiting := await shop.messages()) or await shop.parked():
            for message in () if waiting else await shop.parked():
                with suppress(NotFound):
                    await shop.unpark(message.place)
            await asyncio.sleep(LOOK_SECONDS)
        return await Bank.at("b").balance()

    return user


SCENARIOS: Final[Sequence[Scenario]] = (
    Scenario("in another order", in_another_order),
    Scenario("redriven long after", long_after),
)
