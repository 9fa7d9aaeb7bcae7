"""One trace id to the end: through actors, their sends, events, consumers and executions that they start."""

from __future__ import annotations

from dataclasses import dataclass

import holdfast as hf
from holdfast.tracing import here, within

CALLER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
TRACE = CALLER.split("-")[1]


@dataclass
class Placed:
    order: str


def trace_of(traceparent: str) -> str:
    return traceparent.split("-")[1] if traceparent else ""


async def test_it_goes_through_calls_sends_events_and_starts(memory_world, collected, eventually):
    app = memory_world.app()
    seen: dict[str, str] = {}

    class Cart(hf.Actor, app=app):
        n: int = 0

        async def add(self) -> int:
            seen["called"] = here()
            await hf.send(Stock.at("s").take)
            self.n += 1
            return self.n

    class Stock(hf.Actor, app=app):
        n: int = 0

        async def take(self) -> None:
            seen["sent to"] = here()
            self.n += 1
            await app.publish(Placed("o"))

    @app.consumer(Placed)
    async def ship(event: Placed) -> None:
        seen["consumer"] = here()
        await deliver.start(id="d")

    @app.workflow
    async def deliver() -> int:
        return await Cart.at("later").add()

    collected.trace(app)
    async with app.worker():
        with within(CALLER):
            await Cart.at("u").add()
        await eventually(lambda: "consumer" in seen)
        handle = app.handle("deliver", "d")
        await eventually(lambda: app.telemetry.counts["ended"])
        await handle
        assert {trace_of(told) for told in seen.values()} == {TRACE}
        assert len(seen) == 3
    spans = collected.named(app)
    assert f"{spans['workflow deliver'].context.trace_id:032x}" == TRACE


async def test_what_one_message_brought_does_not_reach_the_next(memory_world):
    app, seen = memory_world.app(), list[str]()

    class Cart(hf.Actor, app=app):
        n: int = 0

        async def add(self) -> None:
            seen.append(here())

    async with app.worker():
        with within(CALLER):
            await Cart.at("u").add()
        await Cart.at("u").add()
    assert seen == [CALLER, ""]


async def test_a_request_by_http_brings_its_context(memory_world):
    from tests.http.conftest import Api

    app, seen = memory_world.app(), list[str]()

    class Cart(hf.Actor, app=app):
        n: int = 0

        async def add(self) -> None:
            seen.append(here())

    async with app.worker():
        api = Api(app)
        await api.post("/v1/actors/Cart/u/add", traceparent=CALLER)
        await api.post("/v1/actors/Cart/u/add", traceparent="nonsense")
    assert seen == [CALLER, ""]
