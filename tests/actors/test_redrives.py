"""A message that is delivered again calls nobody twice, however late: replies live as long as it may need them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

import holdfast as hf
from holdfast.actors.record import REPLY_PREFIX
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.ports import LATE_MS
from holdfast.testing.virtual_time import VirtualClock, run_virtual

TWICE = hf.Retry(max_attempts=2, initial="1ms", max_delay="2ms")
WINDOW_SECONDS = 60
LATER_SECONDS = 10 * WINDOW_SECONDS
PURGED_AFTER_SECONDS = LATE_MS / 1000 + 120


@dataclass
class Placed:
    order: str


def declare(app, **options):
    class Till(hf.Actor, app=app, **options):
        paid: list[str] = hf.field(default_factory=list)
        jammed: bool = False

        async def pay(self, what: str) -> int:
            self.paid.append(what)
            return len(self.paid)

        async def pay_by(self, other: str, what: str) -> None:
            await Till.at(other).pay(what)
            if self.jammed:
                raise ValueError("jammed")

        async def jam(self, jammed: bool) -> None:
            self.jammed = jammed

        @hf.read
        async def all(self) -> list[str]:
            return self.paid

    return Till


class Switch:
    """Whether something works."""

    on = False


def shop(app, till, switch):
    class Shop(hf.Actor, app=app, retry=TWICE, reply_window=WINDOW_SECONDS):
        sold: int = 0

        async def sell(self, what: str) -> None:
            await till.at("t").pay(what)
            if not switch.on:
                raise ValueError("closed")
            self.sold += 1

        async def sell_by(self, what: str) -> None:
            await till.at("t").pay_by("bank", what)
            self.sold += 1

        @hf.timer
        async def tick(self) -> None:
            await self.sell("tick")

        async def set(self) -> None:
            self.tick.after("1ms")

        @hf.read
        async def count(self) -> int:
            return self.sold

    return Shop


async def parked_in(app, actor, key, eventually=None):
    async def found():
        return bool(await app.actor(actor, key).parked())

    if eventually is not None:
        await eventually(found)
    while not await found():
        await asyncio.sleep(1)
    return await app.actor(actor, key).parked()


async def replies_of(app, partition):
    page = await app.runtime().home.store.query(partition, prefix=REPLY_PREFIX)
    return [item.expires_at for item in page.items]


async def test_a_message_that_is_unparked_after_the_callee_s_window_calls_once(world, eventually):
    app, switch = world.app(), Switch()
    till = declare(app, reply_window="1ms")
    sold = shop(app, till, switch)

    async def one_is_sold():
        return await sold.at("s").count() == 1

    async with app.worker():
        await hf.send(sold.at("s").sell, "pen")
        (message,) = await parked_in(app, "Shop", "s", eventually)
        assert await replies_of(app, "actor#Till#t") == [None]
        switch.on = True
        await app.actor("Shop", "s").unpark(message.place)
        await eventually(one_is_sold)
        assert await till.at("t").all() == ["pen"]
        (until,) = await replies_of(app, "actor#Till#t")
        assert until is not None  # it is not kept for ever


async def test_a_reply_is_let_go_of_when_its_caller_ends_well_at_once(world, eventually):
    app, switch = world.app(), Switch()
    till = declare(app)
    sold, switch.on = shop(app, till, switch), True

    async def one_is_sold():
        return await sold.at("s").count() == 1

    async with app.worker():
        await hf.send(sold.at("s").sell, "pen")
        await eventually(one_is_sold)
        (until,) = await replies_of(app, "actor#Till#t")
        assert until is not None


async def test_a_reply_is_let_go_of_with_a_message_that_is_discarded(world, eventually):
    app, switch = world.app(), Switch()
    till = declare(app)
    sold = shop(app, till, switch)
    async with app.worker():
        await hf.send(sold.at("s").sell, "pen")
        (message,) = await parked_in(app, "Shop", "s", eventually)
        await app.actor("Shop", "s").discard(message.place)
        (until,) = await replies_of(app, "actor#Till#t")
        assert until is not None


async def test_more_calls_than_one_write_takes_are_let_go_of(world, eventually):
    app = world.app()
    till = declare(app)
    count = 110
    done = []

    class Shop(hf.Actor, app=app):
        async def sell(self) -> None:
            for n in range(count):
                await till.at("t").pay(str(n))
            done.append(1)

    async def all_are_let_go():
        page = await app.runtime().home.store.query("actor#Till#t", prefix=REPLY_PREFIX)
        return len(page.items) == count and all(item.expires_at for item in page.items)

    async with app.worker():
        await hf.send(Shop.at("s").sell)
        await eventually(all_are_let_go)
    assert done == [1]


def virtually(main):
    async def run():
        data = MemoryData()

        async def open_home():
            return open_memory_home(data=data)

        def app():
            return hf.App("shop", home=open_home, clock=VirtualClock())

        await main(app)

    def test():
        run_virtual(run)

    test.__name__, test.__doc__ = main.__name__, main.__doc__
    return test


@virtually
async def test_a_redrive_long_after_calls_once(make):
    app, switch = make(), Switch()
    till = declare(app, reply_window=WINDOW_SECONDS)
    sold = shop(app, till, switch)
    async with app.worker():
        await hf.send(sold.at("s").sell, "pen")
        (message,) = await parked_in(app, "Shop", "s")
        await asyncio.sleep(LATER_SECONDS)
        switch.on = True
        await app.actor("Shop", "s").unpark(message.place)
        await asyncio.sleep(1)
        assert (await sold.at("s").count(), await till.at("t").all()) == (1, ["pen"])
        await asyncio.sleep(2 * WINDOW_SECONDS + PURGED_AFTER_SECONDS)
        assert await replies_of(app, "actor#Till#t") == []


@virtually
async def test_what_an_earlier_attempt_has_called_and_the_last_has_not_is_known_too(make):
    app, runs = make(), []
    till = declare(app, reply_window=WINDOW_SECONDS)

    class Shop(hf.Actor, app=app, retry=TWICE, reply_window=WINDOW_SECONDS):
        async def sell(self) -> None:
            runs.append(1)
            if len(runs) == 2:
                raise ValueError("before")
            await till.at("t").pay("pen")
            if len(runs) == 1:
                raise ValueError("after")

    async with app.worker():
        await hf.send(Shop.at("s").sell)
        (message,) = await parked_in(app, "Shop", "s")
        await asyncio.sleep(LATER_SECONDS)
        await app.actor("Shop", "s").unpark(message.place)
        await asyncio.sleep(1)
        assert await till.at("t").all() == ["pen"]
    assert len(runs) == 3


@virtually
async def test_what_the_called_has_called_is_known_although_it_failed(make):
    """The shop calls the till, the till the bank; the till fails. Mended and redriven, the bank is not called again."""
    app, switch = make(), Switch()
    till = declare(app, reply_window=WINDOW_SECONDS)
    sold = shop(app, till, switch)
    async with app.worker():
        await till.at("t").jam(True)
        await hf.send(sold.at("s").sell_by, "pen")
        (message,) = await parked_in(app, "Shop", "s")
        await asyncio.sleep(LATER_SECONDS)
        await till.at("t").jam(False)
        await app.actor("Shop", "s").unpark(message.place)
        await asyncio.sleep(1)
        assert (await sold.at("s").count(), await till.at("bank").all()) == (1, ["pen"])


@virtually
async def test_an_event_and_a_tick_that_are_redriven_long_after_call_once(make):
    app, switch = make(), Switch()
    till = declare(app, reply_window=WINDOW_SECONDS)
    sold = shop(app, till, switch)

    @app.consumer(Placed, retry=TWICE, window="1m")
    async def charge(event: Placed) -> None:
        await till.at("t").pay(event.order)
        if not switch.on:
            raise ValueError("closed")

    async with app.worker():
        await app.publish(Placed("web"), id="web-18")
        (event,) = await parked_in(app, "!shop!charge", "web-18")
        await sold.at("s").set()
        (tick,) = await parked_in(app, "Shop", "s")
        await asyncio.sleep(LATER_SECONDS)
        switch.on = True
        await app.actor("!shop!charge", "web-18").unpark(event.place)
        await app.actor("Shop", "s").unpark(tick.place)
        await asyncio.sleep(1)
        assert sorted(await till.at("t").all()) == ["tick", "web"]


@virtually
async def test_an_outage_longer_than_the_window_calls_nobody_twice(make):
    """The process dies between the call and the commit, and nobody works for ten windows."""
    app, runs = make(), []
    till = declare(app, reply_window=WINDOW_SECONDS)
    gone = asyncio.Event()

    def declare_shop(app, till):
        class Shop(hf.Actor, app=app, reply_window=WINDOW_SECONDS):
            async def sell(self) -> None:
                runs.append(1)
                await till.at("t").pay("pen")
                if len(runs) == 1:
                    gone.set()
                    await asyncio.Event().wait()

        return Shop

    sold = declare_shop(app, till)

    async def dies():
        async with app.worker():
            await hf.send(sold.at("s").sell)
            await gone.wait()
            raise ConnectionError("the machine is off")

    with pytest.raises(ConnectionError):
        await dies()
    await asyncio.sleep(LATER_SECONDS)
    app = make()
    till = declare(app, reply_window=WINDOW_SECONDS)
    declare_shop(app, till)
    async with app.worker():
        await asyncio.sleep(60)
        assert await till.at("t").all() == ["pen"]
    assert len(runs) == 2
