"""Actors that are sent messages: in order, delayed, by timers, poisonous ones, and to and from workflows."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import holdfast as hf
from holdfast.actors.admin.handle import ActorHandle
from holdfast.actors.record import HALTED
from holdfast.app import App
from holdfast.errors import InvalidState, NotFound
from holdfast.retry import Jitter, Retry
from holdfast.testing.ledger import Ledger
from holdfast.testing.simulation import Scenario
from holdfast.testing.world import User

TWICE: Final = Retry(max_attempts=2, initial="2s", jitter=Jitter.NONE)
LOOK_SECONDS: Final = 0.5


async def handled(actor: ActorHandle) -> None:
    """Wait until no message waits for the actor."""
    while await actor.messages():
        await asyncio.sleep(LOOK_SECONDS)


def sent_by_a_client(app: App, ledger: Ledger) -> User:
    """Messages of one sender, each sent twice."""

    class Log(hf.Actor, app=app):
        lines: list[int] = hf.field(default_factory=list[int])

        async def write(self, line: int) -> None:
            ledger.effect(line, key=f"line {line}")
            self.lines.append(line)

    async def user() -> str:
        for line in range(3):
            await hf.send(Log.at("l").write, line, request_id=f"line {line}")
        for line in range(4):
            await hf.send(Log.at("l").write, line, request_id=f"line {line}")
        return "sent"

    return user


def sent_by_a_method(app: App, ledger: Ledger) -> User:
    """Messages that leave with a commit: to two receivers, to a new one, and to itself, in order (G6)."""

    class Cook(hf.Actor, app=app):
        dishes: list[str] = hf.field(default_factory=list[str])

        async def cook(self, dish: str) -> None:
            ledger.effect(dish, key=f"cook {dish}")
            self.dishes.append(dish)

    class Guest(hf.Actor, app=app):
        ordered: int = 0
        paid: list[int] = hf.field(default_factory=list[int])

        async def order(self, menu: int) -> int:
            self.ordered += 1
            for course in ("soup", "cake"):
                await hf.send(Cook.at(course).cook, f"{course} {menu}")
                await hf.send(Cook.at("chef").cook, f"{course} {menu}")
            await hf.send(Guest.at(self.key).pay, menu)
            return self.ordered

        async def pay(self, menu: int) -> None:
            self.paid.append(menu)

    async def user() -> list[int]:
        return [await Guest.at("g", request_id=f"menu {menu}").order(menu) for menu in range(3)]

    return user


def delayed(app: App, ledger: Ledger) -> User:
    """Messages that arrive later, sent from outside and by a method, and one that does not wait for them."""

    class Box(hf.Actor, app=app):
        letters: list[str] = hf.field(default_factory=list[str])

        async def drop(self, letter: str) -> None:
            ledger.effect(letter, key=f"letter {letter}")
            self.letters = sorted([*self.letters, letter])

    class Writer(hf.Actor, app=app):
        written: int = 0

        async def write(self) -> None:
            self.written += 1
            await hf.send(Box.at("b").drop, "after 20 s", delay="20s")

    async def user() -> str:
        await hf.send(Box.at("b").drop, "after 40 s", delay="40s", request_id="1")
        await Writer.at("w", request_id="2").write()
        await hf.send(Box.at("b").drop, "at once", request_id="3")
        return "sent"

    return user


def letters_never_early(ledger: Ledger) -> list[str]:
    """A delayed message comes no earlier than it may (G8)."""
    return _early(ledger, {"letter after 20 s": 20, "letter after 40 s": 40})


def _early(ledger: Ledger, earliest_seconds: dict[str, float]) -> list[str]:
    return [
        f"{each.key} came after {each.at:.3f} s (G8)"
        for each in ledger.log
        if round(each.at, 6) < earliest_seconds.get(each.key, 0)
    ]


def timers(app: App, ledger: Ledger) -> User:
    """Timers that fire once: one, one set anew, one taken back, one under a name of its own."""

    class Alarm(hf.Actor, app=app):
        rung: list[str] = hf.field(default_factory=list[str])

        async def arm(self) -> bool:
            self.ring.after("10s", "too early")
            self.ring.after("30s", "once")
            self.ring["other"].after("1m", "other")
            self.ring["never"].after("20s", "never")
            return self.ring["never"].cancel()

        @hf.timer
        async def ring(self, what: str) -> None:
            ledger.effect(what, key=f"ring {what}")
            self.rung.append(what)

    async def user() -> bool:
        return await Alarm.at("a", request_id="arm").arm()

    return user


def rung_once(ledger: Ledger) -> list[str]:
    """Only what was to ring has rung, and not early (G8)."""
    found = _early(ledger, {"ring once": 30, "ring other": 60})
    expected = {"ring once", "ring other"}
    if (rung := {key for key in ledger.accepted if key.startswith("ring ")}) != expected:
        found.append(f"{sorted(rung)} happened, not {sorted(expected)}")
    return found


def periodic(app: App, ledger: Ledger) -> User:
    """A timer that fires three times, and tells another actor each time."""

    class Display(hf.Actor, app=app):
        shown: list[int] = hf.field(default_factory=list[int])

        async def show(self, count: int) -> None:
            self.shown.append(count)

    class Clock(hf.Actor, app=app):
        ticks: int = 0

        async def start(self) -> None:
            self.tick.every("20s")

        @hf.timer
        async def tick(self) -> None:
            self.ticks += 1
            await hf.send(Display.at("d").show, self.ticks)
            if self.ticks == 3:
                self.tick.cancel()

    async def user() -> None:
        await Clock.at("c", request_id="start").start()

    return user


def parked(app: App, ledger: Ledger) -> User:
    """A message that fails is set aside, the ones behind it go on; mended, it comes back."""

    class Till(hf.Actor, app=app, retry=TWICE):
        cents: list[int] = hf.field(default_factory=list[int])

        async def pay(self, cents: int) -> None:
            ledger.attempt(key=f"pay {cents}")
            self.cents.append(cents)
            if cents < 0:
                raise ValueError("no such coin")

    async def user() -> str:
        till = app.actor("Till", "t")
        for cents in (1, -5, 10):
            await hf.send(Till.at("t").pay, cents, request_id=f"pay {cents}")
        while (waiting := await till.messages()) or await till.parked():
            for message in () if waiting else await till.parked():
                with suppress(NotFound):
                    await till.unpark(message.place, args={"cents": 5})
            await asyncio.sleep(LOOK_SECONDS)
        return "paid"

    return user


def tried_enough(ledger: Ledger) -> list[str]:
    """The message that fails has had its attempts."""
    attempts = ledger.attempts["pay -5"]
    return [] if attempts >= 2 else [f"it was set aside after {attempts} attempts"]


def halted(app: App, ledger: Ledger) -> User:
    """An actor that stops at a message that fails, order kept, until it is resumed."""

    class Ledgerbook(hf.Actor, app=app, retry=TWICE, poison="halt"):
        pages: list[int] = hf.field(default_factory=list[int])

        async def enter(self, page: int) -> None:
            if page == 2 and not ledger.notes.get("mended"):
                raise ValueError("the ink is dry")
            self.pages.append(page)

    async def user() -> str:
        book = app.actor("Ledgerbook", "l")
        for page in (1, 2, 3):
            await hf.send(Ledgerbook.at("l").enter, page, request_id=f"page {page}")
        while await book.messages():
            if (await book.status()).status == HALTED:
                ledger.notes["mended"] = True
                with suppress(InvalidState):
                    await book.resume()
            await asyncio.sleep(LOOK_SECONDS)
        return "entered"

    return user


def from_a_workflow(app: App, ledger: Ledger) -> User:
    """A body that calls and sends, among steps and sleeps."""

    class Account(hf.Actor, app=app):
        entries: list[int] = hf.field(default_factory=list[int])

        async def deposit(self, cents: int) -> int:
            ledger.effect(cents, key=f"deposit {cents}")
            self.entries.append(cents)
            return sum(self.entries)

        async def refuse(self) -> None:
            raise ValueError("no")

    @app.step
    async def note(balance: int) -> int:
        return ledger.effect(balance)

    @app.workflow
    async def saving() -> int:
        await note(await Account.at("a").deposit(1))
        try:
            await Account.at("a").refuse()
        except ValueError:
            await hf.send(Account.at("a").deposit, 10)
        await hf.sleep(30)
        return await note(await Account.at("a").deposit(100))

    async def user() -> int:
        return await (await saving.start(id="one"))

    return user


def starts_a_workflow(app: App, ledger: Ledger) -> User:
    """A method that starts an execution with its commit; the execution sends it a message back."""

    class Desk(hf.Actor, app=app):
        orders: list[int] = hf.field(default_factory=list[int])
        done: list[int] = hf.field(default_factory=list[int])

        async def order(self, number: int) -> int:
            self.orders.append(number)
            await fulfil.start(number, id=f"order {number}")
            return len(self.orders)

        async def finished(self, number: int) -> None:
            self.done = sorted([*self.done, number])

    @app.step
    async def make(number: int) -> int:
        return ledger.effect(number)

    @app.workflow
    async def fulfil(number: int) -> None:
        await make(number)
        await hf.send(Desk.at("d").finished, number)

    async def user() -> list[int]:
        placed = [await Desk.at("d", request_id=f"order {number}").order(number) for number in (1, 2)]
        for number in (1, 2):
            await app.handle("fulfil", f"order {number}")
        await handled(app.actor("Desk", "d"))
        return placed

    return user


SCENARIOS: Final[Sequence[Scenario]] = (
    Scenario("sent by a client", sent_by_a_client),
    Scenario("sent by a method", sent_by_a_method),
    Scenario("delayed", delayed, check=letters_never_early),
    Scenario("timers", timers, check=rung_once),
    Scenario("periodic", periodic),
    Scenario("parked", parked, check=tried_enough),
    Scenario("halted", halted),
    Scenario("from a workflow", from_a_workflow),
    Scenario("starts a workflow", starts_a_workflow),
)
