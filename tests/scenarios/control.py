"""Control from outside: cancel, time-out, pause and resume, terminate, retry, fork."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from tests.scenarios.messages import send, until

import holdfast as hf
from holdfast.app import App
from holdfast.errors import ExecutionError, InvalidState, Terminal
from holdfast.testing.ledger import Ledger
from holdfast.testing.simulation import Histories, Scenario
from holdfast.testing.world import User
from holdfast.workflows.handle import Handle


async def stop(handle: Handle[Any]) -> None:
    """Cancel, as a user does who begins again after a crash."""
    with suppress(InvalidState):
        await handle.cancel("enough")


def cancelled(app: App, ledger: Ledger) -> User:
    """A cancelled execution whose clean-up has two steps."""

    @app.step
    async def release(what: str) -> None:
        await asyncio.sleep(5)
        ledger.effect(what)

    @app.workflow
    async def reservation() -> str:
        try:
            return await hf.signal("confirm", str)
        finally:
            await release("room")
            await release("parking")

    async def user() -> str:
        handle = await reservation.start(id="one")
        await until(handle, "SUSPENDED")
        await stop(handle)
        return await handle

    return user


def out_of_time(app: App, ledger: Ledger) -> User:
    """An execution that runs past its own timeout, with a clean-up that takes longer than a lease."""

    @app.step
    async def release(what: str) -> None:
        await asyncio.sleep(20)
        ledger.effect(what)

    @app.workflow(timeout="2m")
    async def offer() -> str:
        try:
            return await hf.signal("accept", str)
        finally:
            await release("room")
            await release("parking")

    async def user() -> str:
        return await (await offer.start(id="one"))

    return user


def paused(app: App, ledger: Ledger) -> User:
    """An execution that is paused between two steps and resumed later."""

    @app.step
    async def work(number: int) -> int:
        await asyncio.sleep(2)
        return ledger.effect(number)

    @app.workflow
    async def night_shift() -> int:
        return await work(1) + await work(2) + await work(4)

    async def user() -> int:
        handle = await night_shift.start(id="one")
        await asyncio.sleep(1)
        with suppress(InvalidState):
            await handle.pause()
        await asyncio.sleep(30)
        with suppress(InvalidState):
            await handle.resume()
        return await handle

    return user


def terminated(app: App, ledger: Ledger) -> User:
    """An execution that is ended at once: its clean-up does not run."""

    @app.step
    async def release() -> None:
        ledger.effect("released")

    @app.workflow
    async def reservation() -> None:
        try:
            await hf.signal("confirm")
        finally:
            await release()

    async def user() -> None:
        handle = await reservation.start(id="one")
        await until(handle, "SUSPENDED")
        with suppress(InvalidState):
            await handle.terminate("closed for good")
        await handle

    return user


def mended(app: App, ledger: Ledger) -> User:
    """An execution that fails, and is retried once its cause is mended: finished steps stay finished (G2)."""

    @app.step
    async def prepare() -> str:
        return ledger.effect("prepared")

    @app.step
    async def deliver(what: str) -> str:
        if not ledger.notes.get("mended"):
            raise Terminal("the van is broken")
        return ledger.effect(f"{what}, delivered")

    @app.workflow
    async def order() -> str:
        return await deliver(await prepare())

    async def user() -> str:
        handle = await order.start(id="one")
        try:
            return await handle
        except ExecutionError:
            ledger.notes["mended"] = True
        with suppress(InvalidState):
            await handle.retry()
        return await handle

    return user


def kept(app: App, ledger: Ledger) -> User:
    """An error that the body keeps and raises in the end: what it has done since is not done again (G2)."""

    @app.step
    async def prepare() -> str:
        if not ledger.notes.get("mended"):
            raise Terminal("the oven is cold")
        return ledger.effect("prepared")

    @app.step
    async def charge(cents: int) -> str:
        return ledger.effect(f"charged {cents}")

    @app.step
    async def tell(what: str) -> str:
        return ledger.effect(what)

    @app.workflow
    async def order() -> list[str]:
        cake, tea = await asyncio.gather(prepare(), tell("tea"), return_exceptions=True)
        paid = await charge(500)
        told = await tell(f"cake: {cake}")
        if isinstance(cake, Exception):
            raise cake
        return [str(cake), str(tea), paid, told]

    async def user() -> list[str]:
        handle = await order.start(id="one")
        try:
            return await handle
        except ExecutionError:
            ledger.notes["mended"] = True
        with suppress(InvalidState):
            await handle.retry()
        return await handle

    return user


def forked(app: App, ledger: Ledger) -> User:
    """An execution that has ended, and another one that begins in its middle."""

    @app.step
    async def draw() -> int:
        return ledger.effect(7)

    @app.step
    async def paint(number: int) -> str:
        return ledger.effect(f"{number} cats")

    @app.workflow
    async def picture() -> str:
        number = await draw()
        number += hf.random().randrange(1_000) * 0
        await hf.sleep(10)
        return await paint(number)

    async def user() -> tuple[str, str]:
        handle = await picture.start(id="one")
        first = await handle
        with suppress(InvalidState):
            await handle.fork("two", before="paint#0")
        return first, await picture.handle("two")

    return user


def late_signal(app: App, ledger: Ledger) -> User:
    """A signal to an execution that is being paused and resumed."""

    @app.workflow
    async def wait() -> str:
        return await hf.signal("go", str)

    async def user() -> str:
        handle = await wait.start(id="one")
        with suppress(InvalidState):
            await handle.pause()
        await send(handle, "go", "gone", id="go")
        await asyncio.sleep(5)
        with suppress(InvalidState):
            await handle.resume()
        return await handle

    return user


SCENARIOS: Final[Sequence[Scenario]] = (
    Scenario("cancelled", cancelled, histories=Histories.FREE),
    Scenario("out of time", out_of_time),
    Scenario("paused", paused),
    Scenario("terminated", terminated),
    Scenario("mended", mended),
    Scenario("kept error", kept, histories=Histories.FREE),
    Scenario("forked", forked),
    Scenario("late signal", late_signal),
)
