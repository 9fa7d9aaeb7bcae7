"""Children: awaited, detached, cancelled, failing, and many at once; and executions that others await."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import holdfast as hf
from holdfast.app import App
from holdfast.errors import ExecutionError, ExecutionFailed, ExecutionTerminated, InvalidState, Terminal
from holdfast.testing.ledger import Ledger
from holdfast.testing.simulation import Histories, Scenario
from holdfast.testing.world import User


def awaited(app: App, ledger: Ledger) -> User:
    """A child with a step and a sleep, and its parent, which waits for it."""

    @app.step
    async def pack(box: int) -> int:
        return ledger.effect(box)

    @app.workflow
    async def parcel(box: int) -> int:
        await hf.sleep(30)
        return await pack(box)

    @app.workflow
    async def shipment() -> int:
        first = await parcel(1)
        return first + sum(await asyncio.gather(parcel(10), parcel(100)))

    async def user() -> int:
        return await (await shipment.start(id="one"))

    return user


def detached(app: App, ledger: Ledger) -> User:
    """A child that lives on after its parent has ended."""

    @app.step
    async def mail() -> None:
        await asyncio.sleep(2)
        ledger.effect("sent")

    @app.workflow
    async def newsletter() -> None:
        await hf.sleep(60)
        await mail()

    @app.workflow
    async def signup() -> str:
        await newsletter.start(id="news")
        return "welcome"

    async def user() -> str:
        return await (await signup.start(id="one"))

    return user


def abandoned(app: App, ledger: Ledger) -> User:
    """A child whose parent waits no longer: it is cancelled, and its clean-up takes its time."""

    @app.step
    async def clean_up() -> None:
        await asyncio.sleep(20)
        ledger.effect("cleaned up")

    @app.step
    async def apologise() -> None:
        ledger.effect("sorry")

    @app.workflow
    async def search() -> str:
        try:
            return await hf.signal("found", str)
        finally:
            await clean_up()
            await clean_up()

    @app.workflow
    async def impatient() -> str:
        try:
            async with asyncio.timeout(30):
                return await search()
        except TimeoutError:
            await apologise()
            await hf.sleep(10)
            return "gave up"

    async def user() -> str:
        return await (await impatient.start(id="one"))

    return user


def failing(app: App, ledger: Ledger) -> User:
    """A child that fails, and a parent that goes on."""

    @app.step
    async def explode() -> None:
        ledger.effect("bang")
        raise Terminal("boom")

    @app.workflow
    async def fragile() -> None:
        await explode()

    @app.workflow
    async def sturdy() -> str:
        try:
            await fragile()
        except ExecutionFailed as error:
            return f"{error.error_type}: {error.error_message}"
        return "impossible"

    async def user() -> str:
        return await (await sturdy.start(id="one"))

    return user


def mended(app: App, ledger: Ledger) -> User:
    """Children of a parent that fails and is retried: one had failed by itself, one was cancelled because of that, with
    a child of its own. What they had finished stays finished (G2).
    """

    @app.step
    async def work(name: str) -> str:
        return ledger.effect(name)

    @app.step
    async def deliver() -> str:
        if not ledger.notes.get("mended"):
            raise Terminal("the van is broken")
        return ledger.effect("delivered")

    @app.workflow
    async def delivery() -> str:
        await work("loaded")
        await hf.sleep(20)
        return await deliver()

    @app.workflow
    async def dish() -> str:
        await work("washed")
        await hf.sleep(60)
        return await work("cooked")

    @app.workflow
    async def dinner() -> str:
        return f"{await work('table laid')}, {await dish()}"

    @app.workflow
    async def party() -> list[str]:
        return list(await asyncio.gather(dinner(), delivery()))

    async def user() -> list[str]:
        handle = await party.start(id="one")
        try:
            return await handle
        except ExecutionError:
            ledger.notes["mended"] = True
        with suppress(InvalidState):
            await handle.retry()
        return await handle

    return user


def by_handle(app: App, ledger: Ledger) -> User:
    """Executions that somebody else started, awaited by handle: one has ended before, one ends meanwhile, and one goes
    on as a new run first.
    """

    @app.step
    async def work(name: str) -> str:
        return ledger.effect(name)

    @app.workflow
    async def brief(seconds: int) -> str:
        await hf.sleep(seconds)
        return await work(f"brief {seconds}")

    @app.workflow
    async def lasting(lap: int) -> str:
        await hf.sleep(40)
        if lap < 1:
            hf.continue_as_new(lap + 1)
        return await work("lasting")

    @app.workflow
    async def waiting() -> list[str]:
        handles = (brief.handle("before"), brief.handle("after"), brief.handle("after"), lasting.handle("lasting"))
        return list(await asyncio.gather(*handles))

    async def user() -> list[str]:
        await (await brief.start(0, id="before"))
        await brief.start(30, id="after")
        await lasting.start(0, id="lasting")
        return await (await waiting.start(id="one"))

    return user


def awaited_and_terminated(app: App, ledger: Ledger) -> User:
    """An execution that somebody else started is awaited by handle, and terminated."""

    @app.step
    async def note(error: str) -> None:
        ledger.effect(error)

    @app.workflow
    async def endless() -> None:
        await hf.signal("never")

    @app.workflow
    async def waiting() -> None:
        try:
            await endless.handle("endless")
        except ExecutionTerminated as error:
            await note(str(error))

    async def user() -> None:
        doomed = await endless.start(id="endless")
        handle = await waiting.start(id="one")
        await asyncio.sleep(10)
        with suppress(InvalidState):
            await doomed.terminate("enough")
        await handle

    return user


def short_lived(app: App, ledger: Ledger) -> User:
    """Children that expire long before a crash of their parent is noticed: none runs twice, and what they came to is
    not lost.
    """

    @app.step
    async def work(name: str) -> str:
        return ledger.effect(name)

    @app.workflow(retention="1s")
    async def brief(name: str, seconds: int) -> str:
        await hf.sleep(seconds)
        return await work(name)

    @app.workflow
    async def parent() -> list[str]:
        return [await work("begun"), *await asyncio.gather(brief("short", 1), brief("long", 5)), await work("done")]

    async def user() -> list[str]:
        return await (await parent.start(id="one"))

    return user


SCENARIOS: Final[Sequence[Scenario]] = (
    Scenario("awaited child", awaited, histories=Histories.REORDERED),
    Scenario("detached child", detached),
    Scenario("abandoned child", abandoned, effects_depend_on_time=True),  # it may be cancelled before it begins
    Scenario("failing child", failing),
    Scenario("mended children", mended, histories=Histories.FREE),
    Scenario("short-lived child", short_lived, histories=Histories.REORDERED),
    Scenario("awaited by handle", by_handle, histories=Histories.REORDERED),
    Scenario("awaited and terminated", awaited_and_terminated),
)
