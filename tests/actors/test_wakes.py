"""A message whose owner was not woken, because the store did not answer in between: its sender wakes it (G1)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import Raw
from msgspec.structs import replace

import holdfast as hf
from holdfast.actors.kind import REPLY_WINDOW_MS
from holdfast.actors.mailbox.delivery import deliver
from holdfast.actors.mailbox.departures import Departures
from holdfast.actors.mailbox.post import some_head
from holdfast.actors.record import Call, Departure, encode
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.errors import StoreUnavailable
from holdfast.items import ABSENT, Item, Put
from holdfast.messaging.outbox import Entry, all_parts, encode_entry, part_for
from holdfast.messaging.relay import Message, _deliver_to
from holdfast.ports import Home
from holdfast.testing import VirtualClock, run_virtual
from holdfast.testing.faults import Delay, FailBefore, FaultPlan, LoseAnswer, WriteFault
from holdfast.testing.faulty import faulty_home

RECEIVER = "actor#Till#b"


@dataclass
class Paid:
    """An event."""

    cents: int


class Planned(FaultPlan):
    """Faults for the next writes, in their order; then none."""

    def __init__(self) -> None:
        self.next: list[WriteFault | None] = []

    def on_write(self, number: int) -> WriteFault | None:
        return self.next.pop(0) if self.next else None

    def on_read(self) -> None:
        return None

    def on_ring(self) -> None:
        return None


class Outside:
    """An app that only sends, to actors and consumers that are elsewhere."""

    def __init__(self) -> None:
        self.data = MemoryData()
        self.plan = Planned()
        self.app = app = hf.App("shop", home=self._open, clock=VirtualClock())

        class Till(hf.Actor, app=app):
            async def pay(self, cents: int) -> None:
                raise AssertionError(cents)

        self.Till = Till

    async def _open(self) -> Home:
        return faulty_home(replace(open_memory_home(data=self.data), writes_are_paid=True), self.plan)

    async def rest(self, partition: str) -> Item:
        """Leave an owner's head as it is when everything was done."""
        store = open_memory_home(data=self.data).store
        head = Item(partition, status="SUSPENDED", revision=5)
        await store.write(Put(head))
        return head

    def head(self, partition: str) -> Item:
        return self.data.partitions[partition]["@"]

    def sorts(self, partition: str, prefix: str) -> list[str]:
        return [sort for sort in self.data.partitions[partition] if sort.startswith(prefix)]


AFTER_THE_MESSAGES: Any = pytest.mark.parametrize(
    "faults",
    [
        [None, FailBefore()],  # they are there, and nobody was woken
        [LoseAnswer()],  # the same, and the sender does not know that they are there
        [None, LoseAnswer()],  # the owner was woken, and the sender does not know it
        [FailBefore()],  # nothing was done
    ],
)


@AFTER_THE_MESSAGES
def test_a_message_of_a_client_wakes_its_actor(faults: list[WriteFault | None]) -> None:
    async def main() -> None:
        outside = Outside()
        async with outside.app:
            await outside.rest(RECEIVER)
            outside.plan.next = faults
            await hf.send(outside.Till.at("b").pay, 7)
            _is_woken(outside, RECEIVER, "i#")

    run_virtual(main)


@AFTER_THE_MESSAGES
def test_what_departs_wakes_its_receiver(faults: list[WriteFault | None]) -> None:
    async def main() -> None:
        outside = Outside()
        async with outside.app:
            await outside.rest(RECEIVER)
            outside.plan.next = faults
            put = Put(Item(RECEIVER, f"i#{1:020d}#someone", body=b"{}"), ABSENT)
            await deliver(RECEIVER, [put], some_head(RECEIVER), outside.app.runtime())
            _is_woken(outside, RECEIVER, "i#")

    run_virtual(main)


@AFTER_THE_MESSAGES
def test_an_event_wakes_its_relay(faults: list[WriteFault | None]) -> None:
    async def main() -> None:
        outside = Outside()
        async with outside.app:
            for part in all_parts("shop"):
                await outside.rest(part)
            outside.plan.next = faults
            await outside.app.publish(Paid(7))
            (part,) = [each for each in all_parts("shop") if outside.sorts(each, "o#")]
            _is_woken(outside, part, "o#")

    run_virtual(main)


def _is_woken(outside: Outside, partition: str, prefix: str) -> None:
    head = outside.head(partition)
    assert head.due_at is not None
    assert head.revision > 5
    assert len(outside.sorts(partition, prefix)) == 1


def test_a_message_whose_actor_has_halted_meanwhile_is_not_left_behind() -> None:
    async def main() -> None:
        outside = Outside()
        async with outside.app:
            await hf.send(outside.Till.at("b").pay, 7)
            before = outside.sorts(RECEIVER, "i#")
            await open_memory_home(data=outside.data).store.write(Put(Item(RECEIVER, status="HALTED", revision=5)))
            await hf.send(outside.Till.at("b").pay, 8)
            assert len(outside.sorts(RECEIVER, "i#")) == len(before) + 1
            assert outside.head(RECEIVER).revision == 6

    run_virtual(main)


NEVER_WOKEN: Any = pytest.mark.parametrize("written", [0, 1])
"""How many writes are applied before the sender stops."""


async def _stop(outside: Outside, written: int, sending: Awaitable[object]) -> None:
    outside.plan.next = [*repeat(None, written), *repeat(FailBefore(), 1_000)]
    with suppress(StoreUnavailable):  # nothing is there; or all is, and its owner is woken
        await sending
    outside.plan.next = []


def _is_whole(outside: Outside, partition: str, prefix: str, written: int) -> None:
    assert len(outside.sorts(partition, prefix)) == written
    assert (outside.head(partition).revision > 5) == (written > 0)


@NEVER_WOKEN
def test_a_request_that_may_be_sent_again_never_waits_without_a_wake_up(written: int) -> None:
    async def main() -> None:
        outside = Outside()
        async with outside.app:
            await outside.rest(RECEIVER)
            await _stop(outside, written, hf.send(outside.Till.at("b").pay, 7, request_id="r"))
            _is_whole(outside, RECEIVER, "i#", written)

    run_virtual(main)


@NEVER_WOKEN
def test_an_event_that_may_be_published_again_never_waits_without_a_wake_up(written: int) -> None:
    async def main() -> None:
        outside = Outside()
        async with outside.app:
            for part in all_parts("shop"):
                await outside.rest(part)
            await _stop(outside, written, outside.app.publish(Paid(7), id="e"))
            _is_whole(outside, part_for("shop", "e", outside.app.runtime().home), "o#", written)

    run_virtual(main)


@NEVER_WOKEN
@pytest.mark.parametrize("place", [0, 4])
def test_an_event_of_an_actor_waits_without_a_wake_up_only_if_its_place_tells_a_repeat(
    place: int, written: int
) -> None:
    async def main() -> None:
        outside = Outside()
        async with outside.app:
            part = part_for("shop", "e", outside.app.runtime().home)
            await outside.rest(part)
            entry = Entry(event="Paid", id="e", group="e", data=Raw(b"{}"), place=place, published_at=0)
            body = Raw(encode_entry(entry))
            departure = Item("actor#Till#a", "o#1", body=encode(Departure(part, f"o#{1:020d}#a", body)))
            departures = Departures("actor#Till#a")
            outside.plan.next = [*repeat(None, written), *repeat(FailBefore(), 1_000)]
            departures.begin([departure], outside.app.runtime(), lambda _error: None)
            await asyncio.sleep(1)
            departures.forget()
            await asyncio.sleep(1)
            assert len(outside.sorts(part, "o#")) == written
            assert (outside.head(part).revision > 5) == (written > 0 and place == 0)

    run_virtual(main)


@NEVER_WOKEN
def test_a_relayed_event_that_its_id_alone_tells_from_others_never_waits_without_a_wake_up(written: int) -> None:
    async def main() -> None:
        outside = Outside()
        async with outside.app:
            receiver = "actor#Ledger#e"
            await outside.rest(receiver)
            call = Call(id="e", method="handle", args=Raw(b"{}"), known=True, named=True)
            message = Message(receiver, f"i#{1:020d}#a", call)
            # One more is refused: its head is there, and it takes the receiver for a new one.
            outside.plan.next = [*repeat(None, 2 * written), *repeat(FailBefore(), 1_000)]
            runtime = outside.app.runtime()
            # A process without its code.
            host: Any = SimpleNamespace(home=runtime.home, entities={}, model_of=lambda _partition: None)
            relaying = asyncio.ensure_future(_deliver_to(receiver, [message], runtime, host))
            await asyncio.sleep(1)
            relaying.cancel()
            await asyncio.wait([relaying])
            assert relaying.cancelled() or relaying.exception() is None
            _is_whole(outside, receiver, "i#", written)

    run_virtual(main)


def test_a_request_whose_sender_died_before_it_woke_anyone_is_not_applied_after_its_repeat_is_forgotten() -> None:
    async def main() -> None:
        outside, worker = Outside(), Outside()
        worker.data = outside.data
        applied: list[int] = []

        class Safe(hf.Actor, app=worker.app):
            async def pay(self, cents: int) -> None:
                applied.append(cents)

        class Sent(hf.Actor, name="Safe", app=outside.app):
            async def pay(self, cents: int) -> None:
                raise AssertionError(cents)

        async with worker.app.worker(), outside.app:
            await Safe.at("s").pay(1)
            outside.plan.next = [None, *repeat(FailBefore(), 1_000)]
            with suppress(StoreUnavailable):  # it is there, and was not answered; or it has come with its wake-up
                await hf.send(Sent.at("s").pay, 2, request_id="r")
            outside.plan.next = []
            await Safe.at("s", request_id="r").pay(2)
            await asyncio.sleep(REPLY_WINDOW_MS / 1000 + 60)
            await hf.send(Sent.at("s").pay, 3)
            await Safe.at("s").pay(4)
        assert applied == [1, 2, 3, 4]

    run_virtual(main)


def test_what_another_process_has_found_delivered_is_not_taken_back() -> None:
    async def main() -> None:
        slow, other = Outside(), Outside()
        other.data = slow.data
        puts = [Put(Item(RECEIVER, f"i#{number:020d}#someone", body=b"{}"), ABSENT) for number in (1, 2)]
        async with slow.app, other.app:
            # Both take the receiver for one that exists: the first wake-up of each is refused.
            slow.plan.next = [None, None, Delay(before_seconds=60)]
            first = asyncio.ensure_future(deliver(RECEIVER, puts, some_head(RECEIVER), slow.app.runtime()))
            await asyncio.sleep(1)
            await deliver(RECEIVER, puts, some_head(RECEIVER), other.app.runtime())
            first.cancel()  # it is no owner any more; what it has sent to its store goes on
            await asyncio.sleep(600)
            assert slow.sorts(RECEIVER, "i#") == [put.item.sort for put in puts]
            assert slow.head(RECEIVER).due_at is not None

    run_virtual(main)


def test_an_actor_that_is_sent_to_by_another_one_is_woken_by_the_commit() -> None:
    applied = list[float]()
    home = partial(open_memory_home, MemoryData())

    async def opened() -> Home:
        return home()

    app = hf.App("shop", home=opened, clock=VirtualClock())

    class Till(hf.Actor, app=app):
        async def note(self) -> None:
            applied.append(asyncio.get_running_loop().time())

        async def pass_on(self) -> None:
            await hf.send(Till.at("b").note)

    async def main() -> float:
        async with app.worker():
            await Till.at("b").note()
            began = asyncio.get_running_loop().time()
            await Till.at("a").pass_on()
            await asyncio.sleep(60)
            return began

    began = run_virtual(main)
    assert len(applied) == 2
    assert applied[1] - began < 0.1, "and not at the next sweep"
