"""Values so large that they are kept as blobs, with a crash or a zombie at each write."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass
from functools import cache

import pytest

import holdfast as hf
from holdfast.app import App
from holdfast.testing import Ledger, Scenario, crash_at_every_write, pause_at_every_write
from holdfast.testing.world import User


@dataclass
class Scanned:
    pages: str


@cache
def large(name: str) -> str:
    """Text of 100 KB that hardly shrinks."""
    return "".join(hashlib.sha256(f"{name}{n}".encode()).hexdigest() for n in range(1_600))


def results(app: App, ledger: Ledger) -> User:
    @app.step
    async def scan(name: str) -> str:
        ledger.effect(name, key=hf.current().idempotency_key)
        return large(name)

    @app.workflow
    async def archive(cover: str) -> str:
        first = await scan("first")
        await hf.sleep("1s")
        return cover + first + await scan("second")

    async def user() -> str:
        return digest(await (await archive.start(large("cover"), id="a")))

    return user


def states(app: App, ledger: Ledger) -> User:
    class Shelf(hf.Actor, app=app):
        pages: str = ""

        async def add(self, name: str, pages: str) -> str:
            ledger.effect(name, key=hf.current().idempotency_key)
            self.pages += pages
            return self.pages

    async def user() -> list[str]:
        shelf = [Shelf.at("s", request_id=f"r{n}") for n in range(2)]
        answers = [digest(await each.add(f"p{n}", large(f"p{n}"))) for n, each in enumerate(shelf)]
        await hf.send(Shelf.at("s").add, "last", large("last"), request_id="sent")
        await asyncio.sleep(5)
        return answers

    return user


def events(app: App, ledger: Ledger) -> User:
    @app.consumer(Scanned)
    async def keep(event: Scanned) -> str:
        ledger.effect(digest(event.pages), key=hf.current().idempotency_key)
        return event.pages

    async def user() -> None:
        await app.publish(Scanned(large("event")), id="e")
        await asyncio.sleep(5)

    return user


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


SCENARIOS = [Scenario(f"large {build.__name__}", build) for build in (results, states, events)]


@pytest.mark.parametrize("each", SCENARIOS, ids=str)
def test_a_crash_at_any_write_of_large_values_changes_nothing(each: Scenario) -> None:
    assert crash_at_every_write(each).points > 0


@pytest.mark.parametrize("each", SCENARIOS, ids=str)
def test_a_zombie_at_any_write_of_large_values_changes_nothing(each: Scenario) -> None:
    assert pause_at_every_write(each).points > 0
