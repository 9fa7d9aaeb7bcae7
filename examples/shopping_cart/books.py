"""The audit: what the shop, the payment service and the post office have written down must be one story.

It looks at the stores themselves, in a process where the app is open, once all is quiet.
"""

from __future__ import annotations

import asyncio
from collections import Counter

from examples.shopping_cart import catalogue, orders, stock
from examples.shopping_cart.orders import Confirmed, Declined, OrderEvent, Submitted
from examples.shopping_cart.outside import outside
from examples.shopping_cart.shop import Lines, added
from examples.shopping_cart.stock import Stock

QUIET_SECONDS = 30.0


async def audit() -> str:
    """Wait until every order has ended and its letter is posted, then compare. Raises ``AssertionError``."""
    async with asyncio.timeout(QUIET_SECONDS):
        while not await is_quiet():
            await asyncio.sleep(0.05)
    await orders.told.catch_up()
    events = [(recorded.key[0], recorded.event, recorded.at_ms) async for recorded in orders.orders.read()]
    confirmed = {order: event for order, event, _ in events if isinstance(event, Confirmed)}
    declined = {order for order, event, _ in events if isinstance(event, Declined)}
    lines = {order: event.lines for order, event, _ in events if isinstance(event, Submitted)}
    assert not confirmed.keys() & declined
    assert lines.keys() == confirmed.keys() | declined

    await payments_match(confirmed, declined)
    await stock_matches({order: lines[order] for order in confirmed})
    await projections_match(events)
    letters = await letters_of()
    assert letters == {*(f"confirmed {order}" for order in confirmed), *(f"declined {order}" for order in declined)}
    return f"{len(confirmed)} orders confirmed and paid for, {len(declined)} declined, {len(letters)} letters"


async def is_quiet() -> bool:
    """Whether each order that began has ended, and its customer has heard so."""
    begun, ended = set[str](), set[str]()
    async for recorded in orders.orders.read():
        (begun if isinstance(recorded.event, Submitted) else ended).add(recorded.key[0])
    return begun == ended and len(await letters_of()) == len(ended)


async def letters_of() -> set[str]:
    return set((await outside.get()).letters())


async def payments_match(confirmed: dict[str, Confirmed], declined: set[str]) -> None:
    """One payment per order that was confirmed, of what the customer agreed to; none of the others stands."""
    payments = (await outside.get()).payments()
    charged = {order: cents for order, (cents, status) in payments.items() if status == "charged"}
    assert charged == {order: event.cents for order, event in confirmed.items()}, charged
    assert payments.keys() - charged.keys() <= declined


async def stock_matches(sold_to: dict[str, Lines]) -> None:
    """Nothing is held any more, and what is gone is what was sold."""
    sold: Lines = {}
    for lines in sold_to.values():
        sold = added(sold, lines)
    for product in await catalogue.everything():
        found = (await stock.stocks.at(product.sku).get()).value
        gone = sold.get(product.sku, 0)
        begun = found.free + found.held + found.sold
        assert found == Stock(free=begun - gone, held=0, sold=gone), f"{product.sku}: {found}, and {gone} were sold"


async def projections_match(events: list[tuple[str, OrderEvent, int]]) -> None:
    """The projections say what one gets by going through all events once more."""
    told: dict[tuple[str, str], orders.Progress] = {}
    days = Counter[str]()
    for order, event, at_ms in events:
        key = (event.customer, order)
        told[key] = orders.become(told.get(key, orders.Progress()), event)
        if isinstance(event, Confirmed):
            days[orders.day_of(at_ms)] += event.cents
    for (customer, order), progress in told.items():
        assert (await orders.history.at(customer, order).get()).value == progress
        assert await orders.progress_of(order) == progress
    page = await orders.sales.list("days", limit=1_000)
    assert {each.key[1]: each.value.cents for each in page.documents} == dict(days)
    assert sum(each.value.orders for each in page.documents) == sum(
        isinstance(event, Confirmed) for _, event, _ in events
    )
