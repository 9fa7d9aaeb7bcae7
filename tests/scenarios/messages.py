"""Messages from outside: signals, callbacks, queries, and signals between executions."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

import holdfast as hf
from holdfast.app import App
from holdfast.errors import InvalidState, InvalidToken, StepTimeout, StoreUnavailable
from holdfast.testing.ledger import Ledger
from holdfast.testing.simulation import Histories, Scenario
from holdfast.testing.world import User, swift
from holdfast.workflows.handle import Handle
from holdfast.workflows.record import ENDED


async def send(handle: Handle[Any], name: str, value: Any, *, id: str) -> None:
    """Send a signal, as a user does who begins again after a crash: it may have arrived, all may be over."""
    with suppress(InvalidState):
        await handle.signal(name, value, id=id)


LOOK_SECONDS: Final = 0.25
LONGEST_WAIT_SECONDS: Final = 600.0


async def until(handle: Handle[Any], *statuses: str) -> str:
    """Wait until the execution has one of these statuses, or has ended; or for so long that its owner must be dead.

    An owner that dies while nothing is due may leave its name in the head until somebody rings: there is nothing to do.
    """
    for _ in range(int(LONGEST_WAIT_SECONDS / LOOK_SECONDS)):
        if (await handle.status()).status in {*statuses, *ENDED}:
            break
        await asyncio.sleep(LOOK_SECONDS)
    return (await handle.status()).status


async def noted(ledger: Ledger, name: str) -> Any:
    """Wait until a step has noted something."""
    while name not in ledger.notes:
        await asyncio.sleep(0.25)
    return ledger.notes[name]


def signals(app: App, ledger: Ledger) -> User:
    """Signals that come before they are waited for, and after; one is sent twice."""

    @app.step
    async def think(seconds: int) -> None:
        await asyncio.sleep(seconds)
        ledger.effect(seconds)

    @app.workflow
    async def approval() -> list[int]:
        await think(2)
        first = [await hf.signal("vote", int), await hf.signal("vote", int)]
        await think(1)
        return [*first, await hf.signal("veto", int)]

    async def user() -> list[int]:
        handle = await approval.start(id="one")
        await send(handle, "vote", 1, id="vote-1")
        await send(handle, "vote", 1, id="vote-1")
        await asyncio.sleep(4)
        await send(handle, "vote", 2, id="vote-2")
        await until(handle, "SUSPENDED")
        await send(handle, "veto", 3, id="veto")
        return await handle

    return user


def callback(app: App, ledger: Ledger) -> User:
    """A callback that is answered from outside, twice."""

    @app.step
    async def hand_out(token: str) -> None:
        ledger.notes["token"] = token
        ledger.effect("handed out")

    @app.workflow
    async def review() -> str:
        answer = hf.callback(str, timeout="1h")
        await hand_out(answer.token)
        return await answer

    async def user() -> str:
        handle = await review.start(id="one")
        token = await noted(ledger, "token")
        await asyncio.sleep(1)
        for _ in range(2):
            with suppress(InvalidToken):
                await app.callback(token).complete("fine")
        return await handle

    return user


def unanswered(app: App, ledger: Ledger) -> User:
    """A callback that nobody answers in time; a late answer is refused."""

    @app.step
    async def hand_out(token: str) -> None:
        ledger.notes["token"] = token
        ledger.effect("handed out")

    @app.workflow
    async def review() -> str:
        answer = hf.callback(str, timeout="2m")
        await hand_out(answer.token)
        try:
            return await answer
        except StepTimeout:
            await hf.sleep("2m")
            return "late"

    async def user() -> str:
        handle = await review.start(id="one")
        token = await noted(ledger, "token")
        await asyncio.sleep(180)
        with suppress(InvalidToken):
            await app.callback(token).complete("fine")
        return await handle

    return user


def queried(app: App, ledger: Ledger) -> User:
    """A query of an execution that waits, whoever runs it."""

    @app.step
    async def count(number: int) -> int:
        return ledger.effect(number)

    @app.workflow
    async def progress() -> int:
        done = 0

        @hf.query
        def so_far() -> int:
            return done

        for number in (1, 2):
            done += await count(number)
        await hf.signal("stop")
        done += 100
        await hf.sleep(1)
        return done

    async def user() -> tuple[bool, int]:
        handle = await progress.start(id="one")
        await until(handle, "SUSPENDED")
        while (seen := await handle.query("so_far")) in {0, 1}:  # it may be suspended earlier, to be handed over
            await asyncio.sleep(0.25)
        await send(handle, "stop", None, id="stop")
        return seen in {3, 103}, await handle

    return user


def forwarded(app: App, ledger: Ledger) -> User:
    """An execution that signals another one and then waits for its end."""

    @app.workflow
    async def receiver() -> int:
        return await hf.signal("number", int) + await hf.signal("number", int)

    @app.workflow
    async def sender(id: str) -> int:
        other = receiver.handle(id)
        await other.signal("number", 20)
        await other.signal("number", 3)
        return await other

    async def user() -> int:
        await receiver.start(id="receiver")
        return await (await sender.start("receiver", id="sender"))

    return user


def busy_inbox(app: App, ledger: Ledger) -> User:
    """Many signals while the execution goes to sleep again and again: none may be overlooked (G1)."""

    @app.workflow
    async def collect(count: int) -> list[int]:
        return [await hf.signal("tick", int) for _ in range(count)]

    async def user() -> list[int]:
        handle = await collect.start(6, id="one")
        for number in range(6):
            for _ in range(20):
                try:
                    await send(handle, "tick", number, id=f"tick-{number}")
                    break
                except StoreUnavailable:
                    continue
            await asyncio.sleep(0.05 * number)
        return await handle

    return user


SCENARIOS: Final[Sequence[Scenario]] = (
    Scenario("signals", signals, histories=Histories.REORDERED),
    Scenario("callback", callback, histories=Histories.REORDERED),
    Scenario("unanswered", unanswered),
    Scenario("queried", queried),
    Scenario("forwarded", forwarded, histories=Histories.REORDERED),
    Scenario("busy inbox", busy_inbox, limits=swift(hf.Limits(linger_seconds=0.0, near_seconds=0.0))),
)
