"""Children: awaited, detached, cancelled, failing, and many at once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

import holdfast as hf
from holdfast.app import App
from holdfast.errors import ExecutionFailed, Terminal
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


SCENARIOS: Final[Sequence[Scenario]] = (
    Scenario("awaited child", awaited, histories=Histories.REORDERED),
    Scenario("detached child", detached),
    Scenario("abandoned child", abandoned),
    Scenario("failing child", failing),
)
