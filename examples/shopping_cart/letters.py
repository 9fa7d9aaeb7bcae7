"""Letters to customers: consumers of what the checkout publishes. Each event is handled once, each letter has a key."""

from __future__ import annotations

import asyncio

from examples.shopping_cart.checkout import OrderDeclined, OrderPlaced
from examples.shopping_cart.outside import Outside
from examples.shopping_cart.shop import app

import holdfast as hf


@app.consumer(OrderPlaced)
async def confirm_by_letter(event: OrderPlaced, outside: Outside = hf.injected) -> None:
    text = f"Thank you for your order of {event.cents / 100:.2f}."
    await asyncio.to_thread(outside.post, f"confirmed {event.order}", event.customer, text)


@app.consumer(OrderDeclined)
async def apologise_by_letter(event: OrderDeclined, outside: Outside = hf.injected) -> None:
    text = f"We could not take your order: {event.reason}. Your cart is as it was."
    await asyncio.to_thread(outside.post, f"declined {event.order}", event.customer, text)
