"""Events from a bus into a function: handled once each, however often, and in whatever order, they come."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest
from tests.backends.aws.cloud import Cloud, event_of
from tests.backends.aws.fake_events import BUS, FAULTS, Events, letter, sometimes
from tests.nesting import nested

import holdfast as hf
from holdfast.backends.aws import EventBridgeBus
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.errors import InvalidInput, UnknownName
from holdfast.ports import Home
from holdfast.testing.virtual_time import run_virtual


@dataclass
class Placed:
    order: str


@dataclass
class Uploaded:
    key: str


def new_store() -> Callable[[str], Awaitable[Home]]:
    data = MemoryData()

    async def open_store(owner: str) -> Home:
        return open_memory_home(data=data, owner=owner)

    return open_store


class Seller:
    """Publishes, in its home; and hears there itself of what it publishes."""

    def __init__(self) -> None:
        self.handled: Counter[str] = Counter()

    def __call__(self, app: hf.App) -> None:
        app.to_bus(Placed)

        class Shop(hf.Actor, app=app, name="Shop"):
            async def order(self, order: str) -> None:
                await app.publish(Placed(order))

        @app.consumer(Placed)
        async def bill(event: Placed) -> None:
            self.handled[event.order] += 1


class Packer:
    """Hears of it in another home."""

    def __init__(self) -> None:
        self.handled: Counter[str] = Counter()
        self.files: Counter[str] = Counter()
        self.failing = False

    def __call__(self, app: hf.App) -> None:
        app.from_bus(Uploaded, source="aws.s3", detail_type="Object Created")

        @app.consumer(Placed, retry=hf.Retry(max_attempts=2, initial="1s"))
        async def pack(event: Placed) -> None:
            if self.failing:
                raise ValueError("the box is too small")
            self.handled[event.order] += 1

        @app.consumer(Uploaded, retry=hf.Retry(max_attempts=2, initial="1s"))
        async def scan(event: Uploaded) -> None:
            self.files[event.key] += 1


def telling(story: Callable[[Cloud, Packer], Any]) -> Any:
    async def main() -> Any:
        packer = Packer()
        async with Cloud(new_store(), packer) as cloud:
            return await story(cloud, packer)

    return run_virtual(main)


def placed(order: str, id: str = "web-1", origin: str = "elsewhere", **more: Any) -> dict[str, Any]:
    said = {"holdfast": "event", "origin": origin, "app": "shop", "event": "Placed", "id": id, "published_at": 1}
    return letter("holdfast.shop", "Placed", said | {"data": {"order": order}} | more, f"event-of-{id}")


def uploaded(key: str, id: str = "e-1") -> dict[str, Any]:
    return letter("aws.s3", "Object Created", {"key": key}, id)


@pytest.mark.parametrize("seed", range(4))
def test_two_homes_talk_over_a_bus_that_fails_doubles_and_reorders(seed: int) -> None:
    """What one publishes the other handles once; what comes back to the one it knows."""
    suffered, delivered = Counter[str](), Counter[str]()

    async def main() -> None:
        random = Random(seed)
        seller, packer, events = Seller(), Packer(), Events(sometimes(seed, 0.5))
        async with Cloud(new_store(), seller) as one, Cloud(new_store(), packer) as two:
            one.bus = EventBridgeBus(events, BUS)
            one.begin_sweeping()
            for n in range(60):
                shop = {"holdfast": "call", "actor": "Shop", "key": f"s{n % 3}", "method": "order"}
                await one.invoke(shop | {"args": [f"order-{n}"], "request_id": f"{n}"})
                await asyncio.sleep(1)
            while len({each["detail"]["id"] for each in events.delivered}) < 60:
                await asyncio.sleep(10)
            letters = [each for each in events.delivered for _ in range(random.choice((1, 1, 2, 3)))]
            for n, each in enumerate(letters):
                letters[n] = each | {"id": f"copy-{n}"} if random.random() < 0.2 else each
            random.shuffle(letters)
            delivered.update(copies=len(letters))
            two.doubles = 1  # and each batch of the queue comes twice, at the same time
            for each in letters:
                await two.invoke(each) if random.random() < 0.3 else two.put(json.dumps(each), random.random() * 30)
            for each in letters[:20]:
                await one.invoke(each)  # a rule that sends the home's own events back to it
            await asyncio.sleep(300)
        every = {f"order-{n}": 1 for n in range(60)}
        assert seller.handled == every, "and what came back was known"
        assert packer.handled == every
        suffered.update(events.suffered)

    run_virtual(main)
    assert sum(suffered.values()) >= 10, suffered
    assert delivered["copies"] >= 80, delivered
    SUFFERED.update(suffered)


SUFFERED: Counter[str] = Counter()


def test_every_fault_of_the_bus_was_suffered_by_two_homes_that_talk() -> None:
    """Runs after the test above, in the same process; alone it draws its own."""
    for seed in range(4 if not SUFFERED else 0):
        test_two_homes_talk_over_a_bus_that_fails_doubles_and_reorders(seed)
    assert all(SUFFERED[fault] >= 3 for fault in FAULTS), SUFFERED


def test_events_that_overtake_each_other_are_all_handled() -> None:
    """A mark of how far an actor has come would take the ones that come late for repeats."""

    async def story(cloud: Cloud, packer: Packer) -> None:
        for place in (7, 5, 6, 5):
            told = placed(f"order-{place}", f"abc/{place}", sender="Shop 's'", sequence=place)
            await cloud.invoke(event_of((f"m{place}", json.dumps(told))))
        assert packer.handled == {"order-7": 1, "order-5": 1, "order-6": 1}

    telling(story)


def test_events_of_different_homes_are_different_though_their_ids_are_the_same() -> None:
    async def story(cloud: Cloud, packer: Packer) -> None:
        for origin in ("staging", "production", "staging"):
            await cloud.invoke(placed(f"of {origin}", "order-1", origin))
        assert packer.handled == {"of staging": 1, "of production": 1}

    telling(story)


def test_nobody_takes_the_place_of_an_event_under_another_source() -> None:
    """IAM can hold who puts events on a bus to a source, by ``events:source``, and to nothing of what he says there."""

    async def story(cloud: Cloud, packer: Packer) -> None:
        forged = placed("forged", "order-1", "production") | {"source": "holdfast.stranger"}
        await cloud.invoke(forged)
        await cloud.invoke(placed("paid", "order-1", "production"))
        assert packer.handled == {"forged": 1, "paid": 1}

    telling(story)


def test_what_others_say_is_handled_once_by_the_id_that_the_bus_gave_it() -> None:
    async def story(cloud: Cloud, packer: Packer) -> None:
        for _ in range(3):
            await cloud.invoke(uploaded("a.png", "e-1"))
            await cloud.invoke(event_of(("m", json.dumps(uploaded("b.png", "e-2")))))
        await cloud.invoke(uploaded("a.png", "e-3"))
        assert packer.files == {"a.png": 2, "b.png": 1}

    telling(story)


UNKNOWN = {
    "an event that nobody consumes": placed("1", event="Cancelled"),
    "a source that is not declared": letter("aws.ec2", "Object Created", {"key": "x"}, "e"),
    "a detail type that is not declared": letter("aws.s3", "Object Deleted", {"key": "x"}, "e"),
    "a source of ours, and other words": letter("holdfast.shop", "Placed", {"order": "1"}, "e"),
    "an origin that nobody has": placed("1", origin="actor#Shop#s"),
    "an id that is none": placed("1", "x" * 501),
    "an event that nests too deep": placed("1", data={"order": nested(63)}),
    "an event that nests far too deep": placed("1", data={"order": nested(900)}),
    "a detail that nests too deep": letter("aws.s3", "Object Created", {"key": nested(63)}, "e"),
    "no detail": {name: value for name, value in uploaded("x").items() if name != "detail"},
}


@pytest.mark.parametrize("what", UNKNOWN)
def test_what_nobody_here_is_for_is_an_error_and_never_a_silent_success(what: str) -> None:
    async def story(cloud: Cloud, packer: Packer) -> None:
        event = UNKNOWN[what]
        with pytest.raises((UnknownName, InvalidInput)):
            await cloud.invoke(event)
        batch = event_of(("bad", json.dumps(event)), ("good", json.dumps(placed("1"))))
        assert await cloud.invoke(batch) == {"batchItemFailures": [{"itemIdentifier": "bad"}]}
        assert packer.handled == {"1": 1}

    telling(story)


def test_an_event_that_nests_as_deep_as_one_may_is_taken() -> None:
    async def story(cloud: Cloud, packer: Packer) -> None:
        await cloud.invoke(placed("1", data={"order": "1", "more": nested(62)}))
        assert packer.handled == {"1": 1}

    telling(story)


def test_an_event_whose_content_does_not_fit_or_whose_handler_fails_is_parked_where_one_sees_it() -> None:
    async def story(cloud: Cloud, packer: Packer) -> None:
        packer.failing = True
        await cloud.invoke(placed("1", "one"))
        await cloud.invoke(letter("aws.s3", "Object Created", {"name": "no key"}, "e-9"))
        await asyncio.sleep(3600)
        app = cloud.app()
        async with app:
            found = (await app.parked()).items
        assert sorted(each.key for each in found) == ["aws.s3/e-9", "holdfast.shop/elsewhere/one"]
        assert packer.files == {}

    telling(story)


def test_events_are_durable_before_the_queue_hears_that_they_are_done() -> None:
    async def story(cloud: Cloud, packer: Packer) -> None:
        await cloud.invoke(placed("0", "zero"))
        cloud.is_down = True
        batch = event_of(("one", json.dumps(placed("1", "one"))))
        assert await cloud.invoke(batch) == {"batchItemFailures": [{"itemIdentifier": "one"}]}
        cloud.is_down = False
        assert await cloud.invoke(batch) == {"batchItemFailures": []}
        assert packer.handled == {"0": 1, "1": 1}

    telling(story)


def test_what_came_from_a_bus_does_not_go_to_one() -> None:
    """Else two homes with each other's rules would tell each other the same for ever."""
    events = Events()

    def both(app: hf.App) -> None:
        Packer()(app)
        app.to_bus(Placed)

    async def main() -> None:
        async with Cloud(new_store(), both) as cloud:
            cloud.bus = EventBridgeBus(events, BUS)
            await cloud.invoke(placed("1"))
            await asyncio.sleep(60)

    run_virtual(main)
    assert events.requests == {}
