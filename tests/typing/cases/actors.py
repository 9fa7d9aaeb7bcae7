"""Actors as users write them. Each line marked ``wrong`` is a mistake that both checkers find, and no other line is."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime

import holdfast as hf
from typing_extensions import assert_type

app = hf.App("shop")


@dataclass
class Line:
    sku: str
    n: int


class Cart(hf.Actor, app=app, mailbox=10, reply_window="1h", retry=hf.Retry(max_attempts=2), poison="halt"):
    items: dict[str, int] = hf.field(default_factory=dict)
    lines: list[Line] = hf.field(default_factory=lambda: [Line("a", 1)])
    owner: str | None = None
    limit: int = hf.field(default=10)

    async def add(self, sku: str, n: int = 1) -> int:
        assert_type(self.key, str)
        assert_type(self.items, dict[str, int])
        self.items[sku] = self.items.get(sku, 0) + n
        self.abandon.after("30m")
        self.remind.after("1h", "bob", times=2)
        self.remind["bob"].at(datetime.now(UTC), "bob")
        self.remind.every(60, "bob")
        assert_type(self.remind.cancel(), bool)
        assert_type(self.remind.due_at, datetime | None)
        self.remind.after("1h", 7)  # wrong
        self.abandon.after("1h", "bob")  # wrong
        self.abandon.after(None)  # wrong
        self.remind["bob"].after("5m", "bob", time=2)  # wrong
        self.owner = 7  # wrong
        return len(self.items)

    async def nothing(self) -> None:
        await hf.send(Cart.at("u2").add, "sku", delay="5m")

    async def three(self, a: str, b: int, c: float) -> list[Line]:
        return self.lines

    @hf.read
    async def total(self, *, of: str = "all") -> int:
        return sum(self.items.values())

    @hf.timer
    async def abandon(self) -> None:
        self.items.clear()

    @hf.timer
    async def remind(self, who: str, times: int = 1) -> None: ...


class Counter(hf.Actor, app=app, optimistic=True, upcasters={1: lambda state: state}):
    n: int = 0


class Wrong(hf.Actor, app=app, mailbox="many"):  # wrong
    n: int = hf.field(default="x")  # wrong


async def outside() -> None:
    cart = Cart.at("u1")
    assert_type(cart, Cart)
    assert_type(await cart.add("sku-9"), int)
    assert_type(await Cart.at("u1", request_id="r", timeout="5s").add("sku-9", n=2), int)
    assert_type(await cart.total(), int)
    assert_type(await cart.total(of="one"), int)
    assert_type(await cart.three("a", 1, 1.0), list[Line])
    assert_type(await asyncio.gather(cart.add("a"), cart.total()), tuple[int, int])
    assert_type(await hf.send(cart.add, "sku-9", delay="5m"), hf.Sent | None)
    assert_type(await hf.send(cart.add, "sku-9", 2, request_id="m"), hf.Sent | None)
    assert_type(await hf.send(cart.nothing), hf.Sent | None)
    assert_type(await hf.send(cart.three, "a", 1, 1.0), hf.Sent | None)
    assert_type(await hf.send(cart.add, sku="sku-9", n=1), hf.Sent | None)
    assert_type(await hf.send(cart.add, sku="sku-9", delay=3), hf.Sent | None)
    handle = app.actor("Cart", "u1")
    assert_type(await handle.request_status("r"), str)
    assert_type((await handle.status()).version, int)
    await handle.unpark("place", args={"sku": "x"})
    await cart.add(9)  # wrong
    await cart.add("sku", "2")  # wrong
    await cart.add()  # wrong
    await cart.add("sku", m=1)  # wrong
    text: str = await cart.add("sku")  # wrong
    await cart.total("one")  # wrong
    Cart.at(7)  # wrong
    Cart.at("u1", timeout=[])  # wrong
    Cart.at("u1").unknown()  # wrong
    await hf.send(print, 7)  # wrong
    await hf.send(cart)  # wrong
    await hf.send(cart.add, 7)  # wrong
    await hf.send(cart.add, 7, delay="5m")  # wrong
    await hf.send(cart.add, "sku", "2", request_id="m")  # wrong
    await hf.send(cart.add, "sku", delay=[])  # wrong
    await hf.send(cart.nothing, 1)  # wrong
    Cart.at("u1").remind.after("1h", 7)  # wrong


@app.workflow
async def checkout(key: str) -> int:
    await hf.send(Cart.at(key).add, "gift")
    number: str = await Cart.at(key).add("gift")  # wrong
    return await Cart.at(key).add("gift")
