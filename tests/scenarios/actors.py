"""Actors that are called: with request ids, in chains, from a process that only calls; deleted, outdated."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from msgspec import Raw

import holdfast as hf
from holdfast.actors.record import SUSPENDED, ActorRecord, encode_record, partition_of
from holdfast.app import App
from holdfast.items import Item
from holdfast.testing.ledger import Ledger
from holdfast.testing.simulation import Scenario
from holdfast.testing.world import Database, MemoryDatabase, User


def requests(app: App, ledger: Ledger) -> User:
    """Calls with ids, some of them together, each made twice."""

    class Account(hf.Actor, app=app):
        entries: list[int] = hf.field(default_factory=list[int])

        async def deposit(self, cents: int) -> int:
            self.entries = sorted([*self.entries, cents])
            return sum(self.entries)

    async def deposit(cents: int) -> int:
        return await Account.at("a", request_id=f"deposit {cents}").deposit(cents)

    async def user() -> tuple[int, int, bool, int]:
        first = [await deposit(1), *await asyncio.gather(deposit(10), deposit(100))]
        again = [await deposit(1), *await asyncio.gather(deposit(10), deposit(100))]
        return first[0], max(first), again == first, await deposit(1_000)

    return user


def durable_replies(app: App, ledger: Ledger) -> User:
    """A method whose result differs each time it runs: nobody hears of one that is not durable (G7)."""

    class Urn(hf.Actor, app=app):
        drawn: int = 0

        async def draw(self) -> int:
            ledger.attempt(key="draw")
            self.drawn += 1
            return ledger.attempts["draw"]

    async def user() -> str:
        for number in range(4):
            value = await Urn.at("u", request_id=f"draw {number}").draw()
            heard = ledger.notes.setdefault(str(number), value)
            ledger.effect(heard == value, key=f"heard the same of {number}")
        return "over"

    return user


def chain(app: App, ledger: Ledger) -> User:
    """One actor calls another one, which calls a third, twice; the third has an effect on the world."""

    class Courier(hf.Actor, app=app):
        parcels: list[str] = hf.field(default_factory=list[str])

        async def ship(self, what: str) -> int:
            ledger.effect(what, key=f"ship {what}")
            self.parcels.append(what)
            return len(self.parcels)

    class Stock(hf.Actor, app=app):
        taken: dict[str, int] = hf.field(default_factory=dict[str, int])

        async def take(self, what: str) -> int:
            self.taken[what] = self.taken.get(what, 0) + 1
            return await Courier.at("c").ship(what) + 10 * await Courier.at("c").ship(f"invoice of {what}")

    class Shop(hf.Actor, app=app):
        orders: list[str] = hf.field(default_factory=list[str])

        async def order(self, what: str) -> int:
            number = await Stock.at("s").take(what)
            self.orders.append(f"{what} {number}")
            return number

    async def user() -> tuple[int, int, int]:
        first = await Shop.at("shop", request_id="order 1").order("book")
        second = await Shop.at("shop", request_id="order 2").order("lamp")
        return first, second, await Shop.at("shop", request_id="order 1").order("book")

    return user


def from_outside(app: App, ledger: Ledger) -> User:
    """A process that only calls, without request ids: it hears of each call once, whichever worker applies it."""

    class Account(hf.Actor, app=app):
        entries: list[int] = hf.field(default_factory=list[int])

        async def deposit(self, cents: int) -> int:
            self.entries.append(cents)
            return sum(self.entries)

        async def fail(self) -> None:
            self.entries.append(-1)
            raise ValueError("no")

    class Bank(hf.Actor, app=app):
        booked: int = 0

        async def book(self, cents: int) -> int:
            self.booked += 1
            return await Account.at("a").deposit(cents)

    async def user() -> list[int]:
        account = Account.at("a")
        heard = [await account.deposit(1), await account.deposit(10)]
        try:
            await account.fail()
        except ValueError:
            heard += sorted(await asyncio.gather(account.deposit(100), account.deposit(100)))
        return [*heard, await Bank.at("b").book(1_000)]

    return user


def recreated(app: App, ledger: Ledger) -> User:
    """An actor that is deleted and begins anew, and is deleted again."""

    class Visit(hf.Actor, app=app):
        pages: list[str] = hf.field(default_factory=list[str])

        async def see(self, page: str) -> list[str]:
            self.pages.append(page)
            return self.pages

    async def user() -> list[list[str]]:
        seen = [await Visit.at("v", request_id="1").see("home")]
        if "deleted" not in ledger.notes:
            await app.actor("Visit", "v").delete()
            ledger.notes["deleted"] = True
        seen.append(await Visit.at("v", request_id="2").see("news"))
        await app.actor("Visit", "v").delete()
        return seen

    return user


def optimistic(app: App, ledger: Ledger) -> User:
    """Calls without a lease: with ids, together, and one that calls an actor with a lease."""

    class Total(hf.Actor, app=app):
        cents: int = 0

        async def add(self, cents: int) -> int:
            self.cents += cents
            return self.cents

    class Counter(hf.Actor, app=app, optimistic=True):
        count: int = 0

        async def add(self, number: int) -> int:
            self.count += number
            return self.count

        async def report(self) -> int:
            self.count += 1_000
            return await Total.at("t").add(self.count)

    def counter(id: str) -> Counter:
        return Counter.at("c", request_id=id)

    async def user() -> list[int]:
        first = await counter("1").add(1)
        both = await asyncio.gather(counter("2").add(10), counter("3").add(100))
        return [first, max(both), await counter("1").add(1), await counter("4").report()]

    return user


def outdated(app: App, ledger: Ledger) -> User:
    """An actor whose state was written by older code."""

    def to_cents(old: dict[str, Any]) -> dict[str, Any]:
        return {"cents": old["euros"] * 100}

    def with_currency(old: dict[str, Any]) -> dict[str, Any]:
        return {**old, "currency": "EUR"}

    class Purse(hf.Actor, app=app, upcasters={1: to_cents, 2: with_currency}):
        cents: int = 0
        currency: str = ""

        async def put(self, cents: int) -> str:
            self.cents += cents
            return f"{self.cents} {self.currency}"

    async def user() -> list[str]:
        return [await Purse.at("p", request_id=f"put {number}").put(number) for number in (1, 2)]

    return user


def old_purse() -> Database:
    """A database with a purse from before its two upcasters."""
    database = MemoryDatabase()
    record = ActorRecord(schema=1, state=Raw(b'{"euros":3}'))
    database.data.set(Item(partition_of("Purse", "p"), status=SUSPENDED, epoch=7, body=encode_record(record)))
    return database


SCENARIOS: Final[Sequence[Scenario]] = (
    Scenario("requests", requests),
    Scenario("durable replies", durable_replies),
    Scenario("chain of calls", chain),
    Scenario("calls from outside", from_outside, has_client=True, alone=True),
    Scenario("recreated", recreated, alone=True),
    Scenario("optimistic", optimistic),
    Scenario("outdated", outdated, database=old_purse, alone=True),
)
