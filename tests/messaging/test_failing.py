"""Events that fail: tried again, parked or halting their group, mended, and never handled twice for it."""

from __future__ import annotations

import asyncio
from dataclasses import make_dataclass

import pytest
from msgspec.structs import replace
from tests.messaging.places import FAST, Paid, Placed, virtually

import holdfast as hf
from holdfast.actors.record import PARKED_PREFIX
from holdfast.actors.turn.failure import DEATHS_PER_ATTEMPT
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.items import HEAD
from holdfast.messaging.outbox import ENTRY_PREFIX
from holdfast.testing import World
from holdfast.testing.simulation import swift
from holdfast.testing.virtual_time import run_virtual

GROUP = "actor#Shop#a"


def declare(app, *, broken, seen, **options):
    """A shop, and a consumer that fails at the orders in ``broken``."""

    class Shop(hf.Actor, app=app):
        async def order(self, *orders: str) -> None:
            for order in orders:
                await app.publish(Placed(order))

    @app.consumer(Placed, retry=FAST, **options)
    async def pack(event: Placed) -> None:
        seen.append(event.order)
        if event.order in broken:
            raise ValueError(f"{event.order} is broken")

    return Shop


@virtually
async def test_an_event_that_fails_is_tried_again_and_holds_its_group_meanwhile(place):
    app = place.app()
    seen, broken = [], {"1"}
    shop = declare(app, broken=broken, seen=seen)
    async with app.worker():
        await shop.at("a").order("1", "2")
        await asyncio.sleep(1.5)
        broken.clear()
        await place.rest()
    assert seen == ["1", "1", "1", "2"]


@virtually
async def test_poison_is_parked_and_the_group_goes_on(place):
    app = place.app()
    seen = []
    shop = declare(app, broken={"1"}, seen=seen)
    async with app.worker():
        await shop.at("a").order("1", "2")
        await place.rest()
        assert seen == ["1", "1", "1", "2"]
        (parked,) = await app.actor("!shop!pack", GROUP).parked()
        assert parked.args["event"] == {"order": "1", "cents": 0}
        assert parked.error.message == "1 is broken"
        assert app.telemetry.counts["parked"] == 1


@virtually
async def test_a_terminal_error_is_parked_at_once(place):
    app = place.app()

    @app.consumer(Placed, retry=FAST)
    async def pack(event: Placed) -> None:
        raise hf.Terminal("never")

    async with app.worker():
        await app.publish(Placed("1"), id="17")
        await place.rest()
        assert len(await app.actor("!shop!pack", "17").parked()) == 1
        assert app.telemetry.counts["message_failed"] == 1


@virtually
async def test_an_event_that_was_parked_is_handled_when_it_is_unparked_although_later_ones_were(place):
    app = place.app()
    seen, broken = [], {"1", "2"}
    shop = declare(app, broken=broken, seen=seen)
    async with app.worker():
        await shop.at("a").order("1", "2", "3")
        await place.rest()
        broken.clear()
        handle = app.actor("!shop!pack", GROUP)
        first, second = await handle.parked()
        seen.clear()
        await handle.unpark(second.place)
        await place.rest()
        await handle.unpark(first.place, args={**first.args, "event": {"order": "1 mended", "cents": 1}})
        await place.rest()
        assert seen == ["2", "1 mended"]
        assert (await handle.status()).state["set_aside"] == []
        with pytest.raises(hf.NotFound):
            await handle.unpark(first.place)
        await shop.at("a").order("4")
        await place.rest()
    assert seen == ["2", "1 mended", "4"]


@virtually
async def test_an_event_that_fails_again_is_parked_again(place):
    app = place.app()
    seen = []
    shop = declare(app, broken={"1"}, seen=seen)
    async with app.worker():
        await shop.at("a").order("1", "2")
        await place.rest()
        handle = app.actor("!shop!pack", GROUP)
        (first,) = await handle.parked()
        await handle.unpark(first.place)
        await place.rest()
        (again,) = await handle.parked()
        assert again.args == first.args
        await handle.discard(again.place)
        await shop.at("a").order("3")
        await place.rest()
        assert await handle.parked() == ()
    assert seen == ["1", "1", "1", "2", "1", "1", "1", "3"]


@pytest.mark.parametrize("alone", [True, False])
def test_what_was_parked_and_is_delivered_again_is_only_taken_out_of_the_inbox(alone):
    @virtually
    async def test(place):
        app = place.app()
        seen, broken = [], {"1"}
        shop = declare(app, broken=broken, seen=seen)
        publish = (lambda order: app.publish(Placed(order), id="17")) if alone else shop.at("a").order
        async with app.worker():
            await publish("1")
            (entry,) = place.items(ENTRY_PREFIX)
            await place.rest()
            if not alone:
                await publish("2")
                await place.rest()
            broken.clear()
            seen.clear()
            await deliver_again(place, app, entry)
            assert seen == [], "it lies set aside, for a person"
            assert app.telemetry.counts["message_repeated"] == 1
            handle = app.actor("!shop!pack", "17" if alone else GROUP)
            (parked,) = await handle.parked()
            await handle.unpark(parked.place)
            await place.rest()
            assert seen == ["1"]
            await deliver_again(place, app, entry)
            assert seen == ["1"]
            assert await handle.parked() == ()

    test()


async def deliver_again(place, app, entry):
    """As a relay does whose predecessor died between delivery and mark."""
    place.data.set(entry)
    await app.publish(Paid("anything"))  # it looks
    await place.rest()


@virtually
async def test_what_a_halted_group_was_told_to_set_aside_is_not_handled_by_itself_either(place):
    app = place.app()
    seen, broken = [], {"1"}
    shop = declare(app, broken=broken, seen=seen, poison="halt")
    async with app.worker():
        await shop.at("a").order("1", "2")
        (entry, _) = sorted(place.items(ENTRY_PREFIX), key=lambda item: item.sort)
        await asyncio.sleep(60)
        await app.actor("!shop!pack", GROUP).park()
        await place.rest()
        broken.clear()
        seen.clear()
        await deliver_again(place, app, entry)
        assert seen == []
        assert len(await app.actor("!shop!pack", GROUP).parked()) == 1


@pytest.mark.parametrize("alone", [True, False])
def test_what_was_parked_and_handled_since_is_not_handled_again_when_it_is_delivered_again(alone):
    @virtually
    async def test(place):
        app = place.app()
        seen, broken = [], {"1"}
        shop = declare(app, broken=broken, seen=seen)
        publish = (lambda order: app.publish(Placed(order), id="17")) if alone else shop.at("a").order
        async with app.worker():
            await publish("1")
            (entry,) = place.items(ENTRY_PREFIX)
            await place.rest()
            handle = app.actor("!shop!pack", "17" if alone else GROUP)
            (parked,) = await handle.parked()
            broken.clear()
            seen.clear()
            place.data.set(entry)
            await handle.unpark(parked.place)  # and the repeat comes in the meantime: one of the two is handled
            await app.publish(Paid("anything"))
            await place.rest()
            assert seen == ["1"]
            assert await handle.parked() == ()

    test()


@virtually
async def test_a_group_halts_at_poison_and_goes_on_in_order_when_it_is_resumed(place):
    app = place.app()
    seen, broken = [], {"1"}
    shop = declare(app, broken=broken, seen=seen, poison="halt")
    async with app.worker():
        await shop.at("a").order("1", "2")
        await shop.at("b").order("b1")
        await asyncio.sleep(60)
        assert sorted(seen) == ["1", "1", "1", "b1"]
        handle = app.actor("!shop!pack", GROUP)
        assert (await handle.status()).status == "HALTED"
        await shop.at("a").order("3")
        broken.clear()
        await asyncio.sleep(60)
        seen.clear()
        await handle.resume()
        await place.rest()
    assert seen == ["1", "2", "3"]


@virtually
async def test_what_a_consumer_cannot_read_is_parked_with_the_reason_until_its_code_can(place):
    old, new = place.app(), place.app()

    @old.consumer(Placed, name="pack", retry=FAST)
    async def pack_old(event: Placed) -> None:
        raise AssertionError("it has no worker here")

    async with old.worker():
        pass

    renamed = make_dataclass("Placed", [("order", str), ("weight", int)])
    seen = []

    async def pack(event):
        seen.append(event.order)

    new.consumer(renamed, name="pack", retry=FAST)(pack)
    async with new.worker():
        async with old:
            await old.publish(Placed("1"), id="17")
        await place.rest()
        handle = new.actor("!shop!pack", "17")
        (parked,) = await handle.parked()
        assert "weight" in parked.error.message
        assert seen == []
        await handle.unpark(parked.place, args={**parked.args, "event": {"order": "1", "weight": 2}})
        await place.rest()
    assert seen == ["1"]


@virtually
async def test_an_event_parked_alone_is_kept_and_leaves_nothing_when_it_is_handled(place):
    app = place.app()
    seen, broken = [], {"1"}

    @app.consumer(Placed, retry=FAST, window="1h")
    async def pack(event: Placed) -> None:
        seen.append(event.order)
        if event.order in broken:
            raise ValueError

    async with app.worker():
        await app.publish(Placed("1"), id="17")
        await asyncio.sleep(3 * 3600)
        handle = app.actor("!shop!pack", "17")
        (parked,) = await handle.parked()
        broken.clear()
        await handle.unpark(parked.place)
        await place.rest()
        assert seen == ["1"] * 4
        await asyncio.sleep(2 * 3600)
        assert {head.partition for head in place.heads()} == {"out#shop"}


# ── Processes that die, and leases of others ────────────────────────────────────────────────────────────────────────


def test_an_event_that_kills_its_worker_is_found_and_parked():
    most_deaths = FAST.max_attempts * DEATHS_PER_ATTEMPT

    def build(app, ledger):
        @app.consumer(Placed, retry=FAST)
        async def pack(event: Placed) -> None:
            ledger.effect(event.order, key=f"{event.order} {hf.current().idempotency_key}")
            if event.order == "deadly":
                world.processes[-1].crash()
                await asyncio.sleep(1)

        class Shop(hf.Actor, app=app):
            async def order(self) -> None:
                for order in ("before", "deadly", "behind"):
                    await app.publish(Placed(order))

        async def user() -> None:
            await Shop.at("a", request_id="once").order()

        return user

    world: World

    async def main():
        nonlocal world
        world = World(build, limits=swift())
        for number in range(most_deaths + 2):
            process = await world.boot()
            if number == 0:
                await process.call(process.user)
            await asyncio.sleep(60)
            if not process.dead:
                break
        parked = await process.call(lambda: process.app.actor("!simulation!pack", GROUP).parked())
        waiting = await process.call(lambda: process.app.actor("!simulation!pack", GROUP).messages())
        await process.stop()
        told = [each.app.telemetry.counts["parked"] for each in world.processes]
        await world.close()
        return parked, waiting, told, world.ledger

    parked, waiting, told, ledger = run_virtual(main)
    assert told[-1] == 1
    assert len(told) <= most_deaths + 2
    assert [each.args["event"]["order"] for each in parked] == ["deadly"]
    assert waiting == ()
    assert sorted(ledger.accepted.values()) == ["before", "behind", "deadly"]
    (deadly,) = [count for key, count in ledger.attempts.items() if key.startswith("deadly")]
    assert deadly == len(told) - 1


@virtually
async def test_waiting_for_a_lease_burns_no_attempts(place):
    owner, other = place.app(), place.app(lease_ms=5_000)
    seen = []
    gate = asyncio.Event()

    @owner.consumer(Placed, name="pack", retry=hf.Retry(max_attempts=1), timeout=None)
    async def slow(event: Placed) -> None:
        seen.append(("owner", event.order))
        await gate.wait()

    @other.consumer(Placed, name="pack", retry=hf.Retry(max_attempts=1))
    async def quick(event: Placed) -> None:
        seen.append(("other", event.order))

    class Shop(hf.Actor, app=owner):
        async def order(self, order: str) -> None:
            await owner.publish(Placed(order))

    async with owner.worker():
        await Shop.at("a").order("1")
        await asyncio.sleep(1)
        async with other.worker():
            await Shop.at("a").order("2")
            await asyncio.sleep(600)
            assert seen == [("owner", "1")]
            gate.set()
            await place.rest()
            assert (await owner.actor("!shop!pack", GROUP).parked()) == ()
    assert [order for _, order in seen] == ["1", "2"]


@virtually
async def test_a_zombie_s_handler_changes_nothing_when_it_comes_back(place):
    data = MemoryData()

    async def open_home():
        return open_memory_home(data=data)

    apps = [hf.App("shop", home=open_home, clock=place.clock) for _ in range(2)]
    seen = []

    for app in apps:

        @app.consumer(Placed)
        async def pack(event: Placed, app=app) -> None:
            await app.publish(Paid(event.order))
            if app is apps[0]:
                await asyncio.sleep(5)

        @app.consumer(Paid)
        async def book(event: Paid) -> None:
            seen.append(event.order)

    async with apps[0].worker():
        await apps[0].publish(Placed("1"), id="17")
        await asyncio.sleep(1)
        head = data.find("actor#!shop!pack#17", HEAD)
        stolen = replace(head, owner="gone", epoch=head.epoch + 1, lease_until=place.clock.now_ms())
        data.set(stolen)
        async with apps[1].worker():
            await asyncio.sleep(30)
        assert apps[0].telemetry.counts["fenced"] >= 1
    assert seen == ["1"]
    assert not [item for entity in data.partitions.values() for item in entity if item.startswith(PARKED_PREFIX)]
