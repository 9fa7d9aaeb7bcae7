"""A program as users write it: both checkers, strict, have nothing to say about it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from uuid import UUID

import holdfast as hf
from typing_extensions import assert_type

app = hf.App("shop", home="memory://", limits=hf.Limits(resident=10))


@dataclass
class Order:
    id: str
    total: Decimal


class Declined(hf.Terminal):
    pass


@app.step
async def charge(card: str, cents: int, *, currency: str = "EUR") -> str:
    return f"{card} {cents} {currency}"


@charge.undo
async def refund(payment: str) -> None: ...


@app.step(retry=hf.Retry(max_attempts=5, initial="1s"), timeout="30s", raises=(Declined,))
def price(order: Order) -> Decimal:
    return order.total


@price.undo(ambiguous=True, retry=hf.Retry(max_attempts=2))
async def unprice(total: Decimal | None) -> None: ...


@app.step(name="ids", at_most_once=True)
async def ids() -> list[UUID]:
    return []


class Billing:
    @app.step
    async def bill(self, card: str, cents: int) -> str:
        return f"{card} {cents}"

    @bill.undo
    async def unbill(self, payment: str) -> None: ...

    @app.step(timeout="5s")
    def total(self, cents: int) -> Decimal:
        return Decimal(cents)


@app.transaction
def record(sql: hf.SqlCursor, order: str, cents: int) -> int:
    sql.execute("INSERT INTO orders VALUES (?, ?)", (order, cents))
    return cents


@app.transaction(retry=hf.Retry(max_attempts=1), raises=(Declined,))
def forget(sql: hf.SqlCursor, order: str) -> None:
    sql.execute("DELETE FROM orders WHERE id = ?", (order,))


@app.workflow
async def child(n: int) -> str:
    return str(n)


@app.workflow(version="2", versions="pinned", timeout="1h")
async def checkout(order: Order, express: bool = False) -> Decimal:
    assert_type(await charge("c", 1), str)
    assert_type(await charge(card="c", cents=1, currency="USD"), str)
    assert_type(await price(order), Decimal)
    assert_type(await ids(), list[UUID])
    assert_type(await Billing().bill("c", 1), str)
    assert_type(await Billing().total(1), Decimal)
    assert_type(await record("o-1", 3), int)
    await forget("o-1")
    assert_type(await child(3), str)
    assert_type(await asyncio.gather(charge("c", 1), price(order)), tuple[str, Decimal])
    async with hf.saga(), asyncio.timeout(60), asyncio.TaskGroup() as group:
        task = group.create_task(price(order))
    assert_type(task.result(), Decimal)
    assert_type(await hf.signal("approval", Order), Order)
    assert_type(await hf.signal("n", int, timeout="5m"), int)
    answer = hf.callback(Order, timeout="1d", heartbeat=60)
    assert_type(answer, hf.Callback[Order])
    assert_type(answer.token, str)
    assert_type(await answer, Order)
    batch = await hf.map(price, [order], concurrency=3)
    assert_type(batch.succeeded, list[Decimal])
    assert_type(await hf.step("plain", len, "abc"), int)
    assert_type(await hf.step(charge, "c", 1, name="charge:c"), str)
    assert_type(await hf.poll(every="1s")(charge, "c", 1), str)
    assert_type(await hf.wait_for(charge, "c", 1), str)
    assert_type(hf.now(), datetime)
    assert_type(hf.uuid(), UUID)
    assert_type(hf.patched("p"), bool)
    handle = await child.start(1, id="c", tags={"a": "b"}, timeout="5m")
    assert_type(handle, hf.Handle[str])
    assert_type(await handle, str)
    assert_type(await handle.result(timeout=5), str)
    await handle.signal("go", 1)

    @hf.query
    def state() -> str:
        return "working"

    assert_type(state(), str)
    if express:
        hf.continue_as_new(order)
    return order.total


class CardDeclined(Exception): ...


@app.idempotent(key="order.id", window="24h", final=(CardDeclined,))
async def bill(order: Order, *, cents: int = 1) -> Decimal:
    return order.total


def number_of(tenant: str, number: int) -> int:
    return number


@app.idempotent(key=("tenant", number_of), payload=())
def bill_now(tenant: str, number: int) -> list[str]:
    return [tenant]


async def outside() -> None:
    assert_type(await bill(Order("o", Decimal(1)), cents=2), Decimal)
    assert_type(bill_now("a", number=1), list[str])
    assert_type(await app.idempotency("bill").get("o"), hf.IdempotencyRecord | None)
    async with app.worker() as opened:
        assert_type(opened, hf.App)
    async with app:
        assert_type(await checkout(Order("o", Decimal(1))), Decimal)
        handle = await checkout.start(Order("o", Decimal(1)), id="o")
        assert_type(await handle, Decimal)
        assert_type(checkout.handle("o"), hf.Handle[Decimal])
        assert_type((await handle.status()).status, str)
        awaitable: Awaitable[Decimal] = handle
        await awaitable
        await handle.cancel("no")
        await handle.retry()
        assert_type(await handle.fork("o-2", before="charge#0"), hf.Handle[Decimal])
        page = await app.executions("checkout", status="FAILED", tags={"a": "b"}, limit=10)
        assert_type([each.id for each in page.executions], list[str])
        await app.callback("token").complete(Order("o", Decimal(1)))


async def main() -> int:
    return 1


assert_type(app.run(main()), int)
assert_type(charge.name, str)
with app.sync(worker=True) as run:
    assert_type(run(checkout(Order("o", Decimal(1)))), Decimal)
    assert_type(run(run(checkout.start(Order("o", Decimal(1))))), Decimal)
