"""Mistakes that both checkers find. Each line marked ``wrong`` is one, and no other line is."""

from __future__ import annotations

import holdfast as hf

app = hf.App("shop")


@app.step
async def charge(card: str, cents: int) -> str:
    return card


@app.step(timeout="5s")
def blocking(card: str) -> int:
    return 1


@app.transaction
def record(sql: hf.SqlCursor, n: int) -> int:
    return n


@app.workflow
async def child(n: int) -> str:
    return str(n)


@charge.undo  # wrong
async def refund(payment: int) -> None: ...


@app.workflow  # wrong
def not_async(n: int) -> str:
    return str(n)


@app.workflow
async def parent() -> str:
    await charge("c", "1")  # wrong
    await charge("c")  # wrong
    await charge("c", 1, 2)  # wrong
    await charge(card="c", euros=1)  # wrong
    await blocking(1)  # wrong
    await record(None, 1)  # wrong
    await record("1")  # wrong
    await child("one")  # wrong
    number: int = await charge("c", 1)  # wrong
    other: str = await child.start(1)  # wrong
    text: str = await hf.signal("s", int)  # wrong, but mypy tries the overload for other hints
    answer: str = await hf.callback(int)  # wrong, but mypy tries the overload for other hints
    await hf.map(charge, ["c"])  # wrong
    await hf.step("plain", len, 7)  # wrong
    await hf.sleep(None)  # wrong
    charge("c", 1).upper()  # wrong
    return await child(1) + await blocking("c")  # wrong


@app.step(retry=3)  # wrong
async def options() -> None: ...


@app.workflow(version=2)  # wrong
async def versions() -> None: ...


async def outside() -> None:
    handle = child.handle("x")
    await handle.signal(7)  # wrong
    await handle.result(timeout=[])  # wrong
    value: int = await handle  # wrong
    await app.executions(tags={"a": 1})  # wrong
    hf.Retry(max_attempts="3")  # wrong
    hf.Limits(resident="3")  # wrong


@app.idempotent(key="id")
async def bill(id: str) -> int:
    return 1


@app.idempotent()  # wrong
async def keyless(id: str) -> int:
    return 1


async def billing() -> None:
    await bill(1)  # wrong
    text: str = await bill("17")  # wrong
    bill.name  # wrong
