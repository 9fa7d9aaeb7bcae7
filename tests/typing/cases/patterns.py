"""State patterns as users write them. Each line marked ``wrong`` is a mistake that both checkers find."""

from __future__ import annotations

from collections.abc import AsyncIterator

import holdfast as hf
from typing_extensions import assert_type

app = hf.App("shop", cache="redis://localhost:6379/0")


class Bank:
    async def ping(self) -> bool:
        return True

    async def charge(self, card: str) -> int:
        return len(card)


# ── Resources ───────────────────────────────────────────────────────────────────────────────────────────────────────


@app.resource(check=Bank.ping, check_every="30s")
async def bank() -> AsyncIterator[Bank]:
    yield Bank()


@app.resource
async def label() -> AsyncIterator[str]:
    yield "x"


@app.step
async def charge(card: str, bank: Bank = hf.injected) -> int:
    return await bank.charge(card)


@app.inject
async def plain(card: str, *, bank: Bank = hf.injected) -> int:
    return await bank.charge(card)


# ── Caches ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@app.cache(ttl="5m", stale="1m")
async def price(sku: str, currency: str = "EUR") -> int | None:
    return 1


# ── Leases ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@app.with_lease("x", ttl="10s")
async def alone(n: int) -> str:
    return str(n)


@app.with_lease("x")
def alone_in_a_thread(n: int) -> str:
    return str(n)


async def lead(held: hf.HeldLease) -> float:
    return held.fence / 2


async def use() -> None:
    assert_type(await bank.get(), Bank)
    assert_type(await label.get(), str)
    assert_type(await charge("visa"), int)
    assert_type(await plain("visa"), int)
    await charge(7)  # wrong
    await plain("visa", "bank")  # wrong

    assert_type(await price("sku"), int | None)
    await price(7)  # wrong
    await price.invalidate("sku", currency="USD")
    await price.invalidate("sku", colour="red")  # wrong
    await price.invalidate_below(3, "sku")
    await price.invalidate_below("sku")  # wrong
    await price.invalidate_all()

    async with app.lease("x", ttl="10s", wait=0) as held:
        assert_type(held, hf.HeldLease)
        assert_type(held.fence, int)
        assert_type(held.check(), int)
    with app.semaphore("x", 3) as permit:
        assert_type(permit.permit, int)
    assert_type(await alone(1), str)
    assert_type(alone_in_a_thread(1), str)
    await alone("1")  # wrong
    assert_type(await app.leader("x").run(lead), float)
    app.lease()  # wrong

    web = app.session("web", idle="30m", on="cache")
    session = await web.start({"user": 7})
    assert_type(session, hf.Session)
    assert_type(await web.find(session.id), hf.Session | None)
    assert_type(await web.rotate(session.id), str)
    app.session("web", on="moon")  # wrong
