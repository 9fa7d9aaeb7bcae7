"""The same checkout as a workflow: the order is in the code, and a saga undoes what was done."""

from __future__ import annotations

import asyncio

from examples.checkout_machine.shop import CardDeclined, Item, Order, Shop, SoldOut

import holdfast as hf

PATIENT = hf.Retry(max_attempts=4, initial="2s", jitter=hf.Jitter.NONE, never=(CardDeclined,))


def declare(app: hf.App, shop: Shop) -> hf.Workflow[[Order], dict[str, str]]:
    """The workflow ``checkout`` of an app."""

    @app.step(retry=hf.Retry(max_attempts=1), raises=(SoldOut,))
    def reserve(order: str, item: Item) -> int:
        return shop.reserve(order, item["sku"], item["count"])

    @app.step(retry=PATIENT, timeout="30s", raises=(CardDeclined,))
    def charge(order: str, cents: int) -> str:
        return shop.charge(order, cents)

    @app.step
    def ship(order: str) -> str:
        return shop.ship(order)

    @app.step(retry=hf.Retry(max_attempts=11))
    def give_back(order: str) -> None:
        shop.give_back(order)

    @app.workflow
    async def checkout(order: Order) -> dict[str, str]:
        try:
            await asyncio.gather(*(reserve(order["id"], item) for item in order["items"]))
            await charge(order["id"], order["cents"])
        except Exception:
            await give_back(order["id"])
            raise
        return {"parcel": await ship(order["id"])}

    return checkout
