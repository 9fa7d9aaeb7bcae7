"""Waiting: sleep, time-outs, polling, asyncio's own primitives, eviction, new runs, patches."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from tests.scenarios.messages import send
from tests.scenarios.steps import idempotency_key

import holdfast as hf
from holdfast.app import App
from holdfast.testing.ledger import Ledger
from holdfast.testing.simulation import Histories, Scenario
from holdfast.testing.world import User, swift

HOUR: Final = 3_600.0


def sleeping(app: App, ledger: Ledger) -> User:
    """Two sleeps of ten minutes; nothing may come early."""

    @app.step
    async def look() -> None:
        ledger.effect("seen")

    @app.workflow
    async def nap() -> bool:
        began = hf.now()
        await hf.sleep("10m")
        await look()
        await hf.sleep("10m")
        await look()
        return (hf.now() - began).total_seconds() >= 1_200

    async def user() -> bool:
        return await (await nap.start(id="one"))

    return user


def never_early(ledger: Ledger) -> list[str]:
    """The steps behind the sleeps come no earlier than those allow (G8)."""
    return [
        f"{each.key} came after {each.at:.3f} s (G8)"
        for each in ledger.log
        if "/look#" in each.key and each.at < (600 if each.key.endswith("#0") else 1_200)
    ]


def timed_out(app: App, ledger: Ledger) -> User:
    """A wait that takes too long, and what is done then."""

    @app.step
    async def remind() -> None:
        ledger.effect("reminded")

    @app.workflow
    async def dunning() -> str:
        for _ in range(2):
            try:
                async with asyncio.timeout(120):
                    await hf.signal("paid")
            except TimeoutError:
                await remind()
        return "sent to court"

    async def user() -> str:
        return await (await dunning.start(id="one"))

    return user


def polling(app: App, ledger: Ledger) -> User:
    """Asking until the answer is yes."""

    @app.step
    async def ready() -> bool:
        return ledger.effect(idempotency_key().endswith("#2"))

    @app.workflow
    async def wait_for_it() -> bool:
        return await hf.poll(every="20s")(ready)

    async def user() -> bool:
        return await (await wait_for_it.start(id="one"))

    return user


def primitives(app: App, ledger: Ledger) -> User:
    """A queue between two tasks, a semaphore, an event and a task group, all inside one body."""

    @app.step
    async def work(number: int) -> int:
        await asyncio.sleep(number % 2)
        return ledger.effect(number)

    @app.workflow
    async def factory() -> list[int]:
        queue: asyncio.Queue[int] = asyncio.Queue(maxsize=1)
        gate, done = asyncio.Semaphore(2), asyncio.Event()
        made: list[int] = []

        async def make(number: int) -> None:
            async with gate:
                await queue.put(await work(number))

        async def ship() -> None:
            while len(made) < 4:
                made.append(await queue.get())
            done.set()

        async with asyncio.TaskGroup() as group:
            group.create_task(ship())
            for number in range(4):
                group.create_task(make(number))
        await done.wait()
        return sorted(made)

    async def user() -> list[int]:
        return await (await factory.start(id="one"))

    return user


def race(app: App, ledger: Ledger) -> User:
    """The first of two steps wins; the other one is cancelled."""

    @app.step
    async def ask(seconds: int) -> int:
        await asyncio.sleep(seconds)
        return ledger.effect(seconds)

    @app.step
    async def accept(offer: int) -> int:
        return ledger.effect(offer)

    @app.workflow
    async def auction() -> int:
        tasks = [asyncio.create_task(ask(seconds)) for seconds in (3_000, 5)]
        finished, others = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in others:
            task.cancel()
        return await accept(sum(task.result() for task in finished))

    async def user() -> int:
        return await (await auction.start(id="one"))

    return user


def folding(app: App, ledger: Ledger) -> User:
    """Three runs of one execution; signals that one has not used are there in the next."""

    @app.step
    async def book(value: int) -> int:
        return ledger.effect(value)

    @app.workflow
    async def account(balance: int = 0, run: int = 0) -> int:
        balance += await book(await hf.signal("deposit", int))
        if run < 2:
            hf.continue_as_new(balance, run + 1)
        return balance

    async def user() -> int:
        handle = await account.start(id="one")
        for number in range(3):
            await send(handle, "deposit", 10**number, id=f"deposit-{number}")
        return await handle

    return user


def patched(app: App, ledger: Ledger) -> User:
    """A new execution passes a patch, and remembers that."""

    @app.step
    async def old() -> None:
        ledger.effect("old")

    @app.step
    async def new() -> None:
        ledger.effect("new")

    @app.workflow
    async def forked() -> bool:
        await old()
        if changed := hf.patched("new-step"):
            await new()
        await hf.sleep(60)
        return changed and hf.patched("new-step")

    async def user() -> bool:
        return await (await forked.start(id="one"))

    return user


def chance(app: App, ledger: Ledger) -> User:
    """Random numbers and ids that are the same on every replay, and differ between the runs of an execution."""

    @app.step
    async def use(drawn: int) -> None:
        ledger.accepted[f"{idempotency_key()} same"] = ledger.notes.setdefault(idempotency_key(), drawn) == drawn

    @app.workflow
    async def lottery(seen: list[str] | None = None) -> bool:
        mine = [str(hf.uuid())]
        await use(hf.random().randrange(1_000_000))
        await hf.sleep(30)
        await use(hf.random().randrange(1_000_000))
        if seen is None:
            hf.continue_as_new(mine)
        return not set(seen) & set(mine)

    async def user() -> bool:
        return await (await lottery.start(id="one"))

    return user


SCENARIOS: Final[Sequence[Scenario]] = (
    Scenario("sleeping", sleeping, check=never_early),
    Scenario(
        "evicted",
        sleeping,
        check=never_early,
        limits=swift(hf.Limits(resident=0, linger_seconds=0.0, near_seconds=0.0)),
    ),
    Scenario("timed out", timed_out),
    Scenario("polling", polling),
    Scenario("primitives", primitives, histories=Histories.REORDERED),
    Scenario("race", race),
    Scenario("folding", folding, histories=Histories.FREE),
    Scenario("patched", patched),
    Scenario("chance", chance),
)
