"""Queues: limits, keys and rates, retries, cancels, pauses and families, for an oracle that counts what has begun."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from tests.scenarios.messages import send, until

import holdfast as hf
from holdfast.app import App
from holdfast.errors import ExecutionError, ExecutionFailed, InvalidState, Terminal
from holdfast.testing.ledger import Ledger
from holdfast.testing.simulation import Histories, Scenario
from holdfast.testing.world import User
from holdfast.workflows.handle import Handle


async def ended(handle: Handle[Any]) -> str:
    """The result, or how else it ended."""
    try:
        return str(await handle)
    except ExecutionError:
        return (await handle.status()).status


def queued(app: App, ledger: Ledger) -> User:
    """Letters of three tenants: two at once, one of each tenant, which sleep while they have begun."""
    queue = app.queue("letters", limit=2, limit_per_key=1)
    ledger.allow("letters", 2, limit_per_key=1)

    @app.step
    async def stamp(number: int) -> int:
        await asyncio.sleep(1)
        return ledger.effect(number)

    @app.workflow(queue=queue, queue_key="tenant")
    async def letter(tenant: str, number: int) -> int:
        first = await stamp(number)
        await hf.sleep(20)
        return first + await stamp(100 + number)

    async def user() -> int:
        handles = [await letter.start("abc"[number % 3], number, id=f"l{number}") for number in range(6)]
        return sum(await asyncio.gather(*handles))

    return user


def in_line(app: App, ledger: Ledger) -> User:
    """What is done to executions that wait behind one that waits for its signal."""
    queue = app.queue("line", limit=1)
    ledger.allow("line", 1)

    @app.step
    async def serve(name: str) -> str:
        return ledger.effect(name)

    @app.workflow(queue=queue)
    async def customer(name: str) -> str:
        if name == "first":
            await hf.signal("go", str)
        return await serve(name)

    async def user() -> list[str]:
        first = await customer.start("first", id="first")
        await until(first, "SUSPENDED", "COMPLETED")
        others = [await customer.start(name, id=name) for name in ("cancelled", "paused", "stopped", "plain")]
        cancelled, paused, stopped, _ = others
        with suppress(InvalidState):
            await cancelled.cancel("not needed")
        with suppress(InvalidState):
            await paused.pause()
        with suppress(InvalidState):
            await stopped.terminate("not at all")
        await asyncio.sleep(20)
        with suppress(InvalidState):
            await paused.resume()
        await until(cancelled, "CANCELLED")
        await send(first, "go", "gone", id="go")
        return [await ended(each) for each in (first, *others)]

    return user


def tried_again(app: App, ledger: Ledger) -> User:
    """Executions that fail, and are retried while others wait: they wait again."""
    queue = app.queue("again", limit=2)
    ledger.allow("again", 2)

    @app.step
    async def deliver(number: int) -> int:
        await asyncio.sleep(3)
        if number % 2 and not ledger.notes.get("mended"):
            raise Terminal("the van is broken")
        return ledger.effect(number)

    @app.workflow(queue=queue)
    async def order(number: int) -> int:
        await hf.sleep(number)
        return await deliver(number)

    async def user() -> list[str]:
        handles = [await order.start(number, id=str(number)) for number in range(5)]
        for handle in handles:
            await ended(handle)
        ledger.notes["mended"] = True
        for handle in handles:
            with suppress(InvalidState):
                await handle.retry()
        return [await ended(handle) for handle in handles]

    return user


def churned(app: App, ledger: Ledger) -> User:
    """Executions that fail again and again and are retried at once, behind one that is terminated with its slot."""
    queue = app.queue("churn", limit=1)
    ledger.allow("churn", 1)

    @app.step
    async def deliver(number: int) -> int:
        tries = ledger.notes[f"tries {number}"] = ledger.notes.get(f"tries {number}", 0) + 1
        if tries < 4:
            raise Terminal("the van is broken")
        return ledger.effect(number)

    @app.workflow(queue=queue)
    async def parcel(number: int) -> int:
        if number < 0:
            await hf.signal("never")
        return await deliver(number)

    async def delivered(handle: Handle[int]) -> str:
        while True:
            try:
                return str(await handle)
            except ExecutionFailed:
                with suppress(InvalidState):
                    await handle.retry()
                await asyncio.sleep(0.1)

    async def user() -> list[str]:
        first = await parcel.start(-1, id="first")
        await until(first, "SUSPENDED")
        handles = [await parcel.start(number, id=str(number)) for number in range(4)]
        with suppress(InvalidState):
            await first.terminate("in the way")
        return [*await asyncio.gather(*map(delivered, handles)), await ended(first)]

    return user


def family(app: App, ledger: Ledger) -> User:
    """Parents whose children share their slot, also when both are retried."""
    queue = app.queue("family", limit=1)
    ledger.allow("family", 1)

    @app.step
    async def work(name: str) -> str:
        await asyncio.sleep(2)
        if name == "b" and not ledger.notes.get("mended"):
            raise Terminal("not today")
        return ledger.effect(name)

    @app.workflow(queue=queue)
    async def child(name: str) -> str:
        await hf.sleep(10)
        return await work(name)

    @app.workflow(queue=queue)
    async def parent(name: str) -> str:
        return await child(name)

    async def user() -> list[str]:
        handles = [await parent.start(name, id=name) for name in ("a", "b")]
        for handle in handles:
            await ended(handle)
        ledger.notes["mended"] = True
        with suppress(InvalidState):
            await handles[1].retry()
        return [await ended(handle) for handle in handles]

    return user


def spaced(app: App, ledger: Ledger) -> User:
    """Executions that begin at most every five seconds, of one key at most every ten, some after a delay."""
    queue = app.queue("spaced", rate=hf.Rate(1, per="5s"), rate_per_key=hf.Rate(1, per="10s"))
    ledger.allow("spaced", 1_000)

    @app.workflow(queue=queue)
    async def tick(number: int) -> int:
        return number

    async def user() -> int:
        handles = [
            await tick.start(number, id=str(number), queued=hf.Queued(key=f"k{number % 2}", delay=number % 3))
            for number in range(5)
        ]
        return sum(await asyncio.gather(*handles))

    return user


def purged(app: App, ledger: Ledger) -> User:
    """An order ends what waits under one key, behind one that waits for its signal: a child, whose parent has to learn
    of it, is among it.
    """
    queue = app.queue("purged", limit=1)
    ledger.allow("purged", 1)

    @app.step
    async def clear(name: str) -> str:
        return ledger.effect(name)

    @app.workflow(queue=queue, queue_key="key")
    async def chore(name: str, key: str) -> str:
        if key == "first":
            await hf.signal("go", str)
        return await clear(name)

    @app.workflow
    async def boss(name: str) -> str:
        try:
            return await chore(name, "gone")
        except ExecutionError as error:
            return type(error).__name__

    async def user() -> list[str]:
        first = await chore.start("first", "first", id="first")
        await until(first, "SUSPENDED")
        asks = await boss.start("asked", id="boss")
        await until(asks, "SUSPENDED")
        gone = [await chore.start(f"gone-{number}", "gone", id=f"gone-{number}") for number in range(2)]
        kept = [await chore.start(f"kept-{number}", "kept", id=f"kept-{number}") for number in range(2)]
        await queue.purge(key="gone")
        while (await asks.status()).status != "COMPLETED":  # its child may have come late, by a clock that is ahead
            await asyncio.sleep(20)
            await queue.purge(key="gone")
        answers = [await ended(each) for each in (*gone, asks)]
        await send(first, "go", "gone", id="go")
        return [*answers, *[await ended(each) for each in (first, *kept)]]

    return user


def held_up(app: App, ledger: Ledger) -> User:
    """A queue is paused and resumed, and its limit is raised, while executions sleep with a slot and others wait."""
    queue = app.queue("held up", limit=1)
    ledger.allow("held up", 1)

    @app.step
    async def pass_by(number: int) -> int:
        return ledger.effect(number)

    @app.workflow(queue=queue)
    async def car(number: int) -> int:
        passed = await pass_by(number)
        await hf.sleep(15)
        return passed

    async def user() -> list[int]:
        cars = [await car.start(number, id=f"car-{number}") for number in range(3)]
        await queue.pause()
        cars += [await car.start(number, id=f"car-{number}") for number in range(3, 6)]
        await asyncio.sleep(20)
        ledger.allow("held up", 2)
        await queue.change(limit=2)
        await queue.resume()
        for each in cars:
            while (await each.status()).status != "COMPLETED":  # a user who stood still may have paused it again
                await asyncio.sleep(20)
                await queue.resume()
        return [await each for each in cars]

    return user


SCENARIOS: Final[Sequence[Scenario]] = (
    Scenario("queued", queued),
    Scenario("in line", in_line, histories=Histories.FREE),
    Scenario("tried again", tried_again, histories=Histories.FREE),
    Scenario("churned", churned, histories=Histories.FREE),
    Scenario("queued family", family, histories=Histories.FREE),
    Scenario("spaced", spaced),
    Scenario("purged", purged, histories=Histories.FREE, has_client=True),
    Scenario("held up", held_up, has_client=True),
)
