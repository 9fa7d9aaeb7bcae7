"""Limits of calls: steps and methods that tell how many of them run by loans that last, and when each began."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from msgspec import Struct

import holdfast as hf
from holdfast.app import App
from holdfast.errors import StepInterrupted
from holdfast.flow.lender import Pool
from holdfast.flow.permits import Wanted, lenders_of
from holdfast.testing.ledger import Ledger
from holdfast.testing.simulation import Histories, Scenario
from holdfast.testing.virtual_time import current_scope
from holdfast.testing.world import User

RATE: Final = hf.Rate(2, per="4s", burst=2)
SPAN_SECONDS: Final = 4.0


class Call(Struct, eq=False):
    """A call that runs: in which process, of which limit and key, and by which loan."""

    process: Any
    limit: str
    key: str
    pool: Pool
    loan: int

    @property
    def counts(self) -> bool:
        """Whether it runs, and its process says that its loan lasts."""
        return not self.process.dead and self.pool.lasts(self.loan)


@asynccontextmanager
async def inside(app: App, ledger: Ledger, name: str, most: int, key: str = "") -> AsyncGenerator[None]:
    """A call is here; with it no more are than may."""
    running: list[Call] = ledger.notes.setdefault("running", [])
    limit: hf.Limit = app.registry.limits[name]
    pool = lenders_of(app.runtime()).pool(Wanted(limit.partition, key, 1, limit.numbers))
    call = Call(current_scope.get(), name, key, pool, pool.loan)
    if not pool.lasts(call.loan):
        ledger.violations.append(f"a call of {name} began without a loan (G16)")
    running.append(call)
    counted = [each for each in running if each.counts and (each.limit, each.key) == (name, key)]
    if len(counted) > most:
        ledger.violations.append(f"{len(counted)} calls of {name} run, over {most} (G16)")
    ledger.notes.setdefault("began", []).append(asyncio.get_running_loop().time())
    try:
        yield
    finally:
        running.remove(call)


def limited(app: App, ledger: Ledger) -> User:
    """Steps of which two may run at once, for a second or two, and others that need a permit of another limit, too."""
    limit, other = app.limit("limited", permits=2), app.limit("another", permits=1)

    @app.step(limit=limit)
    async def work(number: int) -> int:
        async with inside(app, ledger, "limited", 2):
            await asyncio.sleep(1 + number % 2)
            return ledger.effect(number)

    @app.step(limit=[limit, other])
    async def work_alone(number: int) -> int:
        async with inside(app, ledger, "limited", 2), inside(app, ledger, "another", 1):
            await asyncio.sleep(1)
            return ledger.effect(number)

    @app.workflow
    async def job(number: int) -> int:
        then = work_alone if number % 2 else work
        return await work(number) + await then(10 + number)

    async def user() -> int:
        handles = [await job.start(number, id=f"l{number}") for number in range(4)]
        return sum(await asyncio.gather(*handles))

    return user


def keyed(app: App, ledger: Ledger) -> User:
    """Steps of two tenants, one at a time of each, that fail at first and keep no permit between their attempts."""
    limit = app.limit("keyed", permits=1)

    @app.step(limit=limit.of("tenant"), retry=hf.Retry(max_attempts=20, initial="3s", backoff=1))
    async def visit(tenant: str, number: int) -> int:
        async with inside(app, ledger, "keyed", 1, tenant):
            await asyncio.sleep(1)
            if not (ledger.notes.setdefault(f"tried {number}", False)):
                ledger.notes[f"tried {number}"] = True
                raise RuntimeError("the door is locked")
            return ledger.effect(number)

    @app.workflow
    async def round_trip(tenant: str, number: int) -> int:
        return await visit(tenant, number)

    async def user() -> int:
        handles = [await round_trip.start("ab"[number % 2], number, id=f"r{number}") for number in range(4)]
        return sum(await asyncio.gather(*handles))

    return user


def rated(app: App, ledger: Ledger) -> User:
    """Steps that begin twice in four seconds, and of which two may run at once."""
    limit = app.limit("rated", permits=2, rate=RATE)

    @app.step(limit=limit)
    async def ask(number: int) -> int:
        async with inside(app, ledger, "rated", 2):
            await asyncio.sleep(0.5)
            return ledger.effect(number)

    @app.workflow
    async def question(number: int) -> int:
        return await ask(number)

    async def user() -> int:
        handles = [await question.start(number, id=f"q{number}") for number in range(7)]
        return sum(await asyncio.gather(*handles))

    return user


def careful(app: App, ledger: Ledger) -> User:
    """Steps that are at most once: each is begun once, however long it has waited for its permit."""
    limit = app.limit("careful", permits=1)

    @app.step(limit=limit, at_most_once=True)
    async def pay(number: int) -> int:
        ledger.notes.setdefault("paid", Counter())[number] += 1
        async with inside(app, ledger, "careful", 1):
            await asyncio.sleep(1)
            return ledger.effect(number)

    @app.workflow
    async def payment(number: int) -> bool:
        try:
            return await pay(number) == number
        except StepInterrupted:
            return True

    async def user() -> bool:
        handles = [await payment.start(number, id=f"p{number}") for number in range(3)]
        return all(await asyncio.gather(*handles))

    return user


def called(app: App, ledger: Ledger) -> User:
    """Methods of three actors, of which one may run at a time."""
    limit = app.limit("called", permits=1)

    class Desk(hf.Actor, app=app):
        served: int = 0

        @hf.method(limit=limit, timeout=None)  # a process may be stopped within it
        async def serve(self, number: int) -> int:
            async with inside(app, ledger, "called", 1):
                await asyncio.sleep(0.5)
            self.served += number
            return self.served

    async def user() -> list[int]:
        calls = [Desk.at(f"d{number}", request_id=f"c{number}").serve(number) for number in range(3)]
        return list(await asyncio.gather(*calls))

    return user


def too_often(ledger: Ledger) -> list[str]:
    """The times in which more have begun than the rate allows."""
    began = ledger.notes.get("began", [])
    most = max((sum(start <= at < start + SPAN_SECONDS for at in began) for start in began), default=0)
    allowed = RATE.count + RATE.burst - 1
    return [f"{most} calls began within {SPAN_SECONDS:g} s, over {allowed} (G16)"] if most > allowed else []


def twice(ledger: Ledger) -> list[str]:
    """The payments that were begun more often than once."""
    return [
        f"payment {number} began {count} times" for number, count in ledger.notes.get("paid", {}).items() if count > 1
    ]


SCENARIOS: Final[Sequence[Scenario]] = (
    Scenario("limited", limited, histories=Histories.FREE),
    Scenario("limited by key", keyed, histories=Histories.FREE),
    Scenario("rated", rated, histories=Histories.FREE, check=too_often),
    Scenario("limited once", careful, histories=Histories.FREE, ends_vary=True, check=twice),
    Scenario("limited methods", called, histories=Histories.FREE),
)
