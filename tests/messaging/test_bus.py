"""Events on their way to a bus: each at least once, whatever the bus says, and nobody else waits for it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace
from tests.messaging.places import FAST, Paid, Place, Placed, virtually

import holdfast as hf
from holdfast.backends.memory import open_memory_home
from holdfast.bus import BusEvent, NotTaken, Unfit
from holdfast.errors import ConfigurationError, DuplicateName
from holdfast.messaging.bus_queue import decode_head
from holdfast.ports import Home
from holdfast.testing import MemoryBus, VirtualClock, with_bus


class Moody:
    """A bus in whose mood it is to take each event, or not: ``moods`` says so by its order, or else ``mood``."""

    def __init__(self) -> None:
        self.taken: list[dict[str, Any]] = []
        self.asked = 0
        self.unfit: set[str] = set()
        self.down = False
        self.times: list[float] = []

    async def put(self, events: Sequence[BusEvent]) -> Sequence[NotTaken | Unfit | None]:
        self.asked += 1
        self.times.append(asyncio.get_running_loop().time())
        answers: list[NotTaken | Unfit | None] = []
        for event in events:
            detail = json.loads(event.detail)
            if self.down:
                answers.append(NotTaken("ThrottlingException: not now"))
            elif detail["data"]["order"] in self.unfit:
                answers.append(Unfit("MalformedDetail: never"))
            else:
                self.taken.append(detail)
                answers.append(None)
        return answers

    @property
    def orders(self) -> list[str]:
        return [each["data"]["order"] for each in self.taken]


def on_moody(place: Place, bus: Moody, name: str = "shop") -> hf.App:
    async def open_home() -> Home:
        return replace(open_memory_home(data=place.data), bus=bus)

    return hf.App(name, home=open_home, clock=place.clock)


@virtually
async def test_declared_events_go_to_the_bus_with_what_tells_them_apart_and_consumers_get_them_as_before(place: Place):
    app, handled = place.app(), list[str]()
    assert app.to_bus(Placed) is Placed

    class Shop(hf.Actor, app=app):
        async def order(self, order: str) -> None:
            await app.publish(Placed(order, 100))

    @app.consumer(Placed)
    async def bill(event: Placed) -> None:
        handled.append(event.order)

    async with app.worker():
        await app.publish(Placed("one", 5), id="web-1")
        await Shop.at("main").order("two")
        await app.publish(Paid("one"))
        await place.rest()
    assert sorted(handled) == ["one", "two"]
    one, two = place.data.on_bus
    assert (one.source, one.type) == ("holdfast.shop", "Placed")
    said, other = json.loads(one.detail), json.loads(two.detail)
    published_at = said.pop("published_at")
    assert 0 <= place.clock.now_ms() - published_at < 120_000
    assert said == {
        "holdfast": "event",
        "origin": said["origin"],
        "app": "shop",
        "event": "Placed",
        "id": "web-1",
        "data": {"order": "one", "cents": 5},
    }
    assert (other["sender"], other["origin"]) == ("Shop 'main'", said["origin"])
    assert other["sequence"] > 0
    assert other["id"].endswith(f"/{other['sequence']}")


@virtually
async def test_workflows_consumers_and_ticks_publish_to_the_bus_too(place: Place):
    app = place.app()
    app.to_bus(Placed)
    app.to_bus(Paid)

    @app.consumer(Placed)
    async def bill(event: Placed) -> None:
        await app.publish(Paid(event.order))

    @app.workflow
    async def ordering(order: str) -> None:
        await app.publish(Placed(order))

    async with app.worker():
        await ordering.start("one", id="one")
        await place.rest()
    assert [(each.type, json.loads(each.detail)["data"]["order"]) for each in place.data.on_bus] == [
        ("Placed", "one"),
        ("Paid", "one"),
    ]


@virtually
async def test_what_was_not_committed_does_not_leave(place: Place):
    app = place.app()
    app.to_bus(Placed)

    class Shop(hf.Actor, app=app, retry=FAST):
        async def order(self, order: str) -> None:
            await app.publish(Placed(order))
            if order == "bad":
                raise ValueError(order)

    async with app.worker():
        with pytest.raises(ValueError, match="bad"):
            await Shop.at("main").order("bad")
        await Shop.at("main").order("good")
        await place.rest()
    assert [json.loads(each.detail)["data"]["order"] for each in place.data.on_bus] == ["good"]


@virtually
async def test_a_bus_that_is_down_delays_nothing_but_what_is_for_it(place: Place):
    bus, handled = Moody(), list[str]()
    app = on_moody(place, bus)
    app.to_bus(Placed)

    @app.consumer(Placed)
    async def bill(event: Placed) -> None:
        handled.append(event.order)

    bus.down = True
    async with app.worker():
        for n in range(20):
            await app.publish(Placed(f"{n}"))
            await asyncio.sleep(0.5)
        assert handled == [f"{n}" for n in range(20)]
        assert bus.orders == []
        waiting = await app.outbox.waiting()
        assert [each.consumers for each in waiting.items] == [("(bus)",)] * 20
        assert {each.problem for each in waiting.items} == {"ThrottlingException: not now"}
        assert bus.asked < 10, "what is published meanwhile is no reason to try again"
        await asyncio.sleep(3600)
        gaps = [later - earlier for earlier, later in zip(bus.times, bus.times[1:], strict=False)]
        assert 150 < gaps[-1] <= 330, "it is tried again and again, at last every few minutes"
        bus.down = False
        await asyncio.sleep(330)
        assert sorted(bus.orders, key=int) == [f"{n}" for n in range(20)]
        await place.rest()
        await app.publish(Placed("after"))
        await place.rest()
        assert bus.orders[-1] == "after"
        assert (await app.outbox.waiting()).items == ()
        (head,) = [each for each in place.heads() if each.partition.startswith("bus#")]
        assert decode_head(head.body).reason == ""


@virtually
async def test_processes_share_the_pause(place: Place):
    bus = Moody()
    apps = [on_moody(place, bus) for _ in range(3)]
    for app in apps:
        app.to_bus(Placed)
    bus.down = True
    async with apps[0].worker(), apps[1].worker(), apps[2].worker():
        for n in range(200):
            await apps[n % 3].publish(Placed(f"{n}"))
            await asyncio.sleep(1)
        assert bus.asked < 25, bus.asked
        bus.down = False
        await place.rest(600)
    assert sorted(map(int, bus.orders)) == list(range(200))


@virtually
async def test_a_pause_by_a_clock_that_is_far_ahead_is_cut_short(place: Place):
    bus = Moody()
    app, other = on_moody(place, bus), on_moody(place, bus)
    app.to_bus(Placed)
    bus.down = True
    ahead = VirtualClock(offset_ms=365 * 86_400_000)
    other.clock = ahead
    async with app.worker():
        pass
    async with other.worker():
        await other.publish(Placed("one"), id="one")
        await asyncio.sleep(60)
    bus.down = False
    assert bus.asked > 0
    async with app.worker():
        await app.publish(Placed("two"), id="two")  # by a right clock
        await asyncio.sleep(700)
    assert sorted(bus.orders) == ["one", "two"]


@virtually
async def test_what_the_bus_will_never_take_is_set_aside_and_can_be_sent_again_or_forgotten(place: Place):
    bus = Moody()
    app = on_moody(place, bus)
    app.to_bus(Placed)
    bus.unfit = {"bad", "worse"}
    async with app.worker():
        for order in ("a", "bad", "b", "worse", "c"):
            await app.publish(Placed(order), id=f"id-{order}")
        await place.rest()
        assert bus.orders == ["a", "b", "c"]
        asked = bus.asked
        await asyncio.sleep(7200)
        assert bus.asked == asked, "it is not tried for ever"
        found = (await app.outbox.waiting()).items
        assert [(each.id, each.problem) for each in found] == [
            ("id-bad", "MalformedDetail: never"),
            ("id-worse", "MalformedDetail: never"),
        ]
        assert app.telemetry.counts["event_unfit"] == 2
        bus.unfit = {"worse"}
        assert await app.outbox.resend("id-nothing") == 0
        assert await app.outbox.resend() == 2
        await place.rest()
        assert bus.orders == ["a", "b", "c", "bad"]
        assert await app.outbox.discard("id-worse") == 1
        assert (await app.outbox.waiting()).items == ()


@virtually
async def test_many_events_are_sent_once_if_nothing_happens(place: Place):
    app = place.app()
    app.to_bus(Placed)
    async with app:
        async with place.app("other").worker():
            pass
        async with app.worker():
            await asyncio.gather(*(app.publish(Placed(f"{n}")) for n in range(450)))
            await place.rest()
    assert sorted(int(json.loads(each.detail)["data"]["order"]) for each in place.data.on_bus) == list(range(450))


@virtually
async def test_a_worker_that_does_not_declare_them_carries_events_to_the_bus_too(place: Place):
    declaring, other = place.app(), place.app()
    declaring.to_bus(Placed)
    async with declaring.worker():
        pass
    async with other.worker():
        await other.publish(Placed("one"))
        await place.rest()
        assert len(place.data.on_bus) == 1
        await other.unsubscribe("(bus)")
        await other.publish(Placed("two"))
        await place.rest()
    assert len(place.data.on_bus) == 1


def test_a_home_without_a_bus_says_so_when_a_worker_starts(sqlite_world: Any) -> None:
    app = sqlite_world.app()
    app.to_bus(Placed)

    async def main() -> None:
        async with app.worker():
            raise AssertionError("it started")

    with pytest.raises(ConfigurationError, match="Placed for a bus"):
        asyncio.run(main())


def test_any_home_can_have_a_bus_in_memory(sqlite_world: Any, eventually: Any) -> None:
    bus = MemoryBus()
    app = sqlite_world.app(home=with_bus(sqlite_world.home, bus))
    app.to_bus(Placed)

    async def main() -> None:
        async with app.worker():
            await app.publish(Placed("one"), id="one")
            await eventually(lambda: bus.taken)

    asyncio.run(main())
    assert json.loads(bus.taken[0].detail)["id"] == "one"


def test_what_others_say_is_declared_for_one_class() -> None:
    app = hf.App("shop")
    app.from_bus(Placed, source="web", detail_type="order")
    app.from_bus(Placed, source="web", detail_type="order")
    with pytest.raises(DuplicateName, match="order"):
        app.from_bus(Paid, source="web", detail_type="order")
    with pytest.raises(ConfigurationError, match="need no declaration"):
        app.from_bus(Placed, source="holdfast.shop", detail_type="Placed")
