"""Carts: one document per customer, under optimistic concurrency.

Adding commutes, so it is tried again until it fits. Setting a quantity does not: whoever says which version he saw is
told if it has changed (`hf.Conflict`), and nothing is written.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from examples.shopping_cart.catalogue import product
from examples.shopping_cart.shop import Lines, Refused, added, app

import holdfast as hf

MOST_LINES = 50
"""A checkout writes each article's stock in one transaction, which holds 100 items."""

MOST_PIECES = 1_000


@dataclass(frozen=True)
class Cart:
    """What somebody wants to buy."""

    lines: Lines = field(default_factory=dict[str, int])


EMPTY = Cart()

carts = app.documents(Cart, name="carts", ttl="30d")


async def look(owner: str) -> hf.Versioned[Cart] | None:
    """The cart, ``None`` if there is none."""
    return await carts.at(owner).find()


async def add(owner: str, sku: str, quantity: int) -> hf.Versioned[Cart]:
    """Put more of an article into the cart. Raises ``Refused``."""
    if await product(sku) is None:
        raise Refused(f"there is no {sku}")
    return await carts.at(owner).update(lambda cart: checked(added(cart.lines, {sku: quantity})), default=EMPTY)


async def set_quantity(owner: str, sku: str, quantity: int, version: int | None) -> hf.Versioned[Cart]:
    """Have so many of an article, 0 for none; with ``version``, only if the cart is as the customer saw it.

    Raises ``Conflict`` with the cart as it is, ``NotFound`` if the article is not in it, ``Refused``.
    """

    def decide(cart: Cart) -> Cart:
        if sku not in cart.lines:
            raise hf.NotFound(f"there is no {sku} in the cart")
        return checked({**cart.lines, sku: quantity})

    if version is None:
        return await carts.at(owner).update(decide)
    seen = await carts.at(owner).get()
    return await carts.at(owner).put(decide(seen.value), version=version)


async def merge(guest: str, member: str) -> None:
    """Move what a guest has chosen into the member's own cart, once: both change in one write."""

    async def work(tx: hf.Transaction) -> None:
        theirs = await tx.find(carts.at(guest))
        mine = await tx.find(carts.at(member)) or EMPTY
        if theirs is not None:
            tx.put(carts.at(member), checked(added(mine.lines, theirs.lines)))
            tx.delete(carts.at(guest))

    await app.atomically(work)


def checked(lines: Lines) -> Cart:
    """A cart of these lines without the empty ones. Raises ``Refused`` if it is too much for one order."""
    cart = replace(EMPTY, lines={sku: quantity for sku, quantity in lines.items() if quantity > 0})
    if len(cart.lines) > MOST_LINES or any(quantity > MOST_PIECES for quantity in cart.lines.values()):
        raise Refused(f"a cart holds up to {MOST_LINES} articles, and up to {MOST_PIECES} pieces of each")
    return cart
