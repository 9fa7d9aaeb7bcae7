"""The relay: one per outbox, which delivers before it marks, and leaves nothing behind (G5)."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest
from msgspec.structs import replace
from tests.messaging.places import Place, Placed, virtually

import holdfast as hf
from holdfast.backends.memory import open_memory_home
from holdfast.coordination.inbox import INBOX_PREFIX
from holdfast.errors import StoreUnavailable
from holdfast.items import HEAD, Delete, Put, Update
from holdfast.items import place as place_of
from holdfast.messaging.outbox import ENTRY_PREFIX
from holdfast.messaging.queue_turns import Relay

OUTBOX = "out#shop"


def declare(app, seen):
    @app.consumer(Placed)
    async def pack(event: Placed) -> None:
        seen.append(event.order)

    class Shop(hf.Actor, app=app):
        async def order(self, *orders: str) -> None:
            for order in orders:
                await app.publish(Placed(order))

    return Shop


class Hooked:
    """A store that lets a test do something just before or just after a write of one kind."""

    def __init__(self, store):
        self._store = store
        self.before, self.after = {}, {}
        self.get, self.query, self.due = store.get, store.query, store.due
        self.scan, self.close, self.purge = store.scan, store.close, store.purge

    async def write(self, *writes):
        kind = kind_of(writes)
        if (hook := self.before.pop(kind, None)) is not None:
            await hook()
        answer = await self._store.write(*writes)
        if (hook := self.after.pop(kind, None)) is not None:
            await hook()
        return answer


def kind_of(writes):
    """What the relay does by this write, if it is one of its own."""
    first = writes[0]
    if isinstance(first, Update) and place_of(first) == (OUTBOX, HEAD):
        if len(writes) > 1 and all(isinstance(each, Delete) for each in writes[1:]):
            return "mark"
        if first.owner is None:
            return "settle"
        if isinstance(first.owner, str):
            return "claim"
    if isinstance(first, Put) and first.item.sort.startswith(INBOX_PREFIX):
        return "deliver"
    return ""


def hooked(place: Place, **limits):
    """An app, and the store below it."""
    store = None

    async def open_home():
        nonlocal store
        home = open_memory_home(data=place.data)
        store = Hooked(home.store)
        return replace(home, store=store)

    app = hf.App("shop", home=open_home, clock=place.clock, limits=hf.Limits(**limits))
    return app, lambda: store


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("from_elsewhere", [True, False])
def test_what_is_published_while_the_relay_lets_go_is_carried_at_once(moment, from_elsewhere):
    @virtually
    async def test(place):
        app, store = hooked(place, sweep_seconds=1_000)
        seen = []
        declare(app, seen)
        client = place.app()
        async with client, app.worker():
            await place.rest()
            publisher = client if from_elsewhere else app
            getattr(store(), moment)["settle"] = lambda: publisher.publish(Placed("meanwhile"))
            begun = place.now()
            await app.publish(Placed("1"))
            while len(seen) < 2:
                await asyncio.sleep(0.05)
                assert place.now() - begun < 5, "left to the sweep"
            await place.rest()
        assert seen == ["1", "meanwhile"]

    test()


@virtually
async def test_what_is_published_by_another_worker_while_the_relay_lets_go_is_carried_at_once(place):
    holder, store = hooked(place, sweep_seconds=1_000)
    other = place.app(sweep_seconds=1_000)
    seen = []
    declare(holder, seen)
    declare(other, seen)
    async with holder.worker():
        await place.rest()
        async with other.worker():
            for moment in ("before", "after"):
                getattr(store(), moment)["settle"] = lambda moment=moment: other.publish(Placed(moment))
                begun = place.now()
                await holder.publish(Placed("1"))
                await place.rest(seconds=5)
                assert place.now() - begun < 5
    assert sorted(seen) == ["1", "1", "after", "before"]


@virtually
async def test_events_are_delivered_before_they_are_marked_and_a_repeat_is_known(place):
    app, store = hooked(place)
    seen = []
    shop = declare(app, seen)
    kept = []

    async def keep() -> None:
        kept.extend(place.items(ENTRY_PREFIX))
        assert len(place.items(INBOX_PREFIX)) + len(seen) >= len(kept), "marked before it was delivered"

    async with app.worker():
        store().before["mark"] = keep
        await shop.at("a").order("1", "2", "3")
        await place.rest()
        await app.publish(Placed("alone"), id="17")
        store().before["mark"] = keep
        await place.rest()
        assert len(kept) == 4
        for entry in kept:  # its relay died before the mark, and another comes
            place.data.set(entry)
        await app.publish(Placed("last"))
        await place.rest()
    assert seen == ["1", "2", "3", "alone", "last"]


@virtually
async def test_a_relay_that_lost_its_lease_marks_nothing(place):
    app, store = hooked(place)
    other = place.app()
    seen = []
    shop = declare(app, seen)
    declare(other, seen)

    async def lose() -> None:
        head = place.data.find(OUTBOX, HEAD)
        place.data.set(replace(head, owner="another", epoch=head.epoch + 1))

    async with app.worker():
        await place.rest()
        store().before["mark"] = lose
        await shop.at("a").order("1", "2")
        await asyncio.sleep(1)
        assert len(place.items(ENTRY_PREFIX)) == 2
        assert app.telemetry.counts["fenced"] == 1
        async with other.worker():
            await place.rest()
    assert seen == ["1", "2"]


def test_a_receiver_that_changes_all_the_time_gets_its_event_in_the_end(errors_expected):
    virtually(_of_a_receiver_that_changes_all_the_time)()


async def _of_a_receiver_that_changes_all_the_time(place):
    app, store = hooked(place)
    seen = []
    declare(app, seen)
    told = []
    app.telemetry.subscribe(lambda event, fields: told.append(fields) if event == "turn_failed" else None)
    partition = "actor#!shop!pack#17"

    async def flip() -> None:
        """It ends, or begins anew, between each look at it and the write."""
        nonlocal flips
        flips += 1
        head = place.data.find(partition, HEAD)
        if flips < 20:
            status = "DELETED" if head is not None and head.status == "SUSPENDED" else "SUSPENDED"
            place.data.set(replace(head, status=status, due_at=None))
            store().before["deliver"] = flip

    flips = 0
    async with app.worker():
        await app.publish(Placed("0"), id="17")
        await place.rest()
        store().before["deliver"] = flip
        await app.publish(Placed("0"), id="17")
        await place.rest()
    assert flips >= 15
    assert "kept changing" in str(told[0])
    assert seen == ["0"]


@virtually
async def test_of_several_workers_one_relays(place):
    apps = [place.app() for _ in range(3)]
    seen = []
    shops = [declare(app, seen) for app in apps]
    async with apps[0].worker(), apps[1].worker(), apps[2].worker():
        for n in range(30):
            await shops[n % 3].at(f"{n}").order(str(n))
        await place.rest()
    assert sorted(map(int, seen)) == list(range(30))
    assert sum(app.telemetry.counts["fenced"] for app in apps) == 0


@virtually
async def test_a_worker_that_stops_in_the_middle_leaves_the_rest_to_the_next(place):
    seen = []
    apps = [place.app() for _ in range(2)]
    shops = [declare(app, seen) for app in apps]
    async with apps[0].worker():
        await shops[0].at("a").order(*map(str, range(450)))
    assert len(seen) < 450
    async with apps[1].worker():
        await place.rest()
    assert seen == [str(n) for n in range(450)]


@virtually
async def test_a_worker_that_stops_with_an_empty_outbox_leaves_nothing_to_look_at(place):
    app = place.app()
    declare(app, [])
    async with app.worker():
        await app.publish(Placed("1"))
        await asyncio.sleep(0.1)
        head = place.data.find(OUTBOX, HEAD)
        assert head.owner is not None, "it lingers"
    assert place.unrest() == []


@virtually
async def test_a_relay_in_memory_is_told_at_once_by_other_processes(place):
    holder, other = place.app(linger_seconds=30.0, courtesy_ms=20_000), place.app()
    seen = []
    declare(holder, seen)
    async with holder.worker(), other:
        await holder.publish(Placed("0"))
        await asyncio.sleep(1)
        relay = holder.employed.host.entities[OUTBOX]
        assert isinstance(relay, Relay)
        assert relay.held
        await other.publish(Placed("1"))
        await asyncio.sleep(0.1)
        assert not place.items(ENTRY_PREFIX)


@pytest.mark.usefixtures("errors_expected")
@virtually
async def test_a_relay_that_fails_again_and_again_holds_back_whoever_rings_and_goes_on_when_all_is_well(place):
    app, store = hooked(place, sweep_seconds=1_000)
    client = place.app()
    seen, tries = [], []
    declare(app, seen)
    async with client, app.worker():
        query, down = store().query, True

        async def fail(partition, **options):
            if partition == OUTBOX and options["prefix"] == ENTRY_PREFIX and down:
                tries.append(place.now())
                raise StoreUnavailable("gone")
            return await query(partition, **options)

        store().query = fail
        for number in range(120):
            await client.publish(Placed(str(number)))
            await asyncio.sleep(1)
        gaps = [later - earlier for earlier, later in pairwise(tries)]
        assert 12 <= len(tries) <= 40, "ten and more seconds for nothing, or each second"
        assert gaps[0] <= 0.6
        assert max(gaps) <= 9
        assert len(set(gaps[-5:])) > 1, "jitter"
        down = False
        await asyncio.sleep(10)
        assert len(seen) == 120
        tries.clear()
        down = True
        await client.publish(Placed("x"))
        await asyncio.sleep(3)
        assert len(tries) >= 2, "what went well is forgotten"
        down = False
        await place.rest()
