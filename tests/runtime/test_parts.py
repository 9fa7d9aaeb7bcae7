"""An app made of others: what they have declared is its own, and they are open whenever it is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

import holdfast as hf
from holdfast.testing import MemoryBus, VirtualClock, run_virtual, with_bus


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
            workflows, cart = carts.registry.workflows, carts.registry.actors["Cart"].cls
            filled, ordered = await asyncio.gather(
                workflows["fill"].start("u1", id="f"), app.registry.workflow("order").start("o-1", id="o")
            )
            assert (await filled, await ordered) == (1, "o-1")
            assert await cart.at("u1").add("lamp") == 2
            with pytest.raises(Sold, match="vase"):
                await cart.at("u1").add("vase")
            assert (await orders.documents(str, name="notes").at("o-1").get()).value == "paid"
            assert {each.workflow for each in (await orders.executions()).executions} == {"fill", "order"}
            assert orders.runtime() is app.runtime()

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
            carts.runtime()
        with pytest.raises(hf.InvalidState, match="is part of 'whole': open that one"):
            async with carts:
                pass
        async with app:
            carts.runtime()
        with pytest.raises(hf.ConfigurationError, match="is not open"):
            carts.runtime()

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


def test_what_a_part_declares_later_is_worked_on_too(carts):
    app = made_of(carts)

    @carts.workflow
    async def late() -> str:
        return "done"

    class Stamp(hf.Actor, app=carts):
        async def press(self) -> str:
            return "pressed"

    async def main() -> None:
        async with app.worker():
            assert await (await late.start()) == "done"
            assert await Stamp.at("s").press() == "pressed"

    run_virtual(main)
    with pytest.raises(hf.DuplicateName, match="'late'"):

        @app.workflow(name="late")
        async def another() -> None: ...


def test_consumers_and_schedules_of_a_part_are_refused_whenever_they_are_declared(carts):
    made_of(carts)
    with pytest.raises(hf.ConfigurationError, match="part of 'whole': declare its consumers there"):

        @carts.consumer(str)
        async def take(event: str) -> None: ...

    with pytest.raises(hf.ConfigurationError, match="part of 'whole': declare its schedules there"):

        @carts.cron("* * * * *")
        async def tick() -> None: ...


@pytest.mark.parametrize("when", ["before", "after"])
def test_events_that_a_part_declares_for_a_bus_go_there(carts, when):
    bus = MemoryBus()
    home = with_bus("memory://", bus)
    if when == "before":
        carts.to_bus(str)
        carts.from_bus(str, source="web", detail_type="order")
    app = hf.App("whole", home=home, clock=VirtualClock(), parts=[carts])
    if when == "after":
        carts.to_bus(str)
        carts.from_bus(str, source="web", detail_type="order")

    async def main() -> None:
        async with app.worker():
            await carts.publish("placed", id="1")
            await asyncio.sleep(10)
        assert [event.type for event in bus.taken] == ["str"]

    run_virtual(main)
    with pytest.raises(hf.DuplicateName, match="'order' of 'web'"):
        app.from_bus(int, source="web", detail_type="order")


def test_what_belongs_to_a_part_is_closed_with_the_whole(carts):
    app, told = made_of(carts), []

    @carts.resource
    async def client() -> AsyncIterator[int]:
        told.append("open")
        yield len(told)
        told.append("closed")

    async def main() -> None:
        async with app:
            assert await client.get() == 1
        assert told == ["open", "closed"]
        async with app:
            assert await client.get() == 3

    run_virtual(main)


class Vault:
    def seal(self, data: bytes, place: bytes) -> bytes:
        return data[::-1]

    def unseal(self, sealed: bytes, place: bytes) -> bytes:
        return sealed[::-1]


def test_a_part_with_a_seal_is_not_kept_unsealed():
    vault = Vault()
    with pytest.raises(hf.ConfigurationError, match="'secret' has a seal"):
        made_of(hf.App("secret", seal=vault))
    with pytest.raises(hf.ConfigurationError, match="'secret' has a seal"):
        hf.App("whole", seal=Vault(), parts=[hf.App("secret", seal=vault)])
    hf.App("whole", seal=vault, parts=[hf.App("secret", seal=vault), hf.App("open")])


def test_what_two_parts_would_keep_under_one_name_is_refused():
    def handlers() -> hf.App:
        app = hf.App("handlers")

        @app.idempotent(key="id")
        async def charge(id: str) -> str:
            return id

        return app

    def caches() -> hf.App:
        app = hf.App("caches")

        @app.cache(ttl="1m")
        async def price(id: str) -> str:
            return id

        return app

    def notes(hint: type) -> hf.App:
        app = hf.App("notes")
        app.documents(hint, name="notes")
        app.streams(hint, name="log")
        return app

    for parts in ((handlers(), handlers()), (caches(), caches()), (notes(str), notes(int))):
        with pytest.raises(hf.DuplicateName):
            made_of(*parts)
    made_of(handlers(), caches(), notes(str), notes(str))
