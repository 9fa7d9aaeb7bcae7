"""A message whose owner was not woken, because the store did not answer in between: its sender wakes it (G1)."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import pytest
from msgspec.structs import replace

import holdfast as hf
from holdfast.actors.mailbox.delivery import deliver
from holdfast.actors.mailbox.post import some_head
from holdfast.actors.kind import REPLY_WINDOW_MS
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.errors import StoreUnavailable
from holdfast.items import ABSENT, Item, Put
from holdfast.messaging.outbox import all_parts
from holdfast.ports import Home
from holdfast.testing import VirtualClock, run_virtual
from holdfast.testing.faults import FailBefore, FaultPlan, LoseAnswer, WriteFault
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
