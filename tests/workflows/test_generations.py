"""Where an expired head goes before its journal, what begins again under its id takes nothing of it for its own."""

from __future__ import annotations

import asyncio
from random import Random

import pytest
from msgspec.structs import replace
from tests.ttl import expire

import holdfast as hf
from holdfast.app import App
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.coordination.lease import Fenced
from holdfast.items import HEAD
from holdfast.ports import LATE_MS
from holdfast.replay.entries import Done
from holdfast.replay.journal import SEGMENT_PREFIX, Journal
from holdfast.testing import VirtualClock, run_virtual
from holdfast.testing.entropy import fresh_nonces
from holdfast.testing.patience import PATIENT
from holdfast.testing.world import swift
from holdfast.workflows.record import decode_record, partition_of

LATER_SECONDS = 3600 + LATE_MS / 1000 + 60
PLACE = partition_of("checkout", "o")


class Deaf:
    """A doorbell that hears nothing of other processes. Its process does not sweep either."""

    def __init__(self, doorbell):
        self._doorbell = doorbell

    def __getattr__(self, name):
        return getattr(self._doorbell, name)

    def listen(self, heard):
        pass


class Shop:
    """Processes with one home in memory whose expired heads go first."""

    def __init__(self):
        self.data = MemoryData()
        self.random = Random(3)
        self.ran = []

    def process(self, owner, *, is_deaf=False):
        async def open_home():
            home = open_memory_home(data=self.data, owner=owner)
            doorbell = Deaf(home.doorbell) if is_deaf else home.doorbell
            return replace(home, heads_go_first=True, purges=None, doorbell=doorbell)

        app = App(
            "shop",
            home=open_home,
            clock=VirtualClock(),
            limits=swift(replace(PATIENT, linger_seconds=0.2) if is_deaf else None),
        )

        @app.step
        async def pay(order: str, part: int) -> str:
            self.ran.append((owner, order, part))
            return f"{order}/{part}"

        @app.workflow(retention="1h")
        async def checkout(order: str) -> list[str]:
            paid = [await pay(order, part) for part in range(3)]
            word = await hf.signal("go", str)
            if word == "anew":
                hf.continue_as_new(f"{order}+")
            return [*paid, word, str(hf.current().run)]

        return app, checkout

    def sorts(self, prefix=""):
        return sorted(sort for sort in self.data.partitions.get(PLACE, {}) if sort.startswith(prefix))

    def head(self):
        return self.data.partitions[PLACE][HEAD]

    async def expire(self):
        """Let an hour pass, and more, and TTL delete the head; answers what it has left."""
        await asyncio.sleep(LATER_SECONDS)
        assert expire(self.data, VirtualClock().now_ms(), self.random) == 1
        assert HEAD not in self.sorts()
        return self.sorts()


async def finish(handle, *words):
    for word in words:
        await handle.signal("go", word)
        await asyncio.sleep(10)
    return await handle


def test_one_that_begins_again_beside_the_journal_of_the_first_runs_from_the_beginning():
    async def main():
        shop = Shop()
        app, checkout = shop.process("A")
        async with app.worker():
            assert await finish(await checkout.start("one", id="o"), "yes") == ["one/0", "one/1", "one/2", "yes", "0"]
            left = await shop.expire()
            assert any(sort.startswith(SEGMENT_PREFIX) for sort in left)
            again = await checkout.start("two", id="o")
            assert await finish(again, "no") == ["two/0", "two/1", "two/2", "no", "0"]
            assert [f"{entry.name} {entry.outcome}" for entry in await again.history()][:1] == ["pay#0 done"]
            assert set(left) < set(shop.sorts())
        assert [(order, part) for _, order, part in shop.ran] == [(o, n) for o in ("one", "two") for n in range(3)]

    run_virtual(main)


def test_runs_are_counted_from_0_and_a_new_one_clears_those_before_it():
    async def main():
        shop = Shop()
        app, checkout = shop.process("A")
        async with app.worker():
            handle = await checkout.start("one", id="o")
            assert await finish(handle, "anew", "yes") == ["one+/0", "one+/1", "one+/2", "yes", "1"]
            assert (await handle.status()).run == 1
            runs = {sort[len(SEGMENT_PREFIX) :].partition("#")[0] for sort in shop.sorts(SEGMENT_PREFIX)}
            assert runs == {str(decode_record(shop.head().body).run)}

    run_virtual(main)


def test_no_start_shares_the_runs_of_another_one():
    async def main():
        shop = Shop()
        app, checkout = shop.process("A")
        runs = []
        async with app.worker():
            for _ in range(5):
                await finish(await checkout.start("one", id="o"), "yes")
                runs.append(decode_record(shop.head().body).run)
                await shop.expire()
        assert len(set(runs)) == 5
        assert all(len(str(run)) == 16 and run < 2**53 for run in runs)

    run_virtual(main)


def test_a_fork_has_runs_of_its_own():
    async def main():
        shop = Shop()
        app, checkout = shop.process("A")
        async with app.worker():
            first = await checkout.start("one", id="first")
            await finish(first, "yes")
            fork = await first.fork("o")
            assert (await finish(fork, "no"))[3:] in (["yes", "0"], ["no", "0"])
            there = decode_record(shop.data.partitions[partition_of("checkout", "first")][HEAD].body).run
            assert decode_record(shop.head().body).run != there
            assert all(str(there) not in sort for sort in shop.sorts(SEGMENT_PREFIX))

    run_virtual(main)


def test_a_process_that_still_has_the_first_in_memory_does_not_take_the_second_for_it():
    """Its epoch fits: both were born with the lease of their first owner, and then released."""

    async def main():
        shop = Shop()
        (one, checkout_of_one), (two, checkout_of_two) = shop.process("A", is_deaf=True), shop.process("B")
        async with one.worker():
            await checkout_of_one.start("one", id="o")
            await asyncio.sleep(60)  # A has released it, and keeps it in memory
            assert shop.head().owner is None
            async with two.worker():
                assert await finish(checkout_of_two.handle("o"), "yes") == ["one/0", "one/1", "one/2", "yes", "0"]
                await shop.expire()
                with fresh_nonces():
                    await checkout_of_two.start("two", id="o")
                await asyncio.sleep(60)
            assert (shop.head().owner, shop.head().epoch) == (None, 1)
            assert await finish(checkout_of_one.handle("o"), "no") == ["two/0", "two/1", "two/2", "no", "0"]
        assert [order for _, order, _ in shop.ran] == ["one"] * 3 + ["two"] * 3

    run_virtual(main)


@pytest.mark.parametrize("journal_goes", [False, True])
def test_a_zombie_of_the_first_writes_nothing_that_the_second_reads(journal_goes):
    async def main():
        shop = Shop()
        app, checkout = shop.process("A")
        async with app.worker():
            await finish(await checkout.start("one", id="o"), "yes")
            store, old = app.runtime().home.store, decode_record(shop.head().body).run
            zombie = Journal(store, PLACE, old, "zombie", 1)
            for sort in await shop.expire():
                if journal_goes:
                    shop.data.remove(PLACE, sort)
            again = await checkout.start("two", id="o")
            await asyncio.sleep(10)
            for _ in range(5):  # it knows no place that is not taken, or finds all of them free
                zombie.record(Done("pay#3/pay#9", at=1, kind="step"))
                try:
                    await zombie.commit()
                except Fenced:
                    assert not journal_goes
                    zombie.buffer = ()
                    zombie.position += 1
            assert all(
                f"j#{old}#" in sort for sort in shop.sorts() if shop.data.partitions[PLACE][sort].owner == "zombie"
            )
            assert await finish(again, "no") == ["two/0", "two/1", "two/2", "no", "0"]

    run_virtual(main)


@pytest.mark.parametrize("seed", range(6))
def test_whatever_goes_first_and_whenever_it_begins_again_it_runs_once_from_the_beginning(seed):
    """TTL deletes the head, and the clean-up some of the rest, in any order and at any time of two hours."""

    async def main():
        shop, random = Shop(), Random(seed)
        app, checkout = shop.process("A")
        vanished = 0
        async with app.worker():
            for number in range(6):
                handle = await checkout.start(f"order-{number}", id="o")
                await asyncio.sleep(random.choice([0, 1, 10]))
                assert (await finish(handle, "yes"))[0] == f"order-{number}/0"
                await asyncio.sleep(3600 + random.uniform(60, 7_200))
                now, over = VirtualClock().now_ms(), shop.sorts()
                head_goes, rest = random.random() < 0.5, [sort for sort in over if sort != HEAD]
                if random.random() < 0.5 and head_goes:
                    vanished += expire(shop.data, now, random)
                for sort in random.sample(rest, random.randint(0, len(rest))):
                    shop.data.remove(PLACE, sort)
                if head_goes and HEAD in shop.sorts():
                    vanished += expire(shop.data, now, random)
        assert [order for _, order, _ in shop.ran] == [f"order-{number}" for number in range(6) for _ in range(3)]
        assert 0 <= vanished < 6

    run_virtual(main)
