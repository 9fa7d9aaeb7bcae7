"""Events: published by actors, clients, bodies and consumers; carried, repeated, set aside, mended; handled once each.

Ledger keys are the scenarios' own, since places of events follow the clock; that idempotency keys stay the same over
all attempts is checked beside them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from msgspec import Raw

import holdfast as hf
from holdfast.actors.record import HALTED
from holdfast.app import App
from holdfast.errors import InvalidState, NotFound
from holdfast.messaging.outbox import Entry, consumer_name
from holdfast.retry import Jitter, Retry
from holdfast.testing.ledger import Ledger
from holdfast.testing.simulation import Histories, Scenario
from holdfast.testing.world import User

TWICE: Final = Retry(max_attempts=2, initial="2s", jitter=Jitter.NONE)
LOOK_SECONDS: Final = 0.5


@dataclass
class Placed:
    """Something was ordered."""

    order: int


@dataclass
class Packed:
    """It is ready."""

    order: int


def handle(ledger: Ledger, consumer: str, event: Any) -> None:
    """What a consumer does to the world outside, and a note of the key it was given for it."""
    keys: dict[str, set[str]] = ledger.notes.setdefault("keys", {})
    label = f"{consumer} {event.order}"
    keys.setdefault(label, set()).add(hf.current().idempotency_key)
    ledger.notes.setdefault("order", []).append(label)
    ledger.effect(event.order, key=label)


def packed(ledger: Ledger) -> list[str]:
    """What the consumer ``pack`` has done, of all that was done in a world."""
    return [label for label in ledger.accepted if label.startswith("pack ")]


def one_key_each(ledger: Ledger) -> list[str]:
    """Each event has one key for each of its consumers, on every attempt."""
    keys: dict[str, set[str]] = ledger.notes.get("keys", {})
    found = [f"{label} was handled under {sorted(each)} (G10)" for label, each in keys.items() if len(each) != 1]
    if len(set[str]().union(*keys.values())) != len(keys):
        found.append(f"different handlings had the same key: {keys} (G10)")
    return found


def in_order(ledger: Ledger) -> list[str]:
    """And each consumer has met the events of the one actor in their order, for the first time (G6)."""
    first: dict[str, list[int]] = {}
    for label in dict.fromkeys(ledger.notes.get("order", [])):
        consumer, _, order = label.partition(" ")
        first.setdefault(consumer, []).append(int(order))
    wrong = {consumer: orders for consumer, orders in first.items() if orders != sorted(orders)}
    return [*one_key_each(ledger), *(f"{each}: {orders} (G6)" for each, orders in wrong.items())]


def published_by_an_actor(app: App, ledger: Ledger) -> User:
    """An actor's events, for two consumers, one of which tells another actor."""

    class Stock(hf.Actor, app=app):
        taken: list[int] = hf.field(default_factory=list[int])

        async def take(self, order: int) -> None:
            self.taken.append(order)

    class Shop(hf.Actor, app=app):
        orders: int = 0

        async def order(self, count: int) -> int:
            for _ in range(count):
                self.orders += 1
                await app.publish(Placed(self.orders))
            return self.orders

    @app.consumer(Placed)
    async def bill(event: Placed) -> None:
        handle(ledger, "bill", event)

    @app.consumer(Placed)
    async def ship(event: Placed) -> None:
        handle(ledger, "ship", event)
        await hf.send(Stock.at("s").take, event.order)

    async def user() -> list[int]:
        return [await Shop.at("s", request_id=f"order {count}").order(count) for count in (1, 2)]

    return user


def published_by_a_client(app: App, ledger: Ledger) -> User:
    """Events under ids, each published twice; what their consumer publishes and starts comes once too."""

    @app.step
    async def fetch(order: int) -> int:
        return ledger.effect(order)

    @app.workflow
    async def packing(order: int) -> None:
        await fetch(order)
        await app.publish(Packed(order))

    @app.consumer(Placed)
    async def pack(event: Placed) -> None:
        handle(ledger, "pack", event)
        await packing.start(event.order, id=f"packing {event.order}")

    @app.consumer(Packed)
    async def send_off(event: Packed) -> None:
        handle(ledger, "send_off", event)

    async def user() -> str:
        for order in (1, 1, 2, 1, 2):
            await app.publish(Placed(order), id=f"order {order}")
        return "published"

    return user


def delivered_again(app: App, ledger: Ledger) -> User:
    """Events that arrive once more when they are handled, as from a relay that slept after it had read them."""

    class Stock(hf.Actor, app=app):
        taken: list[int] = hf.field(default_factory=list[int])

        async def take(self, order: int) -> None:
            self.taken.append(order)

    class Shop(hf.Actor, app=app):
        orders: int = 0

        async def order(self, count: int) -> int:
            for _ in range(count):
                self.orders += 1
                await app.publish(Placed(self.orders))
            return self.orders

    @app.consumer(Placed)
    async def pack(event: Placed) -> None:
        ledger.effect(event.order, key=f"pack {event.order}")
        await hf.send(Stock.at("s").take, event.order)

    async def user() -> int:
        await Shop.at("s", request_id="first").order(2)
        handler = app.actor(consumer_name("simulation", "pack"), "actor#Shop#s")
        while len(packed(ledger)) < 2 or await handler.messages():
            await asyncio.sleep(LOOK_SECONDS)
        if "mark" not in ledger.notes:
            ledger.notes["mark"] = (await handler.status()).state["mark"]
        repeat = Entry(
            event="Placed",
            id="again",
            group="actor#Shop#s",
            data=Raw(b'{"order":2}'),
            place=ledger.notes["mark"],
            published_at=0,
        )
        await app.outbox.put(repeat)
        return await Shop.at("s", request_id="second").order(2)

    return user


def set_aside(app: App, ledger: Ledger) -> User:
    """Events of an actor that fail: the ones behind them go on, and those set aside come back later, once."""

    class Shop(hf.Actor, app=app):
        orders: int = 0

        async def order(self) -> int:
            for _ in range(3):
                self.orders += 1
                await app.publish(Placed(self.orders))
            return self.orders

    class Stock(hf.Actor, app=app):
        taken: list[int] = hf.field(default_factory=list[int])

        async def take(self, order: int) -> None:
            self.taken = sorted([*self.taken, order])  # which comes back first is a matter of luck

    @app.consumer(Placed, retry=TWICE)
    async def pack(event: Placed) -> None:
        await hf.send(Stock.at("s").take, event.order)
        if event.order < 3 and not ledger.notes.get("pack is mended"):
            raise ValueError("it does not fit")
        handle(ledger, "pack", event)

    async def user() -> str:
        await Shop.at("s", request_id="order").order()
        pack = app.actor(consumer_name("simulation", "pack"), "actor#Shop#s")
        while len(packed(ledger)) < 3:
            with suppress(NotFound):
                if not await pack.messages():
                    ledger.notes["pack is mended"] = True
                    for message in reversed(await pack.parked()):
                        await pack.unpark(message.place)
            await asyncio.sleep(LOOK_SECONDS)
        return "packed"

    return user


def halting(app: App, ledger: Ledger) -> User:
    """A consumer that halts at an event, order kept, until it is resumed."""

    class Shop(hf.Actor, app=app):
        orders: int = 0

        async def order(self) -> int:
            for _ in range(3):
                self.orders += 1
                await app.publish(Placed(self.orders))
            return self.orders

    @app.consumer(Placed, retry=TWICE, poison="halt")
    async def pack(event: Placed) -> None:
        if event.order == 2 and not ledger.notes.get("pack is mended"):
            raise ValueError("it does not fit")
        handle(ledger, "pack", event)

    async def user() -> str:
        await Shop.at("s", request_id="order").order()
        pack = app.actor(consumer_name("simulation", "pack"), "actor#Shop#s")
        while len(packed(ledger)) < 3:
            with suppress(NotFound, InvalidState):
                if (await pack.status()).status == HALTED:
                    ledger.notes["pack is mended"] = True
                    await pack.resume()
            await asyncio.sleep(LOOK_SECONDS)
        return "packed"

    return user


@dataclass
class Sold:
    """Something was sold at a till, or on the web."""

    till: str
    number: int


WEB: Final = "web"


def of_many(app: App, ledger: Ledger) -> User:
    """Events of several actors and of clients, for two consumers that fail at times.

    What each consumer has handled is in a journal of its own, an actor that it tells with its commit: once each, those
    of a till in their order, those that stand alone in any.
    """

    class Journal(hf.Actor, app=app):
        entries: list[int] = hf.field(default_factory=list[int])

        async def enter(self, number: int) -> None:
            self.entries.append(number)
            if self.key.endswith(WEB):
                self.entries.sort()

    class Till(hf.Actor, app=app):
        sales: int = 0

        async def sell(self, count: int) -> int:
            for _ in range(count):
                self.sales += 1
                await app.publish(Sold(self.key, self.sales))
            return self.sales

    async def enter(consumer: str, event: Sold) -> None:
        label = f"{consumer} {event.till} {event.number}"
        await hf.send(Journal.at(f"{consumer} {event.till}").enter, event.number)
        tried: set[str] = ledger.notes.setdefault("tried", set())
        if event.number % 3 == 0 and label not in tried:
            tried.add(label)
            raise ConnectionError("try again")

    @app.consumer(Sold)
    async def count(event: Sold) -> None:
        await enter("count", event)

    @app.consumer(Sold)
    async def reorder(event: Sold) -> None:
        await enter("reorder", event)

    async def user() -> list[int]:
        totals: list[int] = []
        for number in (1, 2, 3):
            totals += [await Till.at(till, request_id=f"{till} {number}").sell(2) for till in ("north", "south")]
            await app.publish(Sold(WEB, number), id=f"web {number}")
        return totals

    return user


SCENARIOS: Final[Sequence[Scenario]] = (
    Scenario("events of an actor", published_by_an_actor, check=in_order),
    Scenario("events of a client", published_by_a_client, histories=Histories.REORDERED, check=one_key_each),
    Scenario("events delivered again", delivered_again),
    Scenario("events set aside", set_aside, check=one_key_each),
    Scenario("events that halt", halting, check=in_order),
    Scenario("events of many", of_many),
)
