"""The demonstration: a customer who clicks twice, a card that is declined, a price that changes; then the books."""

from __future__ import annotations

import asyncio

from examples.shopping_cart.books import audit
from examples.shopping_cart.browser import Browser


async def story(port: int) -> None:
    """Drive the shop at this port over HTTP, and check that what it claims is so."""
    ann = Browser(port)
    first = await ann.post("/cart/lines", {"sku": "mug"})
    assert first.status == 200, first
    await asyncio.gather(*(ann.post("/cart/lines", {"sku": "mug"}) for _ in range(9)))
    as_guest = dict(ann.cookies)
    await ann.post("/login", {"name": "ann"})
    cart = (await ann.get("/cart")).data
    assert cart["lines"] == {"mug": 10}, cart
    print("a guest clicks ten times at once and logs in: there are 10 mugs in her cart")
    stolen = await Browser(port, as_guest).get("/cart")
    assert stolen.data["lines"] == {}, stolen
    print("the cookie she had as a guest is worth nothing now")

    stale = await ann.put("/cart/lines/mug", {"quantity": 1, "version": cart["version"] + 1})
    assert stale.status == 409, stale
    wish = {"card": "visa", "cents": cart["cents"]}
    answers = await asyncio.gather(*(ann.post("/checkout", wish, key="click") for _ in range(20)))
    assert {(each.status, each.data["order"]) for each in answers} == {(201, answers[0].data["order"])}
    print("she checks out 20 times at once under one key: one order, confirmed")

    bob = Browser(port)
    await bob.post("/cart/lines", {"sku": "bench", "quantity": 2})
    declined = await bob.post("/checkout", {"card": "declined", "cents": 49_800}, key="try")
    assert declined.status == 402, declined
    assert (await bob.get("/cart")).data["lines"] == {"bench": 2}
    print(f"bob's card is refused ({declined.data['reason']}): the benches are free again, and in his cart")

    await bob.put("/products/bench/price", {"cents": 19_900})
    outdated = await bob.post("/checkout", {"card": "visa", "cents": 49_800}, key="try again")
    assert outdated.status == 402, outdated
    paid = await bob.post("/checkout", {"card": "visa", "cents": 39_800}, key="once more")
    assert paid.status == 201, paid
    print("benches get cheaper: an order at the old price is refused, one at the new price is confirmed")

    print(f"the books are even: {await audit()}")
