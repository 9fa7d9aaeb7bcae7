"""From one end to the other on ``aws://…``, in real time: workflows, actors and events by way of the app."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import holdfast as hf

NewUrl = Callable[[], Awaitable[str]]

FORGETFUL = hf.Limits(linger_seconds=0.0, near_seconds=0.0, resident=0)
"""Nothing that waits stays in memory: everything comes from the table."""


@dataclass
class OrderPlaced:
    order: str


async def test_a_workflow_with_a_step_a_sleep_a_signal_and_a_child(new_url: NewUrl) -> None:
    app = hf.App("shop", home=await new_url(), limits=FORGETFUL)
    charged: list[str] = []

    @app.step
    async def charge(order: str, cents: int) -> int:
        charged.append(order)
        return cents

    @app.workflow
    async def pack(order: str) -> str:
        await hf.sleep("10ms")
        return f"packed {order}"

    @app.workflow
    async def checkout(order: str, cents: int) -> list[object]:
        paid = await charge(order, cents)
        await hf.sleep("20ms")
        approved = await hf.signal("approved", bool)
        packed = await pack.start(order, id=f"pack-{order}")
        return [paid, approved, await packed]

    async with app.worker():
        handle = await checkout.start("order-1", 1_250, id="order-1")
        await handle.signal("approved", True)
        assert await handle == [1_250, True, "packed order-1"]
        assert await (await checkout.start("order-1", 1_250, id="order-1")) == [1_250, True, "packed order-1"]
        found = await app.executions(scan=True)
        assert {each.id: each.status for each in found.executions} == {
            "order-1": "COMPLETED",
            "pack-order-1": "COMPLETED",
        }
    assert charged == ["order-1"]


async def test_an_actor_keeps_its_state_between_processes(new_url: NewUrl) -> None:
    url = await new_url()

    def till() -> tuple[hf.App, type[hf.Actor]]:
        app = hf.App("shop", home=url, limits=FORGETFUL)

        class Till(hf.Actor, app=app):
            total: int = 0

            async def add(self, cents: int) -> int:
                self.total += cents
                return self.total

        return app, Till

    for expected in (500, 1_000):
        app, actor = till()
        async with app.worker():
            totals = await asyncio.gather(*(actor.at("main").add(50) for _ in range(10)))
            assert max(totals) == expected


async def test_an_event_is_handled_once(new_url: NewUrl) -> None:
    app = hf.App("shop", home=await new_url(), limits=FORGETFUL)
    billed: list[str] = []
    done = asyncio.Event()

    @app.consumer(OrderPlaced)
    async def bill(event: OrderPlaced) -> None:
        billed.append(event.order)
        if len(billed) == 2:
            done.set()

    async with app.worker():
        for order in ("17", "17", "18"):
            await app.publish(OrderPlaced(order), id=f"web-{order}")
        async with asyncio.timeout(60):
            await done.wait()
    assert sorted(billed) == ["17", "18"]
