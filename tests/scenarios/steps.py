"""Steps: one after another, beside each other, failing, at most once, blocking."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Sequence
from typing import Final, cast

import holdfast as hf
from holdfast.app import App
from holdfast.errors import InvalidState, StepInterrupted
from holdfast.ports import INLINE_BYTES
from holdfast.replay.naming import place
from holdfast.retry import Jitter, Retry
from holdfast.testing.ledger import Ledger
from holdfast.testing.simulation import Histories, Scenario
from holdfast.testing.world import User
from holdfast.workflows.scope import StepInfo

AT_THE_LAUNCH: Final = " at the launch"
PATIENT: Final = Retry(max_attempts=3, initial="10s", jitter=Jitter.NONE)


def attempt() -> int:
    """Which attempt of its step this is."""
    return cast("StepInfo", hf.current()).attempt


def idempotency_key() -> str:
    """The idempotency key of the step that is running."""
    return cast("StepInfo", hf.current()).idempotency_key


def sequential(app: App, ledger: Ledger) -> User:
    """Three steps, each of which takes a second."""

    @app.step
    async def charge(cents: int) -> int:
        await asyncio.sleep(1)
        return ledger.effect(cents)

    @app.workflow
    async def checkout(items: int) -> int:
        return sum([await charge(cents) for cents in range(items)])

    async def user() -> int:
        return await (await checkout.start(3, id="one"))

    return user


def blocking(app: App, ledger: Ledger) -> User:
    """Steps that are plain functions."""

    @app.step
    def charge(cents: int) -> int:
        return ledger.effect(cents)

    @app.workflow
    async def checkout() -> list[int]:
        return [await charge(1), await charge(2)]

    async def user() -> list[int]:
        return await (await checkout.start(id="one"))

    return user


def parallel(app: App, ledger: Ledger) -> User:
    """Steps beside each other, of different lengths, and one that needs them all."""

    @app.step
    async def quote(seconds: int) -> int:
        await asyncio.sleep(seconds)
        return ledger.effect(seconds)

    @app.step
    async def choose(quotes: list[int]) -> int:
        return ledger.effect(min(quotes))

    @app.workflow
    async def tender() -> int:
        return await choose(list(await asyncio.gather(quote(3), quote(1), quote(2))))

    async def user() -> int:
        return await (await tender.start(id="one"))

    return user


def in_places(app: App, ledger: Ledger) -> User:
    """Steps and waits in places that the body names, in an order of tasks that differs from that of the places."""

    @app.step
    async def ship(item: int) -> int:
        await asyncio.sleep(item)
        return ledger.effect(item)

    async def visit(item: int) -> int:
        with place(f"Map#0[{item}]/Ship#0"):
            await hf.sleep(10)
            return await ship(item)

    @app.workflow
    async def order() -> int:
        items = await asyncio.gather(visit(3), visit(1))
        with place("Total#0"):
            return sum(items) + await ship(2)

    async def user() -> int:
        return await (await order.start(id="one"))

    return user


def retried(app: App, ledger: Ledger) -> User:
    """A step that works at its third attempt, and one that never does."""

    @app.step(retry=PATIENT)
    async def flaky() -> str:
        if attempt() < 3:  # deaths count as well
            ledger.attempt()
            raise ConnectionError("not yet")
        return ledger.effect("worked")

    @app.step(retry=PATIENT)
    async def hopeless() -> None:
        ledger.attempt()
        raise ConnectionError("never")

    @app.workflow
    async def persist() -> str:
        succeeded = await flaky()
        try:
            await hopeless()
        except ConnectionError as error:
            return f"{succeeded} {error}"
        return "impossible"

    async def user() -> str:
        return await (await persist.start(id="one"))

    return user


def few_attempts(ledger: Ledger) -> list[str]:
    """A crash may cost the attempt that was under way; it must not make the step begin to count again."""
    lost = ledger.processes - 1
    counts = {
        step: sum(n for key, n in ledger.attempts.items() if f"/{step}#" in key) for step in ("flaky", "hopeless")
    }
    return [f"{step} was attempted {n} times, with {lost} crashes" for step, n in counts.items() if n > 3 + lost]


def at_most_once(app: App, ledger: Ledger) -> User:
    """A step that must not be repeated, whatever that costs."""

    @app.step(at_most_once=True)
    async def launch() -> str:
        ledger.attempt()
        return "launched"

    @app.step
    async def report(text: str) -> str:
        return text

    @app.workflow
    async def mission() -> str:
        try:
            await launch()
        except StepInterrupted:
            await report("nobody knows")
        else:
            await report("it flies")
        return "over"

    async def user() -> str:
        return await (await mission.start(id="one"))

    return user


def at_most_once_per_attempt(app: App, ledger: Ledger) -> User:
    """A step whose attempts must not be repeated, but for those that are known to have done nothing."""

    def note(_error: Exception, failures: int) -> None:
        ledger.notes["failures"] = max(failures, ledger.notes.get("failures", 0))

    @app.step(at_most_once="attempt", retry=Retry(only=(ConnectionRefusedError,), initial="10s", delay=note))
    async def launch() -> str:
        failures: int = ledger.notes.get("failures", 0)  # deaths do not move it, as they move the number of the attempt
        ledger.attempt(key=f"the attempt after {failures} failures{AT_THE_LAUNCH}")
        await asyncio.sleep(1)
        if failures < 2:
            raise ConnectionRefusedError("nobody has taken it")
        return "launched"

    @app.workflow
    async def mission() -> str:
        with contextlib.suppress(StepInterrupted):
            await launch()
        return "over"

    async def user() -> str:
        return await (await mission.start(id="one"))

    return user


def one_launch(ledger: Ledger) -> list[str]:
    """Each attempt at most once."""
    return [
        f"{key} was made {count} times (G10)"
        for key, count in ledger.attempts.items()
        if count > 1 and key.endswith(AT_THE_LAUNCH)
    ]


def single_launch(ledger: Ledger) -> list[str]:
    """At most once, and once if nothing happens."""
    return [
        f"{key} was attempted {count} times (G10)"
        for key, count in ledger.attempts.items()
        if count > 1 and "/launch#" in key
    ]


def durable_before_next(app: App, ledger: Ledger) -> User:
    """A step whose result differs each time it is performed, and one that acts on it: only a durable one (G7)."""

    @app.step
    async def draw() -> int:
        ledger.attempt()
        return ledger.attempts[idempotency_key()]

    @app.step
    async def spend(drawn: int) -> None:
        ledger.effect(drawn)

    @app.workflow
    async def gamble() -> str:
        for _ in range(3):
            await spend(await draw())
        return "over"

    async def user() -> str:
        await (await gamble.start(id="one"))
        for key in [key for key in ledger.accepted if "/spend#" in key]:
            del ledger.accepted[key]  # what was drawn differs from run to run; that it does not change is checked above
        return "over"

    return user


def mapped(app: App, ledger: Ledger) -> User:
    """A map with bounded concurrency, and one item that fails."""

    @app.step(retry=Retry(max_attempts=1))
    async def resize(number: int) -> int:
        await asyncio.sleep(number % 3)
        ledger.effect(number, key=f"item {number}")
        if number == 3:
            raise ValueError("broken image")
        return number * number

    @app.workflow
    async def album() -> list[int]:
        batch = await hf.map(resize, range(6), concurrency=2, tolerated_failures=1)
        return batch.succeeded

    async def user() -> list[int]:
        return await (await album.start(id="one"))

    return user


def heartbeats(app: App, ledger: Ledger) -> User:
    """A long step that reports how far it is, fails once, and goes on from there."""

    @app.step(heartbeat="30s", retry=PATIENT)
    async def copy() -> int:
        step = cast("StepInfo", hf.current())
        for part in range(step.last_heartbeat or 0, 4):
            await asyncio.sleep(10)
            ledger.effect(part, key=f"{step.idempotency_key} {part}")
            step.heartbeat(part + 1)
            if part == 2 and step.attempt == 1:
                raise ConnectionError("the line broke")
        return 4

    @app.workflow
    async def backup() -> int:
        return await copy()

    async def user() -> int:
        return await (await backup.start(id="one"))

    return user


def large(app: App, ledger: Ledger) -> User:
    """Values that are too large for an item: an input, a result among others, a message and an outcome."""
    size = INLINE_BYTES + 1

    @app.step
    async def draw(letter: str) -> str:
        await asyncio.sleep(1)
        return ledger.effect(letter) * size

    @app.workflow
    async def album(cover: str) -> str:
        first, second = await asyncio.gather(draw("a"), draw("b"))
        third = await hf.signal("picture", str)
        await hf.sleep("1m")
        return cover + first + second + third

    async def user() -> list[tuple[str, int]]:
        handle = await album.start("c" * size, id="one")
        with contextlib.suppress(InvalidState):  # it has ended, with the picture sent before
            await handle.signal("picture", "d" * size, id="last")
        whole = await handle
        return sorted(Counter(whole).items())

    return user


SCENARIOS: Final[Sequence[Scenario]] = (
    Scenario("sequential", sequential),
    Scenario("blocking", blocking),
    Scenario("parallel", parallel, histories=Histories.REORDERED),
    Scenario("in places", in_places, histories=Histories.REORDERED),
    Scenario("retried", retried, check=few_attempts),
    Scenario("at most once", at_most_once, check=single_launch, histories=Histories.FREE),
    Scenario("at most once per attempt", at_most_once_per_attempt, check=one_launch, histories=Histories.FREE),
    Scenario("durable before next", durable_before_next),
    Scenario("mapped", mapped, histories=Histories.FREE),
    Scenario("heartbeats", heartbeats),
    Scenario("large", large, histories=Histories.REORDERED),
)
