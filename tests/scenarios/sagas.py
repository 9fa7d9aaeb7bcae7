"""Sagas: what was done is undone, latest first, or a person is told."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from tests.scenarios.control import stop
from tests.scenarios.messages import noted, until

import holdfast as hf
from holdfast.app import App
from holdfast.errors import Terminal
from holdfast.retry import Jitter, Retry
from holdfast.testing.ledger import Ledger
from holdfast.testing.simulation import Histories, Scenario
from holdfast.testing.world import User


def _trip(app: App, ledger: Ledger, undo: str) -> User:
    @app.step
    async def book(what: str) -> str:
        await asyncio.sleep(1)
        return ledger.effect(what)

    @book.undo(retry=Retry(max_attempts=2, initial="5s", jitter=Jitter.NONE))
    async def cancel(what: str) -> None:
        await asyncio.sleep(1)
        if what == undo:
            raise ConnectionError("the airline does not answer")
        ledger.effect(f"not {what}")

    @app.step
    async def pay() -> None:
        ledger.attempt()
        raise Terminal("the card was refused")

    @app.workflow
    async def trip() -> str:
        async with hf.saga():
            await book("hotel")
            await book("flight")
            await book("car")
            await pay()
        return "impossible"

    async def user() -> str:
        return await (await trip.start(id="one"))

    return user


def compensated(app: App, ledger: Ledger) -> User:
    """A trip that cannot be paid: everything is cancelled again."""
    return _trip(app, ledger, undo="")


def stuck(app: App, ledger: Ledger) -> User:
    """A trip of which one part cannot be cancelled: the execution says so and leaves the rest."""
    return _trip(app, ledger, undo="flight")


def latest_first(ledger: Ledger) -> list[str]:
    """Undone is what was done, in reverse (I6)."""
    done = [value for key, value in ledger.accepted.items() if "/book#" in key]
    undone = [value.removeprefix("not ") for key, value in ledger.accepted.items() if "/book.undo#" in key]
    expected = list(reversed(done))[: len(undone)]
    return [] if undone == expected else [f"done were {done}, but undone {undone}"]


def cancelled_saga(app: App, ledger: Ledger) -> User:
    """A saga that is cancelled half-way: what is done is undone, and the cancellation does not interrupt that."""

    @app.step
    async def book(what: str) -> str:
        return ledger.effect(what)

    @book.undo
    async def cancel(what: str) -> None:
        await asyncio.sleep(10)
        ledger.effect(f"not {what}")

    @app.workflow
    async def trip() -> str:
        async with hf.saga():
            await book("hotel")
            await book("flight")
            await hf.signal("go")
        return "gone"

    async def user() -> str:
        handle = await trip.start(id="one")
        await until(handle, "SUSPENDED")
        await stop(handle)
        return await handle

    return user


def escaping(app: App, ledger: Ledger) -> User:
    """Branches of a saga, one of which fails while the others have a step under way, and more of them to come.

    Each waits for what the other has come to, and not for so long: of what ends while a process is stopped nobody
    promises the order.
    """

    @app.step
    async def take(what: str, seconds: int) -> str:
        ledger.notes[f"{what} is under way"] = True
        await asyncio.sleep(seconds)
        if what == "reservation":
            await noted(ledger, "the charge has failed")
        return ledger.effect(what)

    @take.undo
    async def give_back(what: str) -> None:
        ledger.notes["the charge has failed"] = True
        await asyncio.sleep(2)
        ledger.effect(f"not {what}")

    @app.step
    async def charge() -> None:
        await noted(ledger, "ribbon is under way")
        raise Terminal("the card was refused")

    @app.step
    async def apologise() -> str:
        return ledger.effect("sorry")

    @app.workflow
    async def order() -> str:
        async def goods() -> None:
            await take("reservation", 10)
            await take("parcel", 10)

        async def wrapped() -> None:
            async with hf.saga():
                await take("paper", 1)
                await take("ribbon", 20)

        try:
            async with hf.saga():
                await asyncio.gather(goods(), wrapped(), charge())
        except Terminal:
            pass
        return await apologise()

    async def user() -> str:
        return await (await order.start(id="one"))

    return user


def interrupted(app: App, ledger: Ledger) -> User:
    """A saga that is cancelled while it is being undone, inside another one: both are undone, and then it stops."""

    @app.step
    async def book(what: str) -> str:
        return ledger.effect(what)

    @book.undo
    async def cancel(what: str) -> None:
        ledger.notes["undoing the ferry"] = True
        await asyncio.sleep(20)
        ledger.effect(f"not {what}")

    @app.step
    async def pay() -> None:
        raise Terminal("the card was refused")

    @app.workflow
    async def trip() -> str:
        async with hf.saga():
            await book("inn")
            try:
                async with hf.saga():
                    await book("ferry")
                    await pay()
            except Terminal:
                await book("coach")
        return "by coach"

    async def user() -> str:
        handle = await trip.start(id="one")
        await noted(ledger, "undoing the ferry")
        await stop(handle)
        return await handle

    return user


TO_BE_UNDONE: Final = ("reservation", "parcel", "paper", "ribbon", "inn", "ferry", "coach")


def nothing_kept(ledger: Ledger) -> list[str]:
    """Whatever was done is undone. Other scenarios may use the same ledger."""
    effects = list(ledger.accepted.values())
    kept = [each for each in TO_BE_UNDONE if effects.count(each) > effects.count(f"not {each}")]
    return [f"{kept} were done and never undone"] if kept else []


SCENARIOS: Final[Sequence[Scenario]] = (
    Scenario("compensated", compensated, check=latest_first),
    Scenario("stuck", stuck, check=latest_first),
    Scenario("escaping", escaping, check=nothing_kept, histories=Histories.REORDERED),
    Scenario(
        "interrupted undo", interrupted, check=nothing_kept, histories=Histories.FREE, effects_depend_on_time=True
    ),
    # They are cancelled as soon as they are suspended, which may come early; a user who begins again asks again.
    Scenario(
        "cancelled saga", cancelled_saga, check=latest_first, histories=Histories.FREE, effects_depend_on_time=True
    ),
)
