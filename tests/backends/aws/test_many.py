"""More messages at once than one transaction of DynamoDB takes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest

import holdfast as hf

NewUrl = Callable[[], Awaitable[str]]

MANY = 130
AT_ONCE = 16


@dataclass
class Placed:
    order: int


async def each_of(many: int, send: Callable[[int], Awaitable[object]]) -> None:
    for start in range(0, many, AT_ONCE):
        await asyncio.gather(*(send(number) for number in range(start, min(start + AT_ONCE, many))))


@pytest.mark.torture
async def test_many_messages_for_one_actor_many_events_and_many_signals_for_one_execution(new_url: NewUrl) -> None:
    app = hf.App("shop", home=await new_url())
    handled: list[int] = []

    @app.consumer(Placed)
    async def pack(event: Placed) -> None:
        handled.append(event.order)

    @app.workflow
    async def gather(many: int) -> int:
        return sum([await hf.signal("number", int) for _ in range(many)])

    class Till(hf.Actor, app=app):
        total: int = 0

        async def add(self) -> None:
            self.total += 1

        @hf.read
        async def count(self) -> int:
            return self.total

    till = Till.at("main")
    async with app:
        handle = await gather.start(MANY, id="g")
        await each_of(MANY, lambda _number: hf.send(till.add))
        await each_of(MANY, lambda number: app.publish(Placed(number), id=f"order-{number}"))
        await each_of(MANY, lambda _number: handle.signal("number", 1))
    async with app.worker(), asyncio.timeout(120):
        assert await handle == MANY
        while await till.count() < MANY or len(handled) < MANY or (await app.outbox.waiting()).items:
            await asyncio.sleep(0.2)
    assert sorted(handled) == list(range(MANY))
    assert app.telemetry.counts["turn_failed"] == 0
