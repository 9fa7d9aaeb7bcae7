"""Where each write is billed, what an actor sends leaves after its commit, by writes of the receivers alone."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

import holdfast as hf
from holdfast.actors.mailbox.delivery import deliver
from holdfast.actors.mailbox.post import some_head
from holdfast.actors.record import DEPARTURE_PREFIX, PARTITION_PREFIX, TAKEN
from holdfast.backends.aws.requests import BOUNDS
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.items import HEAD, Bounds, Put, Write, place
from holdfast.ports import Home
from holdfast.retry import Jitter, Retry
from holdfast.testing import VirtualClock, run_virtual

A, B = "actor#Desk#a", "actor#Till#b"


class Store:
    """A store that notes each of its writes. One that is ``held`` back waits until it is let through."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.writes: list[tuple[Write, ...]] = []
        self.held: Any = lambda _writes: False
        self.free = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def write(self, *writes: Write) -> Any:
        if self.held(writes):
            await self.free.wait()
        answers = await self._store.write(*writes)
        self.writes.append(writes)
        return answers

    def to(self, partition: str) -> list[tuple[Write, ...]]:
        return [each for each in self.writes if any(place(write)[0] == partition for write in each)]


class Shop:
    """An app on a home where each write is billed, with two actors: a desk that sends, and a till that receives."""

    def __init__(self, data: MemoryData | None = None, bounds: Bounds | None = None, **options: Any) -> None:
        self.data = data or MemoryData()
        self.stores: list[Store] = []
        self.taken: list[Any] = []
        self.app = app = hf.App("shop", home=self._open, clock=VirtualClock())
        self.bounds = bounds
        taken = self.taken

        class Till(hf.Actor, app=app, **options):
            paid: list[int] = hf.field(default_factory=list)

            async def pay(self, cents: int) -> None:
                if cents < 0:
                    raise ValueError("no such coin")
                taken.append(cents)
                self.paid = [*self.paid, cents]

            async def total(self) -> int:
                return sum(self.paid)

        class Desk(hf.Actor, app=app):
            served: int = 0
            sent: Any = None

            async def serve(self, *cents: int, delay: str | None = None, to: str = "b") -> None:
                self.served += 1
                for each in cents:
                    taken.append(await hf.send(Till.at(to).pay, each, delay=delay))
                taken.clear() if delay is None else None

            async def count(self) -> None:
                self.served += 1

            async def pay_many(self, count: int, keys: int) -> None:
                for number in range(count):
                    await hf.send(Till.at(f"t{number % keys}").pay, number)

            async def ask(self) -> int:
                return await Till.at("b").total()

            async def give_up(self) -> None:
                raise AssertionError

        self.Desk, self.Till = Desk, Till

    async def _open(self) -> Home:
        home = open_memory_home(data=self.data)
        self.stores.append(Store(home.store))
        return replace(home, writes_are_paid=True, store=self.stores[-1], bounds=self.bounds)

    @property
    def store(self) -> Store:
        return self.stores[-1]

    def items(self, partition: str, prefix: str) -> list[str]:
        return sorted(sort for sort in self.data.partitions.get(partition, {}) if sort.startswith(prefix))

    async def until(self, holds: Any) -> None:
        for _ in range(10_000):
            if holds():
                return
            await asyncio.sleep(0.05)
        raise AssertionError("it has not happened")


def test_no_write_touches_two_partitions_and_the_receiver_is_written_once():
    async def main() -> None:
        shop = Shop()
        async with shop.app.worker():
            await shop.Desk.at("a").count()
            await asyncio.sleep(10)
            before = len(shop.store.to(A))
            await shop.Desk.at("a").count()
            await asyncio.sleep(10)
            without = len(shop.store.to(A)) - before
            await shop.Desk.at("a").serve(5)
            await shop.until(lambda: shop.taken == [5])
            await asyncio.sleep(10)
            assert len(shop.store.to(A)) - before - without == without + 1  # it is released when that is delivered
            delivered = [each for each in shop.store.to(B) if any(place(write)[1].startswith("i#") for write in each)]
            by_the_sender = [each for each in delivered if isinstance(each[0], Put)]
            assert len(by_the_sender) == 1
        assert all(len({place(write)[0] for write in each}) == 1 for each in shop.store.writes)
        assert not shop.items(A, DEPARTURE_PREFIX)

    run_virtual(main)


def test_a_hot_actor_deletes_what_is_delivered_with_its_next_commit():
    async def main() -> None:
        shop = Shop()
        async with shop.app.worker():
            for _ in range(2):
                await shop.Desk.at("a").count()
                await asyncio.sleep(0.5)
            before = len(shop.store.to(A))
            for cents in range(1, 6):
                await shop.Desk.at("a").serve(cents)
                await shop.until(lambda cents=cents: shop.taken == [cents])
            assert len(shop.store.to(A)) - before == 5
            assert len(shop.items(A, DEPARTURE_PREFIX)) <= 1

    run_virtual(main)


def test_messages_of_one_actor_are_applied_in_the_order_sent_although_deliveries_wait():
    async def main() -> None:
        shop = Shop()
        async with shop.app.worker():
            shop.store.held = lambda writes: place(writes[0])[0] == B and place(writes[0])[1] != HEAD
            await shop.Desk.at("a").serve(1, 2)
            await shop.Desk.at("a").serve(3)
            await asyncio.sleep(5)
            assert len(shop.items(A, DEPARTURE_PREFIX)) == 3
            told = await shop.app.actor("Desk", "a").departures(limit=2)
            assert [(each.to, each.what) for each in told] == [("Till 'b'", "pay")] * 2
            assert not shop.items(B, "i#")
            shop.store.free.set()
            await shop.until(lambda: shop.taken == [1, 2, 3])

    run_virtual(main)


def test_a_call_comes_behind_what_its_caller_has_sent():
    async def main() -> None:
        shop = Shop()
        async with shop.app.worker():
            shop.store.held = lambda writes: place(writes[0])[0] == B and place(writes[0])[1] != HEAD
            await shop.Desk.at("a").serve(1, 2)
            asking = asyncio.create_task(shop.Desk.at("a").ask())
            await asyncio.sleep(5)
            assert not asking.done()
            shop.store.free.set()
            assert await asking == 3

    run_virtual(main)


def test_what_a_dead_owner_has_sent_is_delivered_by_the_next():
    async def main() -> None:
        first = Shop()
        async with first.app.worker():
            first.store.held = lambda writes: place(writes[0])[0] == B
            await first.Desk.at("a").serve(1)
            await asyncio.sleep(1)
            assert first.data.partitions[A][HEAD].due_at is not None
        assert first.items(A, DEPARTURE_PREFIX)  # its process has stopped before it was delivered
        second = Shop(first.data)
        async with second.app.worker():
            await second.until(lambda: second.taken == [1])
            await second.until(lambda: not second.items(A, DEPARTURE_PREFIX))

    run_virtual(main)


def test_what_an_actor_has_sent_is_delivered_although_no_code_can_read_its_state():
    async def main() -> None:
        first = Shop()
        async with first.app.worker():
            first.store.held = lambda writes: place(writes[0])[0] == B
            await first.Desk.at("a").serve(1)
        second = Shop(first.data)
        second.Desk.kind.schema = 7
        second.Desk.kind.load = lambda *_given: (_ for _ in ()).throw(ValueError("no such schema"))
        async with second.app.worker():
            await second.until(lambda: second.taken == [1])
            await second.until(lambda: second.data.partitions[A][HEAD].status == "BLOCKED")
            assert not second.items(A, DEPARTURE_PREFIX)

    run_virtual(main)


def test_an_actor_that_ends_is_not_released_before_what_it_has_sent_is_delivered():
    async def main() -> None:
        shop = Shop()
        async with shop.app.worker():
            shop.store.held = lambda writes: place(writes[0])[0] == B
            await shop.Desk.at("a").serve(1)
            await shop.app.actor("Desk", "a").delete()
            await asyncio.sleep(5)
            assert shop.data.partitions[A][HEAD].due_at is not None
            shop.store.free.set()
            await shop.until(lambda: shop.taken == [1])
            await shop.until(lambda: shop.data.partitions[A][HEAD].status == "DELETED")
            assert not shop.items(A, DEPARTURE_PREFIX)

    run_virtual(main)


def test_receivers_that_were_deleted_or_have_halted_take_messages_as_ever():
    async def main() -> None:
        shop = Shop(poison="halt", retry=Retry(max_attempts=1, initial="1s", jitter=Jitter.NONE))
        async with shop.app.worker():
            await shop.Desk.at("a").serve(1)
            await shop.until(lambda: shop.taken == [1])
            await shop.app.actor("Till", "b").delete()
            await shop.until(lambda: shop.data.partitions[B][HEAD].status == "DELETED")
            await shop.Desk.at("a").serve(2)
            await shop.until(lambda: shop.taken == [2])
            await shop.Desk.at("a").serve(-1)
            await shop.until(lambda: shop.data.partitions[B][HEAD].status == "HALTED")
            await shop.Desk.at("a").serve(3)
            await shop.until(lambda: len(shop.items(B, "i#")) == 2)
            await shop.app.actor("Till", "b").park()
            await shop.until(lambda: shop.taken == [3])

    run_virtual(main)


def test_an_actor_that_halts_waits_for_its_deliveries_while_callers_wait_for_it():
    async def main() -> None:
        shop = Shop()

        class Clerk(hf.Actor, app=shop.app, poison="halt", retry=Retry(max_attempts=1, initial="1s")):
            async def pass_on(self) -> None:
                await hf.send(shop.Till.at("b").pay, 1)

            async def fail(self) -> None:
                raise ValueError("no")

        async with shop.app.worker():
            shop.store.held = lambda writes: place(writes[0])[0] == B
            await Clerk.at("c").pass_on()
            await hf.send(Clerk.at("c").fail)
            asking = asyncio.create_task(Clerk.at("c").pass_on())
            await asyncio.sleep(60)
            shop.store.free.set()
            await shop.until(lambda: shop.taken == [1])
            with pytest.raises(hf.InvalidState):
                await asking

    run_virtual(main)


def sent(shop: Shop) -> list[Put]:
    """What was delivered to the till."""
    puts = [write for each in shop.store.to(B) for write in each if isinstance(write, Put)]
    return [each for each in puts if each.item.sort.startswith("i#") and not each.item.sort.endswith(TAKEN)]


async def deliver_again(shop: Shop, puts: list[Put]) -> None:
    """Deliver it as a process does that was stopped."""
    for put in puts:
        await deliver(B, [put], some_head(B), shop.app.runtime())


@pytest.mark.parametrize("cents", [5, -5])
def test_a_delivery_that_comes_an_hour_late_is_only_acknowledged(cents):
    """Also of a message that was parked, put back, and applied then."""

    async def main() -> None:
        shop = Shop(retry=Retry(max_attempts=1, initial="1s", jitter=Jitter.NONE))
        async with shop.app.worker():
            await shop.Desk.at("a").serve(cents)
            till = shop.app.actor("Till", "b")
            if cents < 0:
                await shop.until(lambda: shop.items(B, "p#"))
                (parked,) = await till.parked()
                await till.unpark(parked.place, args={"cents": 5})
            await shop.until(lambda: shop.taken == [5])
            await asyncio.sleep(3600)
            late = sent(shop)[:1]
            await deliver_again(shop, late)
            await shop.until(lambda: shop.app.telemetry.counts["delivery_repeated"] == len(late))
            await shop.until(lambda: not shop.items(B, "i#"))
            assert shop.taken == [5]

    run_virtual(main)


def test_a_delayed_message_is_applied_although_later_ones_were_and_never_twice():
    async def main() -> None:
        shop = Shop()
        async with shop.app.worker():
            await shop.Desk.at("a").serve(1, delay="1h")
            shop.taken.clear()
            await shop.Desk.at("a").serve(2)
            await shop.until(lambda: shop.taken == [2])
            await asyncio.sleep(3700)
            assert shop.taken == [2, 1]
            await deliver_again(shop, sent(shop)[:1])
            await shop.until(lambda: shop.app.telemetry.counts["delivery_repeated"] == 1)
            await asyncio.sleep(3700)
            assert shop.taken == [2, 1]

    run_virtual(main)


def test_a_delayed_message_can_be_taken_back_once_its_receiver_has_noted_it():
    async def main() -> None:
        shop = Shop()
        async with shop.app.worker():
            shop.store.held = lambda writes: place(writes[0])[0] == B and isinstance(writes[0], Put)
            await shop.Desk.at("a").serve(1, delay="1h")
            (message,) = shop.taken
            assert not await message.cancel()  # it is still to leave
            shop.store.free.set()
            await shop.until(lambda: shop.items(B, "i#"))
            await asyncio.sleep(1)
            assert await message.cancel()
            await deliver_again(shop, sent(shop))
            await asyncio.sleep(7200)
            assert await shop.Till.at("b").total() == 0  # it may have run, and was rolled back
            assert not shop.items(B, "i#")

    run_virtual(main)


def test_the_end_of_a_receiver_drops_what_waits_for_its_time_and_a_late_delivery_does_not_bring_it_back():
    async def main() -> None:
        shop = Shop(retry=Retry(max_attempts=9, initial="1h", jitter=Jitter.NONE))
        async with shop.app.worker():
            await shop.Desk.at("a").serve(1, delay="1h")
            await shop.Desk.at("a").serve(-1)
            await asyncio.sleep(10)
            late = sent(shop)
            assert len(late) == 2
            await shop.app.actor("Till", "b").delete()
            await deliver_again(shop, late)
            await shop.Desk.at("a").serve(2)
            await shop.until(lambda: shop.taken == [2])
            await asyncio.sleep(36_000)
            assert shop.taken == [2]
            assert not shop.items(B, "i#")

    run_virtual(main)


def test_more_than_one_write_of_the_store_takes_is_delivered_and_deleted_in_parts():
    bounds = Bounds(writes=8, body_bytes=100_000)

    async def main() -> None:
        shop = Shop(bounds=bounds)
        async with shop.app.worker():
            shop.store.held = lambda writes: place(writes[0])[0] == B
            for first in range(0, 12, 3):
                await shop.Desk.at("a").serve(first, first + 1, first + 2)
            assert len(shop.items(A, DEPARTURE_PREFIX)) == 12
            shop.store.free.set()
            await shop.until(lambda: shop.taken == [*range(12)])
            await shop.until(lambda: not shop.items(A, DEPARTURE_PREFIX))
        assert max(map(len, shop.store.writes)) <= bounds.writes

    run_virtual(main)


def test_an_optimistic_actor_leaves_what_it_sends_to_a_turn():
    async def main() -> None:
        shop = Shop()

        class Counter(hf.Actor, app=shop.app, optimistic=True):
            count: int = 0

            async def add(self) -> int:
                self.count += 1
                await hf.send(shop.Till.at("b").pay, self.count)
                return self.count

        async with shop.app.worker():
            assert [await Counter.at("c").add() for _ in range(3)] == [1, 2, 3]
            await shop.until(lambda: shop.taken == [1, 2, 3])
            await shop.until(lambda: not shop.items(f"{PARTITION_PREFIX}Counter#c", DEPARTURE_PREFIX))

    run_virtual(main)


def test_a_home_whose_writes_are_free_keeps_its_transaction():
    async def main() -> None:
        shop = Shop()
        open_paid = shop._open

        async def open_free() -> Home:
            return replace(await open_paid(), writes_are_paid=False)

        shop.app = app = hf.App("free", home=open_free, clock=VirtualClock())

        class Box(hf.Actor, app=app):
            async def take(self) -> None: ...

        class Hand(hf.Actor, app=app):
            given: int = 0

            async def give(self) -> None:
                self.given += 1
                await hf.send(Box.at("b").take)

        async with app.worker():
            await Hand.at("h").give()
        assert not any(place(write)[1].startswith(DEPARTURE_PREFIX) for each in shop.store.writes for write in each)
        assert any(len({place(write)[0] for write in each}) == 2 for each in shop.store.writes)

    run_virtual(main)


@pytest.mark.parametrize("keys", [1, 1_000])
def test_one_call_sends_a_message_with_each_write_that_its_commit_has_left(keys: int) -> None:
    async def main() -> None:
        shop = Shop(bounds=BOUNDS)
        async with shop.app.worker():
            with pytest.raises(
                hf.InvalidInput, match="sends 96 writes, and this home commits at most 95 of them, and 3,145,728"
            ):
                await shop.Desk.at("a").pay_many(96, keys)
            assert shop.taken == []
            await shop.Desk.at("a").pay_many(95, keys)
            await shop.until(lambda: sorted(shop.taken) == list(range(95)))

    run_virtual(main)
