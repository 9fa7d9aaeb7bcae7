"""Consumers: each event once (G5), an actor's in their order (G6), whichever worker carries and handles them."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from tests.messaging.places import Paid, Placed, virtually

import holdfast as hf
from holdfast.items import HEAD
from holdfast.ports import LATE_MS
from holdfast.testing import ProcessDied, World
from holdfast.testing.simulation import swift
from holdfast.testing.virtual_time import run_virtual


def declare(app, seen, *, seconds=0.0):
    """A shop that publishes, and a consumer that notes what it handles and takes its time."""

    class Shop(hf.Actor, app=app):
        orders: int = 0

        async def order(self, count: int = 1) -> None:
            for _ in range(count):
                self.orders += 1
                await app.publish(Placed(f"{self.key}{self.orders}"))

        async def order_under(self, id: str, cents: int) -> None:
            await app.publish(Placed(self.key, cents), id=id)

    @app.consumer(Placed)
    async def note(event: Placed) -> int:
        if seconds:
            await asyncio.sleep(seconds)
        seen.append(event.order)
        return len(seen)

    return Shop


# ── Once ────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_an_event_with_an_id_is_handled_once_from_however_many_processes(world, eventually):
    apps = [world.app() for _ in range(3)]
    seen = []
    shops = [declare(app, seen) for app in apps]
    async with apps[0].worker(), apps[1].worker(), apps[2]:
        for _ in range(3):
            await asyncio.gather(*[app.publish(Placed("web"), id="web-18") for app in apps])
        await shops[0].at("a").order_under("web-18", 0)
        await apps[0].publish(Placed("last"))
        await eventually(lambda: "last" in seen)
        await eventually(lambda: world_is_empty(apps[0]))
        assert await apps[2].actor("!shop!note", "web-18").request_status("web-18") == "completed"
    assert sorted(seen) == ["last", "web"]


async def world_is_empty(app):
    store = app.runtime().home.store
    return not (await store.query("out#shop", prefix="o#")).items


@virtually
async def test_an_id_is_remembered_for_the_window_and_leaves_nothing_behind_it(place):
    app = place.app()
    seen = []

    @app.consumer(Placed, window="1h")
    async def note(event: Placed) -> None:
        seen.append(event.order)

    async with app.worker():
        await app.publish(Placed("1"), id="web-18")
        await place.rest()
        assert {head.partition for head in place.heads()} == {"out#shop", "actor#!shop!note#web-18"}
        await asyncio.sleep(3_500)
        await app.publish(Placed("2"), id="web-18")
        await place.rest()
        assert seen == ["1"]
        await asyncio.sleep(3_700 + LATE_MS // 1000)
        assert {head.partition for head in place.heads()} == {"out#shop"}, "purged"
        await app.publish(Placed("3"), id="web-18")
        await place.rest()
    assert seen == ["1", "3"]


@virtually
async def test_a_repeat_with_other_content_is_not_handled_and_told(place):
    app = place.app()
    seen, told = [], []

    @app.consumer(Placed)
    async def note(event: Placed) -> None:
        seen.append(event)

    app.telemetry.subscribe(lambda event, fields: told.append(fields) if event == "message_mismatched" else None)
    async with app.worker():
        await app.publish(Placed("1", 100), id="web-18")
        await place.rest()
        await app.publish(Placed("1", 100), id="web-18")
        await place.rest()
        assert told == []
        await app.publish(Placed("1", 999), id="web-18")
        await place.rest()
    assert seen == [Placed("1", 100)]
    assert told == [{"partition": "actor#!shop!note#web-18", "id": "web-18"}]


@virtually
async def test_ids_of_different_classes_of_events_have_nothing_to_do_with_each_other(place):
    app = place.app()
    seen = []

    @app.consumer(Placed)
    async def note(event: Placed) -> None:
        seen.append(("placed", event.order))

    @app.consumer(Paid)
    async def book(event: Paid) -> None:
        seen.append(("paid", event.order))

    async with app.worker():
        await app.publish(Placed("1"), id="17")
        await app.publish(Paid("1"), id="17")
        await place.rest()
    assert sorted(seen) == [("paid", "1"), ("placed", "1")]


@virtually
async def test_each_consumer_has_an_idempotency_key_of_its_own_that_stays(place):
    apps = [place.app(), place.app()]
    keys = []

    def handlers(app):
        async def bill(event: Placed) -> None:
            keys.append(("bill", event.order, hf.current().idempotency_key))
            if sum(name == "bill" for name, _, _ in keys) in {1, 2, 4}:
                raise OSError("again")

        async def ship(event: Placed) -> None:
            keys.append(("ship", event.order, hf.current().idempotency_key))

        patient = hf.Retry(max_attempts=5, initial="1m")
        app.consumer(Placed, retry=patient)(bill)
        app.consumer(Placed)(ship)

    handlers(apps[0])
    handlers(apps[1])
    async with apps[0].worker():
        await apps[0].publish(Placed("1"), id="web-18")
        await asyncio.sleep(10)
    async with apps[1].worker():  # after a restart
        await asyncio.sleep(600)
        await apps[1].publish(Placed("2"))
        await place.rest(seconds=600)
    by_handling = {}
    for name, order, key in keys:
        by_handling.setdefault((name, order), set()).add(key)
    assert len(keys) == 7
    assert [len(each) for each in by_handling.values()] == [1, 1, 1, 1]
    assert len(set.union(*by_handling.values())) == 4


# ── In order ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_events_of_each_actor_come_in_its_order_and_others_beside_them(world, eventually):
    apps = [world.app(), world.app()]
    seen = []
    shops = [declare(app, seen) for app in apps]
    async with apps[0].worker(), apps[1].worker():
        await asyncio.gather(
            *[shops[n % 2].at(key).order(count) for n, key in enumerate("abcd" * 3) for count in (1, 3)]
        )
        await eventually(lambda: len(seen) == 48)
        await eventually(lambda: world_is_empty(apps[0]))
    for key in "abcd":
        assert [order for order in seen if order[0] == key] == [f"{key}{n}" for n in range(1, 13)]


@virtually
async def test_one_actor_waits_for_itself_only(place):
    app = place.app()
    seen = []
    shop = declare(app, seen, seconds=10)
    async with app.worker():
        await shop.at("a").order(3)
        await shop.at("b").order(1)
        await asyncio.gather(*[app.publish(Placed(f"alone {n}")) for n in range(20)])
        begun = place.now()
        await place.rest()
        assert 30 <= place.now() - begun < 34  # it keeps its lease for three seconds more
    assert sorted(seen[:22]) == sorted(["a1", "b1", *(f"alone {n}" for n in range(20))])
    assert seen[22:] == ["a2", "a3"]


@virtually
async def test_an_actor_that_ends_and_begins_again_goes_on_behind_its_earlier_events(place):
    app = place.app()
    seen = []
    shop = declare(app, seen)
    async with app.worker():
        for _ in range(3):
            await shop.at("a").order(2)
            await app.actor("Shop", "a").delete()
        await shop.at("a").order(1)
        await place.rest()
    assert seen == ["a1", "a2"] * 3 + ["a1"]


# ── Who gets what ───────────────────────────────────────────────────────────────────────────────────────────────────


@virtually
async def test_every_consumer_of_a_class_gets_each_event(place):
    app = place.app()
    seen = []

    @app.consumer(Placed)
    async def bill(event: Placed) -> None:
        seen.append(f"bill {event.order}")

    @app.consumer(Placed, name="ship")
    async def _send(event: Placed) -> None:
        seen.append(f"ship {event.order}")

    @app.consumer(Paid)
    async def book(event: Paid) -> None:
        seen.append(f"book {event.order}")

    async with app.worker():
        await app.publish(Placed("1"))
        await app.publish(Paid("2"))
        await place.rest()
    assert sorted(seen) == ["bill 1", "book 2", "ship 1"]


@virtually
async def test_apps_that_share_a_file_keep_their_events_and_consumers_of_one_name_apart(place):
    apps = {name: place.app(name) for name in ("shop", "crm")}
    seen = {name: [] for name in apps}
    for name, app in apps.items():
        declare(app, seen[name])
    async with apps["shop"].worker(), apps["crm"].worker():
        for name, app in apps.items():
            await app.publish(Placed(name), id="17")
        await place.rest()
    assert seen == {"shop": ["shop"], "crm": ["crm"]}


@virtually
async def test_an_event_that_nobody_has_subscribed_to_is_dropped_and_told(place):
    app = place.app()
    async with app.worker():
        await app.publish(Placed("1"))
        await place.rest()
        assert app.telemetry.counts["event_unwanted"] == 1


@virtually
async def test_a_consumer_that_subscribes_later_gets_what_comes_from_then_on(place):
    first, second = place.app(), place.app()
    early, late = [], []

    @first.consumer(Placed)
    async def bill(event: Placed) -> None:
        early.append(event.order)

    @second.consumer(Placed)
    async def ship(event: Placed) -> None:
        late.append(event.order)

    async with first.worker():
        await first.publish(Placed("1"))
        await place.rest()
        async with second.worker():
            await first.publish(Placed("2"))
            await place.rest()
        assert late == ["2"]
        for order in "345":  # it is down: another relays, and they wait
            await first.publish(Placed(order))
        await asyncio.sleep(60)
        assert (early, late) == (["1", "2", "3", "4", "5"], ["2"])
        async with second.worker():
            await place.rest()
    assert sorted(late) == ["2", "3", "4", "5"]


@virtually
async def test_a_consumer_that_is_gone_for_good_can_be_unsubscribed(place):
    first, second = place.app(), place.app()
    declare(first, [])
    declare(second, seen := [])
    async with first.worker():
        await first.unsubscribe("note")
        await first.publish(Placed("1"))
        await place.rest()
        assert first.telemetry.counts["event_unwanted"] == 1
    async with second.worker():
        await second.publish(Placed("2"))
        await place.rest()
    assert seen == ["2"]


@virtually
async def test_more_consumers_than_a_page_of_the_store_get_their_events(place):
    app = place.app()
    seen = []

    def consumer(n):
        @app.consumer(Placed, name=f"c{n:04d}")
        async def handle(event: Placed) -> None:
            seen.append(n)

    for n in range(1_010):
        consumer(n)
    async with app.worker():
        await app.publish(Placed("1"))
        await place.rest()
    assert sorted(seen) == list(range(1_010))


@virtually
async def test_more_events_than_a_batch_of_the_relay_come_through_in_order(place):
    app = place.app()
    seen = []
    shop = declare(app, seen)
    async with app.worker():
        for _ in range(5):
            await shop.at("a").order(101)
        await place.rest()
    assert seen == [f"a{n}" for n in range(1, 506)]


@virtually
async def test_a_full_mailbox_holds_no_event_up(place):
    app = place.app()
    seen = []
    shop = declare(app, seen, seconds=0.01)
    async with app.worker():
        await shop.at("a").order(1_500)  # the bound of a mailbox is 1,000
        await app.publish(Placed("alone"))
        await place.rest()
    assert len(seen) == 1_501
    assert "alone" in seen[:200]


@virtually
async def test_a_handler_that_meets_a_full_mailbox_is_tried_again(place):
    app = place.app()

    class Box(hf.Actor, app=app, mailbox=2):
        letters: list[str] = hf.field(default_factory=list)

        async def drop(self, letter: str) -> None:
            await asyncio.sleep(2)
            self.letters.append(letter)

    @app.consumer(Placed, retry=hf.Retry(max_attempts=30, initial="1s", backoff=1))
    async def forward(event: Placed) -> None:
        for n in range(2):
            await hf.send(Box.at("b").drop, f"{event.order} {n}")

    async with app.worker():
        for order in "1234":
            await app.publish(Placed(order), id=order)
        await place.rest()
        assert app.telemetry.counts["message_failed"] > 0
        letters = (await app.actor("Box", "b").status()).state["letters"]
    assert sorted(letters) == [f"{order} {n}" for order in "1234" for n in range(2)]


# ── What a consumer may be ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_consumer_without_its_class_of_events_is_refused():
    app = hf.App("shop", home="memory://")
    with pytest.raises(hf.ConfigurationError, match=r"as in @app.consumer\(OrderPlaced\)"):

        @app.consumer
        async def bill(event: object) -> None: ...


def test_what_is_no_consumer_is_refused_when_it_is_declared():
    app = hf.App("shop")

    def plain(event: Placed) -> None: ...
    async def nothing() -> None: ...
    async def two(event: Placed, other: int) -> None: ...
    async def by_name(*, event: Placed) -> None: ...
    async def other_event(event: Paid) -> None: ...
    async def unknown_hint(event: Nowhere) -> None: ...  # noqa: F821

    for function, message in (
        (plain, "async def"),
        (nothing, "one argument"),
        (two, "one argument"),
        (by_name, "one argument"),
        (other_event, "takes Paid, but is declared for Placed"),
        (unknown_hint, "Nowhere"),
    ):
        with pytest.raises(hf.ConfigurationError, match=message):
            app.consumer(Placed)(function)
    with pytest.raises(hf.ConfigurationError, match="class"):
        app.consumer("Placed")(lambda event: None)  # type: ignore[arg-type]
    with pytest.raises(hf.InvalidInput, match="a consumer's name"):
        app.consumer(Placed, name="a/b")(lambda event: None)
    with pytest.raises(hf.ConfigurationError, match="poison"):

        @app.consumer(Placed, poison="drop")
        async def bad_policy(event: Placed) -> None: ...

    with pytest.raises(hf.SerializationError, match="Opaque"):

        @app.consumer(Opaque)
        async def opaque(event: Opaque) -> None: ...

    @app.consumer(Placed)
    async def note(event: Placed) -> None: ...

    with pytest.raises(hf.DuplicateName, match="two consumers"):
        app.consumer(Paid, name="note")(by_any_name)

    with pytest.raises(hf.InvalidInput, match="printable characters"):

        class Intruder(hf.Actor, app=app, name="!shop!note"):
            pass


class Opaque:
    pass


async def by_any_name(event) -> None: ...


@virtually
async def test_what_a_consumer_answers_and_takes_beside_the_event_is_its_own_affair(place):
    app = place.app()
    seen = []

    @app.consumer(Placed)
    async def unannotated(event, more=None, *rest, **others):
        seen.append(type(event))
        return {"anything": [1, 2]}

    async with app.worker():
        await app.publish(Placed("1"), id="17")
        await place.rest()
        assert await app.actor("!shop!unannotated", "17").request_status("17") == "completed"
    assert seen == [Placed]


# ── Processes that die ──────────────────────────────────────────────────────────────────────────────────────────────


def test_what_a_consumer_of_a_dead_process_had_begun_is_done_by_the_next():
    async def main():
        world = World(build, limits=swift())
        first = await world.boot()
        await first.call(first.user)
        await asyncio.sleep(2)
        first.crash()
        with pytest.raises(ProcessDied):
            await first.call(first.user)
        second = await world.boot()
        await asyncio.sleep(timedelta(minutes=2).total_seconds())
        heads = [item for item in await world.database.items() if item.sort == HEAD]
        await second.stop()
        await world.close()
        return dict(world.ledger.accepted), world.ledger.attempts, heads

    def build(app, ledger):
        @app.consumer(Placed)
        async def pack(event: Placed) -> None:
            await asyncio.sleep(5)
            ledger.effect(event.order, key=hf.current().idempotency_key)

        async def user() -> None:
            await app.publish(Placed("1"), id="17")

        return user

    accepted, attempts, heads = run_virtual(main)
    assert list(accepted.values()) == ["1"]
    assert attempts.total() == 1
    assert all(head.owner is None and head.due_at is None for head in heads)
