"""Events that wait in the outboxes of a home, from the command line."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from datetime import datetime

import pytest

import holdfast as hf
from holdfast.bus import Unfit
from holdfast.testing import with_bus

ROW_KEYS = {"app", "queue", "event", "id", "group", "published_at", "consumers", "problem"}
CANARY = "canary-4242"


class Strict:
    """A bus that refuses what it is given, for ever, but for the events that it has been told of."""

    def __init__(self) -> None:
        self.taken = []
        self.allowed = set()

    async def put(self, events):
        names = [json.loads(each.detail)["id"] for each in events]
        self.taken += [name for name in names if name in self.allowed]
        return [None if name in self.allowed else Unfit("MalformedDetail: no") for name in names]


@dataclass
class Placed:
    order: str


@dataclass
class Unwanted:
    text: str


@pytest.fixture
def waiting(shop):
    """Events of two apps that nobody has carried on: there is no worker any more."""
    app, annex = hf.App("shop", home=shop.home), hf.App("annex", home=shop.home)

    class Desk(hf.Actor, app=app, optimistic=True):  # runs in a client too
        async def order(self, order: str) -> None:
            await app.publish(Placed(order))

    @app.consumer(Placed)
    async def bill(event: Placed) -> None: ...

    @app.consumer(Placed)
    async def pack(event: Placed) -> None: ...

    async def publish():
        async with app.worker():
            pass
        async with app, annex:
            await app.publish(Placed(CANARY), id="order-1")
            await app.publish(Unwanted("x"), id="odd")
            now = app.clock.now_ms()
            while app.clock.now_ms() <= now + 1:  # those of two senders are in the order of their milliseconds
                await asyncio.sleep(0)
            await Desk.at("d1").order("2")
            await annex.publish(Placed("3"), id="annex-1")

    asyncio.run(publish())
    return shop


def rows(shop, *options):
    return shop.json("outbox", "ls", *options)["events"]


def ids(found):
    return [each["id"] for each in found]


def test_a_list_has_the_events_of_all_apps_in_the_order_in_which_they_are_carried(waiting):
    found = rows(waiting)
    assert [(each["app"], each["event"]) for each in found] == [
        ("annex", "Placed"),
        ("shop", "Placed"),
        ("shop", "Unwanted"),
        ("shop", "Placed"),
    ]
    assert ids(found)[:3] == ["annex-1", "order-1", "odd"]
    assert all(each.keys() == ROW_KEYS for each in found)
    assert all(datetime.fromisoformat(each["published_at"]) for each in found)


def test_a_list_tells_groups_and_who_they_go_to(waiting):
    annex, alone, unwanted, ordered = rows(waiting)
    assert [annex["consumers"], unwanted["consumers"]] == [[], []]
    assert alone["consumers"] == ordered["consumers"] == ["bill", "pack"]
    assert alone["group"] is None
    assert ordered["group"] == "Desk 'd1'"
    heading, *lines = waiting.invoke("outbox", "ls").output.splitlines()
    assert heading.split() == ["PUBLISHED", "(UTC)", "APP", "EVENT", "ID", "GROUP", "TO"]
    assert "annex-1" in lines[0]
    assert lines[0].endswith("(nobody)")
    assert lines[3].endswith("Desk 'd1'  bill, pack")


def test_a_list_is_narrowed_and_goes_on(waiting):
    assert ids(rows(waiting, "annex")) == ["annex-1"]
    assert rows(waiting, "nobody") == []
    everything = ids(rows(waiting))
    for limit in range(1, 6):
        found, after = [], []
        while True:
            page = waiting.json("outbox", "ls", "--limit", str(limit), *after)
            found += ids(page["events"])
            assert len(page["events"]) <= limit
            if page["cursor"] is None:
                break
            assert page["events"], "a page that is not the last has something"
            after = ["--after", page["cursor"]]
        assert found == everything
    page = waiting.json("outbox", "ls", "--limit", "2")
    assert f"there are more: add --after {page['cursor']}" in waiting.invoke("outbox", "ls", "--limit", "2").output
    assert waiting.refusal("outbox", "ls", "--after", "nonsense")["code"] == "invalid_input"


def test_a_home_is_enough_and_what_events_say_is_not_shown(waiting):
    for form in ((), ("--json",)):
        result = waiting.invoke("outbox", "ls", "--home", waiting.home, *form, app=None)
        assert result.exit_code == 0, result.output
        assert "order-1" in result.output
        assert CANARY not in result.output


def test_what_was_carried_waits_no_more(waiting, worker):
    while rows(waiting, "shop"):
        pass
    assert ids(rows(waiting)) == ["annex-1"], "its app has no worker"


def test_nothing_waits(shop, worker):
    assert shop.invoke("outbox", "ls").output == "no events wait\n"


@pytest.fixture
def refused(shop):
    """Events that a bus has refused for good, and what carries them there."""
    bus = Strict()
    app = hf.App("shop", home=with_bus(shop.home, bus))
    app.to_bus(Placed)

    async def until(done):
        async with app.worker():
            for id in () if bus.allowed else ("one", "two"):
                await app.publish(Placed(CANARY), id=id)
            async with asyncio.timeout(60):
                while not await done():
                    await asyncio.sleep(0.002)

    async def set_aside():
        return len([each for each in (await app.outbox.waiting()).items if each.problem]) == 2

    asyncio.run(until(set_aside))
    return bus, until


def test_what_a_bus_has_refused_for_good_is_listed_sent_again_and_forgotten(shop, refused):
    bus, until = refused
    assert [(each["id"], each["consumers"], each["problem"]) for each in rows(shop)] == [
        ("one", ["(bus)"], "MalformedDetail: no"),
        ("two", ["(bus)"], "MalformedDetail: no"),
    ]
    assert [each["id"] for each in shop.json("outbox", "ls", "--limit", "1")["events"]] == ["one"]
    assert "PROBLEM" in shop.invoke("outbox", "ls").output
    assert shop.invoke("outbox", "resend", "three").output == "0 events are to be sent again\n"
    assert shop.invoke("outbox", "resend", "one").output == "1 event is to be sent again\n"
    assert [(each["id"], each["problem"]) for each in rows(shop)] == [("one", None), ("two", "MalformedDetail: no")]
    bus.allowed = {"one"}

    async def taken():
        return bus.taken == ["one"]

    asyncio.run(until(taken))
    assert shop.json("outbox", "discard", "two") == {"events": 1}
    assert rows(shop) == []
