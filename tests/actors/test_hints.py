"""A message is looked at soon although its ring came at a bad moment, or not at all (G1)."""

from __future__ import annotations

import asyncio

from msgspec.structs import replace
from tests.messaging.places import virtually

import holdfast as hf
from holdfast.backends.memory import open_memory_home
from holdfast.errors import Refused, StoreUnavailable
from holdfast.items import Update

CART = "actor#Cart#u1"


def declare(app, seen):
    class Cart(hf.Actor, app=app):
        async def add(self, sku: str) -> None:
            seen.append(sku)

        async def hurry(self) -> None:
            self.tick.every("0.1s")

        @hf.timer
        async def tick(self) -> None: ...

    return Cart


class Hooked:
    """A store that lets a test take part in one write to a head's owner."""

    def __init__(self, store):
        self._store = store
        self.on_claim = self.on_release = None
        self.get, self.query, self.due = store.get, store.query, store.due
        self.scan, self.close, self.purge = store.scan, store.close, store.purge

    async def write(self, *writes):
        first = writes[0]
        if isinstance(first, Update) and first.partition == CART:
            if isinstance(first.owner, str) and (hook := self.on_claim) is not None:
                self.on_claim = None
                try:
                    return await self._store.write(*writes)
                except Refused:
                    await hook()
                    raise
            if first.owner is None and (hook := self.on_release) is not None:
                self.on_release = None
                await self._store.write(*writes)
                await hook()
                raise StoreUnavailable("the answer is lost")
        return await self._store.write(*writes)


def hooked(place, **limits):
    """An app, and the store below it."""
    stores = []

    async def open_home():
        home = open_memory_home(data=place.data)
        stores.append(Hooked(home.store))
        return replace(home, store=stores[-1])

    app = hf.App("shop", home=open_home, clock=place.clock, limits=hf.Limits(sweep_seconds=1_000, **limits))
    return app, lambda: stores[-1]


@virtually
async def test_a_message_that_comes_while_a_claim_finds_nothing_is_looked_at(place):
    seen = []
    app, store = hooked(place)
    cart = declare(app, seen)
    async with app.worker():
        store().on_claim = lambda: hf.send(cart.at("u1").add, "lamp")
        app.runtime().host.check(CART)  # somebody rang for one that was not there, or is gone
        await asyncio.sleep(5)
        assert seen == ["lamp"]


@virtually
async def test_a_message_that_comes_while_an_owner_does_not_hear_that_he_has_let_go_is_looked_at(place):
    seen = []
    app, store = hooked(place)
    cart = declare(app, seen)
    async with app.worker():
        store().on_release = lambda: hf.send(cart.at("u1").add, "rug")
        await cart.at("u1").add("lamp")
        await asyncio.sleep(5)
        assert seen == ["lamp", "rug"]


class Mute:
    """A doorbell that nobody hears."""

    def __init__(self, doorbell):
        self.listen, self.alive = doorbell.listen, doorbell.alive
        self.peers, self.close = doorbell.peers, doorbell.close

    def ring(self, partition):
        """Nobody hears it."""


@virtually
async def test_a_message_whose_ring_was_lost_is_found_by_an_owner_who_never_rests(place):
    async def open_mute():
        home = open_memory_home(data=place.data)
        return replace(home, doorbell=Mute(home.doorbell))

    seen = []
    worker = place.app()
    cart = declare(worker, seen)
    client = hf.App("shop", home=open_mute, clock=place.clock)
    of_client = declare(client, [])
    async with worker.worker(), client:
        await cart.at("u1").hurry()
        await asyncio.sleep(1)
        await hf.send(of_client.at("u1").add, "lamp")
        await asyncio.sleep(15)  # a lease
        assert seen == ["lamp"]


@virtually
async def test_a_call_that_comes_with_a_ring_for_nothing_while_an_owner_lets_go_is_run(place):
    seen, calls = [], []
    app, store = hooked(place)
    cart = declare(app, seen)

    async def ring_and_call():
        app.runtime().host.check(CART)
        calls.append(asyncio.create_task(cart.at("u1").add("rug")))
        await asyncio.sleep(0)

    async with app.worker():
        store().on_release = ring_and_call
        await cart.at("u1").add("lamp")
        await asyncio.sleep(5)
        assert seen == ["lamp", "rug"]
        await asyncio.gather(*calls)
