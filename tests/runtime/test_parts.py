"""An app made of others: what they have declared is its own, and they are open whenever it is."""

from __future__ import annotations

import asyncio

import pytest

import holdfast as hf
from holdfast.testing import VirtualClock, run_virtual


class Sold(Exception):
    pass


def made_of(*parts: hf.App) -> hf.App:
    return hf.App("whole", home="memory://", clock=VirtualClock(), parts=parts)


@pytest.fixture
def carts() -> hf.App:
    app = hf.App("carts", home="memory://another")

    class Cart(hf.Actor, app=app, raises=(Sold,)):
        items: list[str] = hf.field(default_factory=list)

        async def add(self, sku: str) -> int:
            if sku == "vase":
                raise Sold(sku)
            self.items = [*self.items, sku]
            return len(self.items)

    @app.workflow
    async def fill(key: str) -> int:
        return await Cart.at(key).add("mug")

    return app


@pytest.fixture
def orders() -> hf.App:
    app = hf.App("orders")
    notes = app.documents(str, name="notes")

    @app.step
    async def note(order: str) -> str:
        await notes.at(order).create("paid")
        return order

    @app.workflow
    async def order(order: str) -> str:
        await hf.sleep("1h")
        return await note(order)

    return app


def test_what_its_parts_have_declared_is_worked_on_by_one_worker_on_one_home(carts, orders):
    app = made_of(carts, orders)

    async def main() -> None:
        async with app.worker():
            workflows, cart = carts.registry.workflows, carts.actors["Cart"].cls
            filled, ordered = await asyncio.gather(
                workflows["fill"].start("u1", id="f"), app.registry.workflow("order").start("o-1", id="o")
            )
            assert (await filled, await ordered) == (1, "o-1")
            assert await cart.at("u1").add("lamp") == 2
            with pytest.raises(Sold, match="vase"):
                await cart.at("u1").add("vase")
            assert (await orders.documents(str, name="notes").at("o-1").get()).value == "paid"
            assert {each.workflow for each in (await orders.executions()).executions} == {"fill", "order"}
            assert orders.access() is app.access() and orders.loop is app.loop and orders.shared is app.shared

    run_virtual(main)


def test_events_of_a_part_reach_consumers_of_the_whole(carts):
    app, handled = made_of(carts), []

    @app.consumer(str)
    async def take(event: str) -> None:
        handled.append(event)

    async def main() -> None:
        async with app.worker():
            await carts.publish("placed", id="1")
            await carts.publish("placed", id="1")
            while not handled:
                await asyncio.sleep(0.1)
        assert handled == ["placed"]

    run_virtual(main)


def test_a_part_is_opened_by_the_whole_alone(carts):
    app = made_of(carts)

    async def main() -> None:
        with pytest.raises(hf.ConfigurationError, match="is not open"):
            carts.access()
        with pytest.raises(hf.InvalidState, match="is part of 'whole': open that one"):
            async with carts:
                pass
        async with app:
            carts.access()
        with pytest.raises(hf.ConfigurationError, match="is not open"):
            carts.access()

    run_virtual(main)


def test_names_are_unique_over_all_parts(carts):
    app = made_of(carts)
    with pytest.raises(hf.DuplicateName, match="'fill'"):

        @app.workflow(name="fill")
        async def another() -> None: ...

    twin = hf.App("twin")

    class Cart(hf.Actor, app=twin): ...

    with pytest.raises(hf.DuplicateName, match="'Cart'"):
        made_of(twin, _with_cart())


def _with_cart() -> hf.App:
    app = hf.App("again")

    class Cart(hf.Actor, app=app): ...

    return app


def test_what_cannot_be_a_part(carts):
    whole = made_of(carts)
    for wrong in (carts, whole):
        with pytest.raises(hf.InvalidState, match="cannot be part of 'other'"):
            hf.App("other", parts=(wrong,))
    listening = hf.App("listening")

    @listening.consumer(str)
    async def take(event: str) -> None: ...

    with pytest.raises(hf.ConfigurationError, match="has consumers or schedules"):
        made_of(listening)
