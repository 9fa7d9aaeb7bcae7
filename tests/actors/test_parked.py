"""Messages set aside: found all over a home, put back, dropped; and halted actors that go on. One write each (G4)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

import holdfast as hf
from holdfast.actors.mailbox.parked import REGISTER
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.testing import FaultCounts, FaultsAt, VirtualClock, faulty_home, run_virtual
from holdfast.testing.faults import LoseAnswer

TWICE = hf.Retry(max_attempts=2, initial="1ms", backoff=1, jitter=hf.Jitter.NONE)
A_WHILE_SECONDS = 30


@dataclass
class Placed:
    order: str


class Shop:
    """An app with actors that fail while something is ``broken``, on data of its own. Use it in virtual time."""

    def __init__(self, poison="park", faults=None):
        self.data, self.counts = MemoryData(), FaultCounts()
        self.faults = faults or FaultsAt({})
        self.broken = {"bad", "worse"}
        self.billed = []
        self.app = hf.App("shop", home=self.open, clock=VirtualClock())
        self.cart = declare(self, poison)

    async def open(self):
        return faulty_home(open_memory_home(data=self.data), self.faults, counts=self.counts)

    def handle(self, key="u1"):
        return self.app.actor("Cart", key)

    async def send(self, *skus):
        for sku in skus:
            await hf.send(self.cart.at("u1").add, sku)
        await asyncio.sleep(A_WHILE_SECONDS)

    async def items(self):
        return await self.cart.at("u1").all()

    def notes(self):
        return sorted(self.data.partitions.get(REGISTER, {}))


def declare(shop, poison):
    class Cart(hf.Actor, app=shop.app, retry=TWICE, poison=poison):
        items: list[str] = hf.field(default_factory=list)

        async def add(self, sku: str) -> None:
            if sku in shop.broken:
                raise ValueError(f"{sku} is broken")
            self.items.append(sku)

        async def place(self, order: str) -> None:
            await shop.app.publish(Placed(order))

        async def remind(self) -> None:
            self.reminder.every("1m", "bad")

        @hf.timer
        async def reminder(self, sku: str) -> None:
            await self.add(sku)

        @hf.read
        async def all(self) -> list[str]:
            return self.items

    @shop.app.consumer(Placed, retry=TWICE, poison=poison)
    async def bill(event: Placed) -> None:
        if event.order in shop.broken:
            raise ValueError(f"{event.order} is broken")
        shop.billed.append(event.order)

    return Cart


def test_parked_messages_of_all_actors_are_found_in_the_order_they_were_sent():
    async def main():
        shop = Shop()
        async with shop.app.worker():
            await hf.send(shop.cart.at("u2").add, "worse")
            await asyncio.sleep(1)
            await shop.send("bad", "good")
            await shop.cart.at("u1").place("bad")
            await asyncio.sleep(A_WHILE_SECONDS)
            page = await shop.app.parked()
            assert [(each.actor, each.message.attempts) for each in page.items] == [
                ("Cart", 2),
                ("Cart", 2),
                ("!shop!bill", 2),
            ]
            assert [each.key for each in page.items][:2] == ["u2", "u1"]
            assert page.after is None
            assert len((await shop.app.parked("Cart")).items) == 2
            first = await shop.app.parked(limit=1)
            assert first.items == page.items[:1]
            rest = await shop.app.parked(limit=2, after=first.after)
            assert rest.items == page.items[1:]
            assert await shop.items() == ["good"]

    run_virtual(main)


def test_what_was_mended_is_in_the_register_no_more():
    async def main():
        shop = Shop()
        async with shop.app.worker():
            await shop.send("bad", "worse")
            bad, worse = (each.message for each in (await shop.app.parked()).items)
            await shop.handle().unpark(bad.place, args={"sku": "good"})
            await shop.handle().discard(worse.place)
            assert shop.notes() == []
            await asyncio.sleep(A_WHILE_SECONDS)
            assert await shop.items() == ["good"]
            for mend in (shop.handle().unpark, shop.handle().discard):
                with pytest.raises(hf.NotFound):
                    await mend(bad.place)

    run_virtual(main)


def test_a_message_that_fails_again_is_parked_again():
    async def main():
        shop = Shop()
        async with shop.app.worker():
            await shop.send("bad")
            for _ in range(3):
                (parked,) = (await shop.app.parked()).items
                await shop.handle().unpark(parked.message.place)
                await asyncio.sleep(A_WHILE_SECONDS)
            assert len(shop.notes()) == 1
            shop.broken.clear()
            (parked,) = (await shop.app.parked()).items
            await shop.handle().unpark(parked.message.place)
            await asyncio.sleep(A_WHILE_SECONDS)
            assert await shop.items() == ["bad"]

    run_virtual(main)


def test_arguments_are_checked_before_anything_is_written():
    async def main():
        shop = Shop()
        async with shop.app.worker():
            await shop.send("bad")
            (message,) = await shop.handle().parked()
            with pytest.raises(hf.InvalidInput, match="sku"):
                await shop.handle().unpark(message.place, args={"sku": 7})
            assert await shop.handle().parked() == (message,)

    run_virtual(main)


def test_the_arguments_of_a_parked_timer_can_be_changed():
    async def main():
        shop = Shop()
        async with shop.app.worker():
            await shop.cart.at("u1").remind()
            await asyncio.sleep(90)
            (parked,) = (await shop.app.parked()).items
            assert parked.message.method == "reminder"
            assert (parked.message.parked_at - parked.message.sent_at).total_seconds() < 1
            await shop.handle().unpark(parked.message.place, args=["good"])
            await asyncio.sleep(1)
            assert await shop.items() == ["good"]

    run_virtual(main)


def test_a_message_is_put_back_into_an_actor_that_was_deleted():
    async def main():
        shop = Shop()
        async with shop.app.worker():
            await shop.send("good", "bad")
            await shop.handle().delete()
            (message,) = await shop.handle().parked()
            shop.broken.clear()
            await shop.handle().unpark(message.place)
            await asyncio.sleep(A_WHILE_SECONDS)
            assert await shop.items() == ["bad"]

    run_virtual(main)


def test_a_message_is_put_back_once_when_the_store_gives_no_answer():
    async def main():
        shop = Shop()
        async with shop.app.worker():
            await shop.send("bad")
        shop.broken.clear()
        client = Shop(faults=FaultsAt({1: LoseAnswer()}))
        client.data = shop.data
        async with client.app:
            (message,) = await client.handle().parked()
            await client.handle().unpark(message.place)
            assert len(await client.handle().messages()) == 1
        client.counts.require(1, LoseAnswer)
        async with shop.app.worker():
            await asyncio.sleep(A_WHILE_SECONDS)
            assert await shop.items() == ["bad"]

    run_virtual(main)


def test_a_request_that_was_set_aside_is_parked():
    async def main():
        shop = Shop()
        async with shop.app.worker():
            await hf.send(shop.cart.at("u1").add, "bad", request_id="r")
            await asyncio.sleep(A_WHILE_SECONDS)
            assert await shop.handle().request_status("r") == "parked"

    run_virtual(main)


# ── Consumers ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_event_that_was_set_aside_is_handled_although_later_ones_have_been():
    async def main():
        shop = Shop()
        async with shop.app.worker():
            for order in ("1", "bad", "2"):
                await shop.cart.at("u1").place(order)
            await asyncio.sleep(A_WHILE_SECONDS)
            assert shop.billed == ["1", "2"]
            shop.broken.clear()
            (parked,) = (await shop.app.parked()).items
            await shop.app.actor(parked.actor, parked.key).unpark(parked.message.place)
            await asyncio.sleep(A_WHILE_SECONDS)
            assert shop.billed == ["1", "2", "bad"]
            await shop.cart.at("u1").place("3")
            await asyncio.sleep(A_WHILE_SECONDS)
            assert shop.billed == ["1", "2", "bad", "3"]
            assert (await shop.app.actor(parked.actor, parked.key).status()).state["mark"] > 0

    run_virtual(main)


# ── Halted actors ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_halted_actor_goes_on_without_the_message_it_stopped_at():
    async def main():
        shop = Shop(poison="halt")
        async with shop.app.worker():
            await shop.send("1", "bad", "2")
            assert await shop.items() == ["1"]
            assert (await shop.handle().status()).status == "HALTED"
            await shop.handle().park()
            await asyncio.sleep(A_WHILE_SECONDS)
            assert await shop.items() == ["1", "2"]
            (message,) = await shop.handle().parked()
            assert (message.args, message.attempts, message.error.message) == ({"sku": "bad"}, 2, "bad is broken")
            assert len(shop.notes()) == 1
            with pytest.raises(hf.InvalidState, match="not halted"):
                await shop.handle().park()

    run_virtual(main)


def test_an_event_that_a_halted_consumer_has_set_aside_is_still_handled():
    async def main():
        shop = Shop(poison="halt")
        async with shop.app.worker():
            for order in ("bad", "1"):
                await shop.cart.at("u1").place(order)
            await asyncio.sleep(A_WHILE_SECONDS)
            (bill,) = (await shop.app.list_actors("!shop!bill", status="HALTED")).items
            await shop.app.actor(bill.actor, bill.key).park()
            await asyncio.sleep(A_WHILE_SECONDS)
            assert shop.billed == ["1"]
            shop.broken.clear()
            (parked,) = (await shop.app.parked()).items
            await shop.app.actor(parked.actor, parked.key).unpark(parked.message.place)
            await asyncio.sleep(A_WHILE_SECONDS)
            assert shop.billed == ["1", "bad"]

    run_virtual(main)


def test_what_a_halted_consumer_stopped_at_is_set_aside_only_where_its_code_is():
    async def main():
        shop = Shop(poison="halt")
        async with shop.app.worker():
            await shop.cart.at("u1").place("bad")
            await asyncio.sleep(A_WHILE_SECONDS)
            (bill,) = (await shop.app.list_actors("!shop!bill", status="HALTED")).items
        async with hf.App("bare", home=shop.open) as bare:
            with pytest.raises(hf.UnknownName, match="code"):
                await bare.actor(bill.actor, bill.key).park()
            assert (await bare.actor(bill.actor, bill.key).status()).status == "HALTED"

    run_virtual(main)


def test_the_actor_of_an_event_is_forgotten_when_what_it_set_aside_is_discarded():
    async def main():
        shop = Shop()
        async with shop.app.worker():
            await shop.app.publish(Placed("bad"), id="web-1")
            await asyncio.sleep(A_WHILE_SECONDS)
            (parked,) = (await shop.app.parked()).items
            head = shop.data.find("actor#!shop!bill#web-1", "@")
            assert head.expires_at is None
            await shop.app.actor(parked.actor, parked.key).discard(parked.message.place)
            await asyncio.sleep(A_WHILE_SECONDS)
            assert shop.data.find("actor#!shop!bill#web-1", "@").expires_at is not None

    run_virtual(main)


def test_a_timer_that_was_set_aside_still_knows_when_it_was_due():
    async def main():
        seen = []
        shop = Shop()

        class Clock(hf.Actor, app=shop.app, retry=TWICE):
            async def start(self) -> None:
                self.strike.after("1m")

            @hf.timer
            async def strike(self) -> None:
                if shop.broken:
                    raise ValueError("broken")
                seen.append(self._turn.due_at)

        async with shop.app.worker():
            await Clock.at("c").start()
            due = (await shop.app.actor("Clock", "c").status()).timers[0].due_at
            await asyncio.sleep(90)
            shop.broken.clear()
            (message,) = await shop.app.actor("Clock", "c").parked()
            await shop.app.actor("Clock", "c").unpark(message.place)
            await asyncio.sleep(A_WHILE_SECONDS)
            assert seen == [int(due.timestamp() * 1000)]

    run_virtual(main)


def test_a_halted_actor_goes_on_without_the_timer_it_stopped_at():
    async def main():
        shop = Shop(poison="halt")
        async with shop.app.worker():
            await shop.cart.at("u1").remind()
            await asyncio.sleep(90)
            before = await shop.handle().status()
            assert before.status == "HALTED"
            await shop.handle().park()
            shop.broken.clear()
            await asyncio.sleep(60)
            after = await shop.handle().status()
            assert await shop.items() == ["bad"], "the timer is set again, for its next time"
            assert after.timers[0].due_at > before.timers[0].due_at
            assert len(await shop.handle().parked()) == 1

    run_virtual(main)


def test_a_halted_actor_tries_again_however_often_it_was_rung():
    async def main():
        shop = Shop(poison="halt")
        async with shop.app.worker():
            await shop.send("bad")
            await shop.send("2")
            shop.broken.clear()
            await shop.handle().resume()
            await asyncio.sleep(A_WHILE_SECONDS)
            assert await shop.items() == ["bad", "2"]
            with pytest.raises(hf.InvalidState, match="not halted"):
                await shop.handle().resume()

    run_virtual(main)


@pytest.mark.parametrize("mend", ["resume", "park"])
def test_a_halted_actor_goes_on_when_the_store_gives_no_answer(mend):
    async def main():
        shop = Shop(poison="halt")
        async with shop.app.worker():
            await shop.send("bad", "2")
        shop.broken.clear()
        client = Shop(faults=FaultsAt({1: LoseAnswer()}))
        client.data = shop.data
        async with client.app:
            await getattr(client.handle(), mend)()
        client.counts.require(1, LoseAnswer)
        async with shop.app.worker():
            await asyncio.sleep(A_WHILE_SECONDS)
            assert await shop.items() == (["2"] if mend == "park" else ["bad", "2"])
            assert len(shop.notes()) == (mend == "park")

    run_virtual(main)


def test_a_halted_actor_is_not_deleted():
    async def main():
        shop = Shop(poison="halt")
        async with shop.app.worker():
            await shop.send("bad")
        async with shop.app:
            with pytest.raises(hf.InvalidState, match="halted"):
                await shop.handle().delete()
            await shop.handle().resume()
            with pytest.raises(hf.WaitTimeout):  # nobody is there to do it
                await shop.handle().delete(timeout="1s")

    run_virtual(main)


# ── A request that lies parked, sent again ──────────────────────────────────────────────────────────────────────────

LATER_SECONDS = 25 * 3600
"""Longer than replies are kept."""


async def ask_for(shop, sku="bad"):
    """Send the one request, and wait until it has been handled."""
    await hf.send(shop.cart.at("u1", request_id="r-1").add, sku)
    await asyncio.sleep(A_WHILE_SECONDS)


@pytest.mark.parametrize("poison", ["park", "halt"])
@pytest.mark.parametrize("mended_first", [True, False])
def test_a_request_that_is_sent_again_while_it_lies_parked_is_applied_once(poison, mended_first):
    async def main():
        shop = Shop(poison)
        async with shop.app.worker():
            await ask_for(shop)
            if poison == "halt":
                await shop.handle().park()
                await asyncio.sleep(A_WHILE_SECONDS)
            if mended_first:
                shop.broken.clear()
            await ask_for(shop)
            assert await shop.items() == []
            assert await shop.handle().request_status("r-1") == "parked"
            assert shop.app.telemetry.counts["message_repeated"] == 1
            shop.broken.clear()
            await asyncio.sleep(LATER_SECONDS)
            for each in await shop.handle().parked():
                await shop.handle().unpark(each.place)
            await asyncio.sleep(A_WHILE_SECONDS)
            await ask_for(shop)
            assert await shop.items() == ["bad"]
            assert await shop.handle().parked() == ()
            assert shop.notes() == []

    run_virtual(main)


def test_one_that_was_sent_several_times_before_it_was_parked_is_parked_once():
    async def main():
        shop = Shop()
        async with shop.app:
            for _ in range(3):
                await hf.send(shop.cart.at("u1", request_id="r-1").add, "bad")
        async with shop.app.worker():
            await asyncio.sleep(A_WHILE_SECONDS)
            (parked,) = await shop.handle().parked()
            assert await shop.handle().messages() == ()
            shop.broken.clear()
            await shop.handle().unpark(parked.place)
            await asyncio.sleep(A_WHILE_SECONDS)
            assert await shop.items() == ["bad"]

    run_virtual(main)


def test_a_call_with_the_id_of_a_parked_request_is_told_so_and_answered_when_that_was_put_back():
    async def main():
        shop = Shop()
        async with shop.app.worker():
            await ask_for(shop)
            shop.broken.clear()
            with pytest.raises(hf.InvalidState, match="request 'r-1' of .* was set aside.* unpark it"):
                await shop.cart.at("u1", request_id="r-1").add("bad")
            with pytest.raises(hf.IdempotencyMismatch):
                await shop.cart.at("u1", request_id="r-1").add("other")
            (parked,) = await shop.handle().parked()
            await shop.handle().unpark(parked.place)
            assert await shop.cart.at("u1", request_id="r-1").add("bad") is None
            assert await shop.items() == ["bad"]

    run_virtual(main)


def test_the_id_of_a_request_that_was_discarded_is_free_again():
    async def main():
        shop = Shop()
        async with shop.app.worker():
            await ask_for(shop)
            (parked,) = await shop.handle().parked()
            await shop.handle().discard(parked.place)
            assert await shop.handle().request_status("r-1") == "unknown"
            shop.broken.clear()
            await ask_for(shop)
            assert await shop.items() == ["bad"]

    run_virtual(main)


def test_an_event_that_is_published_again_while_it_lies_parked_is_handled_once():
    async def main():
        shop = Shop()
        async with shop.app.worker():
            await shop.app.publish(Placed("bad"), id="e-1")
            await asyncio.sleep(A_WHILE_SECONDS)
            shop.broken.clear()
            await asyncio.sleep(LATER_SECONDS)
            await shop.app.publish(Placed("bad"), id="e-1")
            await asyncio.sleep(A_WHILE_SECONDS)
            await asyncio.sleep(LATER_SECONDS)
            for each in (await shop.app.parked()).items:
                await shop.app.actor(each.actor, each.key).unpark(each.message.place)
            await asyncio.sleep(A_WHILE_SECONDS)
            assert shop.billed == ["bad"]

    run_virtual(main)
