"""The context of an event goes over a bus and comes out at the other end, and is no part of what the event is."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest
from msgspec import Raw

import holdfast as hf
from holdfast.backends.memory import MemoryBus
from holdfast.messaging.arrivals import IncomingEvent, take_from_bus
from holdfast.testing import with_bus
from holdfast.tracing import here, within

CALLER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@dataclass
class Placed:
    order: str


def arriving(detail: bytes, letter: str = "1") -> IncomingEvent:
    return IncomingEvent(letter, "holdfast.shop", Raw(detail), "Placed")


@pytest.fixture
def bus():
    return MemoryBus()


@pytest.fixture(params=["memory", "sqlite"])
def sender(request, bus, tmp_path):
    url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/shop.db"
    return hf.App("shop", home=with_bus(url, bus))


async def test_what_publishes_in_a_trace_is_handled_in_it_by_another_app(sender, bus, eventually):
    sender.to_bus(Placed)
    receiver, seen = hf.App("billing", home="memory://"), dict[str, str]()

    @receiver.consumer(Placed)
    async def bill(event: Placed) -> None:
        seen[event.order] = here()

    async with sender.worker(), receiver.worker():
        with within(CALLER):
            await sender.publish(Placed("traced"), id="1")
        await sender.publish(Placed("alone"), id="2")
        await eventually(lambda: len(bus.taken) == 2)
        for event in bus.taken:
            await take_from_bus(receiver, arriving(event.detail))
        await eventually(lambda: len(seen) == 2)
    assert seen == {"traced": CALLER, "alone": ""}
    with_it, without = (json.loads(event.detail) for event in bus.taken)
    assert with_it["traceparent"] == CALLER
    assert "traceparent" not in without


@pytest.mark.parametrize("damaged", ["nonsense", 7, None, ["x"], {"a": 1}, "ff" + CALLER[2:], "x" * 10_000])
async def test_a_damaged_context_is_ignored_and_the_event_handled(damaged, eventually):
    receiver, seen = hf.App("billing", home="memory://"), list[str]()

    @receiver.consumer(Placed)
    async def bill(event: Placed) -> None:
        seen.append(here())

    said = {"holdfast": "event", "origin": "o", "app": "shop", "event": "Placed", "id": "1", "published_at": 0}
    detail = json.dumps({**said, "data": {"order": "a"}, "traceparent": damaged}).encode()
    async with receiver.worker():
        await take_from_bus(receiver, arriving(detail))
        await eventually(lambda: seen)
    assert seen == [""]


async def test_the_same_event_with_another_context_is_the_same_event(eventually):
    receiver, seen = hf.App("billing", home="memory://"), list[str]()

    @receiver.consumer(Placed)
    async def bill(event: Placed) -> None:
        seen.append(event.order)

    said = {"holdfast": "event", "origin": "o", "app": "shop", "event": "Placed", "published_at": 0}
    async with receiver.worker():
        for letter, trace in (("1", CALLER), ("2", CALLER.replace("00f0", "11f1")), ("3", "")):
            told = {**said, "id": "same", "data": {"order": "a"}, "traceparent": trace}
            await take_from_bus(receiver, arriving(json.dumps(told).encode(), letter))
            await eventually(lambda: seen)
        last = {**said, "id": "last", "data": {"order": "b"}}
        await take_from_bus(receiver, arriving(json.dumps(last).encode(), "4"))
        await eventually(lambda: "b" in seen)
    assert seen == ["a", "b"]
    assert not receiver.telemetry.counts["message_mismatched"]
