"""The catalogue: documents, behind a cache in memory and, if there is one, in Redis.

What is shown may be half a minute old. So the cache is for showing only: a checkout asks the documents.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from examples.shopping_cart.shop import Lines, Refused, app

import holdfast as hf

log = hf.get_logger("shopping_cart.catalogue")

SHELF = "shelf"
"""The first part of all keys, so that one query lists them."""


@dataclass(frozen=True)
class Product:
    """An article, and what one piece of it costs."""

    sku: str
    title: str
    cents: int


products = app.documents(Product, name="products")


@app.cache(ttl="5m", memory_ttl="30s", missing_ttl="5s", stale_if_error="1h")
async def product(sku: str) -> Product | None:
    """The article as it is shown: from memory (30 s), else from Redis (5 min), else from its document."""
    found = await products.at(SHELF, sku).find()
    return found.value if found is not None else None


async def everything() -> list[Product]:
    """All articles, by their numbers."""
    found: list[Product] = []
    cursor: str | None = None
    while True:
        page = await products.list(SHELF, after=cursor)
        found += [each.value for each in page.documents]
        if (cursor := page.cursor) is None:
            return found


async def add_product(new: Product) -> None:
    """Add an article, unless there is one of its number."""
    try:
        await products.at(SHELF, new.sku).create(new)
    except hf.Conflict:
        return
    await _forget(new.sku)


async def set_price(sku: str, cents: int) -> Product:
    """Change a price. Raises ``NotFound``."""
    changed = await products.at(SHELF, sku).update(lambda old: replace(old, cents=cents))
    await _forget(sku)
    return changed.value


async def shown_total(lines: Lines) -> int:
    """What these lines cost by the prices that are shown, in cents; what is no longer sold costs nothing."""
    shown = {sku: await product(sku) for sku in lines}
    return sum(each.cents * lines[sku] for sku, each in shown.items() if each is not None)


async def true_total(lines: Lines) -> int:
    """What these lines cost now, by the documents, in cents. Raises ``Refused``."""
    total = 0
    for sku, quantity in lines.items():
        found = await products.at(SHELF, sku).find()
        if found is None:
            raise Refused(f"{sku} is no longer sold")
        total += found.value.cents * quantity
    return total


async def _forget(sku: str) -> None:
    try:
        await product.invalidate(sku)
    except hf.StoreError:
        # The price holds. Without Redis, others show the old one until its time is over; a checkout asks the document.
        log.warning("the cache was not told of a change of %s", sku)
