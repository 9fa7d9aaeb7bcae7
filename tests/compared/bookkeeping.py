"""Ours, for the outbox and the inbox: orders are published, and each is to be in the books once."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from types import SimpleNamespace

from tests.compared.stage import do, outcome

import holdfast as hf
from holdfast.testing.faults import CrashAfter, CrashBefore

REPAIRED_SECONDS = 120
"""Later than every lease and every sweep."""

FEWEST_WRITES = 6
"""A relay subscribes, claims, delivers, handles, marks and lets go: with fewer writes than this nothing was tried."""


@dataclass
class Placed:
    order: str


def ours(app, stage):
    class Books(hf.Actor, app=app):
        orders: list[str] = hf.field(default_factory=list)

        async def note(self, order: str) -> None:
            self.orders.append(order)

        @hf.read
        async def all(self) -> list[str]:
            return self.orders

    @app.consumer(Placed)
    async def book(event: Placed) -> None:
        await hf.send(Books.at("main").note, event.order)  # commits with the mark that the event is handled

    async def publish():
        await app.publish(Placed("17"), id="order-17")

    async def books():
        return await Books.at("main").all()

    return SimpleNamespace(publish=publish, books=books)


def dies_at_every_write(play_ours, build=ours):
    """What the books hold if the worker dies before, or after, its n-th write, and the event is delivered again."""
    found = []
    for fault in (CrashBefore(), CrashAfter()):
        number = 0
        while True:
            number += 1
            died, books = play_ours(one_death(number, fault), build)
            if not died:
                break
            found.append(books)
        assert number > FEWEST_WRITES
    return found


def one_death(number, fault):
    async def schedule(stage):
        client = await stage.boot()
        await do(client, "publish")
        first = asyncio.ensure_future(stage.boot({number: fault}, worker=True))
        await asyncio.sleep(REPAIRED_SECONDS)
        died = stage.lines[1].writes >= number
        await outcome(first)
        second = await stage.boot(worker=True)
        await do(client, "publish")
        await asyncio.sleep(REPAIRED_SECONDS)
        return died, await do(second, "books")

    return schedule
