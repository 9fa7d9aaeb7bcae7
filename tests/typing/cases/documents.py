"""Documents as users write them. Each line marked ``wrong`` is a mistake that both checkers find, and no other line is."""

from __future__ import annotations

from dataclasses import dataclass

import holdfast as hf
from typing_extensions import assert_type

app = hf.App("shop")


@dataclass
class Order:
    id: str
    cents: int = 0


orders = app.documents(Order, ttl="1h", upcasters={1: lambda old: old})
assert_type(orders, hf.Documents[Order])
assert_type(orders.at("a", "b"), hf.Document[Order])
assert_type(app.document(int, "n"), hf.Document[int])
app.document(int, 7)  # wrong


async def use(order: hf.Document[Order]) -> None:
    assert_type(await order.get(), hf.Versioned[Order])
    assert_type(await order.find(), hf.Versioned[Order] | None)
    made = await order.create(Order("a"), ttl="5m")
    assert_type(made.value.cents, int)
    await order.put(Order("a"), version=made.version)
    assert_type(await order.update(lambda order: Order(order.id, 1)), hf.Versioned[Order])
    assert_type(await order.delete(version=1), bool)
    assert_type((await orders.list("a")).documents, tuple[hf.Versioned[Order], ...])
    await order.create("a")  # wrong
    await order.put(Order("a"))  # wrong
    await order.update(lambda order: order.cents)  # wrong


async def together(order: hf.Document[Order]) -> None:
    async with app.atomic() as tx:
        assert_type(await tx.get(order), Order)
        assert_type(await tx.find(order), Order | None)
        tx.put(order, Order("a"))
        tx.put(order, "a")  # wrong

    async def work(tx: hf.Transaction) -> int:
        return (await tx.get(order)).cents

    assert_type(await app.atomically(work), int)
