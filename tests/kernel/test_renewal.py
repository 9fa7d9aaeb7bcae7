"""What a renewal of a lease takes along: it never overwrites anything newer, and is no extra write."""

from __future__ import annotations

import asyncio

import pytest
from msgspec import UNSET
from tests.workflows.waiting_shop import Shop, is_renewal

import holdfast as hf
from holdfast.backends.memory import MemoryData
from holdfast.errors import Refused, StoreUnavailable
from holdfast.items import UNOWNED, Update
from holdfast.testing import VirtualClock, run_virtual
from holdfast.workflows.record import decode_record
from holdfast.workflows.waits import SIGNAL, STEP

HOUR_SECONDS = 3_600.0


def with_code(shop: Shop, *, hangs: bool = True):
    """A workflow whose step takes an hour here, or ends at once; and which waits for a signal then."""

    @shop.app.step
    async def ship(order: str) -> str:
        if hangs:
            await asyncio.sleep(HOUR_SECONDS / 2)
            hf.current().heartbeat(order)
            await asyncio.sleep(HOUR_SECONDS / 2)
        return order

    @shop.app.workflow
    async def checkout() -> str:
        await ship("order-17")
        return await hf.signal("approval", str)

    return checkout


def bodies(shop: Shop) -> list[bytes]:
    return [each.body for each in shop.renewals if each.body is not UNSET]


def test_of_many_that_are_resident_only_those_that_are_awake_are_looked_at():
    shop = Shop()
    checkout = with_code(shop, hangs=False)

    async def main() -> tuple[list[str], list[str]]:
        async with shop.app.worker():
            for number in range(3):
                await checkout.start(id=f"o{number}")
            host = shop.app.runtime().host
            assert host is not None
            begun = list(host.awake)
            await asyncio.sleep(5)
            assert (len(host.entities), list(host.awake)) == (3, [])
            handle = checkout.handle("o1")
            await handle.signal("approval", "yes")
            woken = list(host.awake)
            assert await handle.result() == "yes"
            assert not host.awake
            return begun, woken

    begun, woken = run_virtual(main)
    assert begun == [f"wf#checkout#o{number}" for number in range(3)]
    assert woken == ["wf#checkout#o1"]


def test_an_entity_that_is_dropped_again_leaves_the_one_in_its_place_awake():
    shop = Shop()
    checkout = with_code(shop)

    async def main() -> None:
        async with shop.app.worker():
            await checkout.start(id="1")
            await asyncio.sleep(1)
            host = shop.app.runtime().host
            assert host is not None
            place, first = next(iter(host.awake.items()))
            host.forget(first)
            assert not host.awake
            host.check(place)
            second = host.awake[place]
            assert second is not first
            host.forget(first)
            assert host.awake == host.entities == {place: second}

    run_virtual(main)


def test_the_second_renewal_tells_and_later_ones_only_what_is_new():
    shop = Shop()
    checkout = with_code(shop)

    async def main():
        async with shop.app.worker():
            await checkout.start(id="1")
            await asyncio.sleep(8)
            assert (len(shop.renewals), len(bodies(shop))) == (1, 0)
            await asyncio.sleep(HOUR_SECONDS / 4)
            assert len(bodies(shop)) == 1
            waits = await shop.waits(checkout)
            (wait,) = waits.waits
            assert (wait.kind, wait.op, wait.attempt, wait.arguments) == (STEP, "ship#0", 1, '["order-17"]')
            assert wait.beat == 0 < wait.began
            assert waits.epoch == (await shop.head(checkout)).epoch
            await asyncio.sleep(HOUR_SECONDS / 2)
            assert len(bodies(shop)) == 2, "the heartbeat is news"
            (wait,) = (await shop.waits(checkout)).waits
            assert wait.beat - wait.began == pytest.approx(HOUR_SECONDS / 2 * 1_000, abs=1_000)
            renewals = len(shop.renewals)
            others = [each for each in shop.store.writes if not is_renewal(each)]
            await asyncio.sleep(60)
            assert len(shop.renewals) - renewals == 12
            assert [each for each in shop.store.writes if not is_renewal(each)] == others, "no write more than before"

    run_virtual(main)


def test_an_answer_that_is_lost_is_told_again_and_the_release_stands():
    shop = Shop()
    checkout = with_code(shop)
    lost = 0

    async def lose(update):
        nonlocal lost
        if is_renewal(update) and update.body is not UNSET and lost < 3:
            lost += 1
            raise StoreUnavailable("its answer is lost")

    async def main():
        async with shop.app.worker():
            shop.store.after = lose
            await checkout.start(id="1")
            await asyncio.sleep(60)
            assert (lost, len(bodies(shop))) == (3, 4)
            await asyncio.sleep(HOUR_SECONDS)
            (wait,) = (await shop.waits(checkout)).waits
            assert (wait.kind, wait.op) == (SIGNAL, "approval")

    run_virtual(main)


@pytest.mark.parametrize("late", [False, True], ids=["before the release", "after it"])
def test_a_renewal_on_its_way_does_not_change_what_a_release_says(late):
    """The release says what the store had before the renewal: it would be left out if that counted as stored."""
    shop = Shop()
    go, sent = asyncio.Event(), asyncio.Event()

    @shop.app.step
    async def quick() -> None:
        await go.wait()

    @shop.app.workflow
    async def checkout() -> None:
        await asyncio.gather(hf.signal("approval"), quick())

    async def hold(update):
        if update.body is not UNSET and is_renewal(update):
            sent.set()
            if late:
                await asyncio.sleep(4)

    async def hold_answer(update):
        if update.body is not UNSET and is_renewal(update) and not late:
            await asyncio.sleep(4)

    async def main():
        async with shop.app.worker():
            shop.store.before, shop.store.after = hold, hold_answer
            await checkout.start(id="1")
            await sent.wait()
            go.set()
            await asyncio.sleep(60)
            head = await shop.head(checkout)
            assert (head.owner, head.status) == (None, "SUSPENDED")
            assert [each.kind for each in decode_record(head.body).waits.waits] == [SIGNAL]
            await checkout.handle("1").signal("approval")
            await checkout.handle("1")

    run_virtual(main)


def test_what_a_dead_process_told_stays_until_the_next_owner_knows_better():
    data = MemoryData()
    first, second = Shop(data, "one"), Shop(data, "two")
    checkout, again = with_code(first), with_code(second, hangs=False)

    async def main():
        worker = first.app.worker()
        await worker.__aenter__()
        await checkout.start(id="1")
        await first.told(checkout)
        told = await first.waits(checkout)
        first.app.runtime().host.abandon()
        head = await first.head(checkout)
        assert (head.owner, decode_record(head.body).waits) == ("one", told)
        await worker.__aexit__(None, None, None)
        async with second.app.worker():
            while (await second.head(again)).owner is not None or await second.waits(again) == told:
                await asyncio.sleep(0.1)
            (wait,) = (await second.waits(again)).waits
            assert (wait.kind, wait.op) == (SIGNAL, "approval")

    run_virtual(main)


def test_a_zombie_overwrites_nothing():
    """Its renewal arrives an hour late, when another process has taken the execution over and left it."""
    data = MemoryData()
    first, second = Shop(data, "one"), Shop(data, "two")
    checkout, again = with_code(first), with_code(second, hangs=False)
    refused: list[str] = []

    async def stall(update):
        if is_renewal(update) and update.body is not UNSET:
            await asyncio.sleep(HOUR_SECONDS / 4)

    async def main():
        async with first.app.worker():
            first.store.before = stall
            await checkout.start(id="1")
            await asyncio.sleep(12)
            (stale,) = bodies(first)
            async with second.app.worker():
                while await second.waits(again) is None:
                    await asyncio.sleep(1)
                left = await second.head(again)
                zombie = next(each for each in first.renewals if each.body == stale)
                try:
                    await first.store._store.write(zombie)
                except Refused:
                    refused.append("the renewal")
                assert await second.head(again) == left
                await asyncio.sleep(HOUR_SECONDS / 2)
                assert (await second.head(again)).body == left.body
        assert refused == ["the renewal"]

    run_virtual(main)


def test_a_signal_and_a_pause_meanwhile_are_kept():
    shop = Shop()
    checkout = with_code(shop)

    async def main():
        async with shop.app.worker():
            handle = await checkout.start(id="1")
            await shop.told(checkout)
            await handle.signal("approval", "yes")
            await handle.pause()
            told = len(bodies(shop))
            while len(bodies(shop)) == told:
                await asyncio.sleep(1)
            assert (await shop.head(checkout)).status == "PAUSED"
            assert (await shop.waits(checkout)).untaken == ("approval",)
            await handle.resume()
            assert await handle == "yes"

    run_virtual(main)


def test_a_body_that_the_store_keeps_aside_does_not_ride_along():
    shop = Shop(inline_bytes=512 + 100)
    checkout = with_code(shop)

    @shop.app.workflow
    async def asks() -> None:
        await hf.signal("go")

    async def main():
        async with shop.app.worker():
            await checkout.start(id="1")
            await asyncio.sleep(60)
            assert (len(bodies(shop)), await shop.waits(checkout)) == (0, None)
            await asyncio.sleep(HOUR_SECONDS)
            assert await shop.waits(checkout) is None, "nothing else is new in it"
            await shop.rest(asks)
            assert [each.kind for each in (await shop.waits(asks)).waits] == [SIGNAL], "it is written in any case"

    run_virtual(main)


# ── What a renewal depends on ───────────────────────────────────────────────────────────────────────────────────────


def beating(shop: Shop, stopped: list[str]):
    """A workflow whose step tells something new every second, and which waits for a signal beside it."""

    @shop.app.step
    async def ship(order: str) -> str:
        try:
            for second in range(3_600):
                hf.current().heartbeat(second)
                await asyncio.sleep(1)
        except asyncio.CancelledError:
            stopped.append(order)
            raise
        return order

    @shop.app.workflow
    async def checkout() -> list[str]:
        return await asyncio.gather(ship("order-17"), taken())

    heard: list[str] = []

    async def taken() -> str:
        heard.append(await hf.signal("approval", str))
        return heard[-1]

    return checkout, heard


def test_another_owner_is_never_renewed_or_overwritten_however_short_its_lease_and_the_work_stops():
    """A claim by a process with a slow clock: its lease ends before the one that a renewal asks for."""
    shop, stopped = Shop(), []
    checkout, _ = beating(shop, stopped)

    async def main():
        async with shop.app.worker():
            await checkout.start(id="1")
            await shop.told(checkout)
            now = shop.app.runtime().clock.now_ms()
            place = (await shop.head(checkout)).partition
            await shop.store._store.write(Update(partition=place, owner="two", lease_until=now + 12_000, add_epoch=1))
            claimed, told = await shop.head(checkout), len(bodies(shop))
            await asyncio.sleep(8)
            assert len(bodies(shop)) > told, "a renewal with a body has come"
            assert await shop.head(checkout) == claimed
            assert stopped == ["order-17"]

    run_virtual(main)


def test_a_renewal_that_is_refused_because_the_lease_lasts_longer_loses_nothing():
    shop, stopped = Shop(), []
    checkout, _ = beating(shop, stopped)
    overtaken = []

    async def overtake(update):
        if is_renewal(update) and update.body is not UNSET:
            overtaken.append(update)
            await shop.store._store.write(Update(partition=update.partition, lease_until=update.lease_until))

    async def main():
        async with shop.app.worker():
            await checkout.start(id="1")
            await shop.told(checkout)
            epoch, shop.store.before = (await shop.head(checkout)).epoch, overtake
            await asyncio.sleep(60)
            assert len(overtaken) > 1
            assert ((await shop.head(checkout)).epoch, stopped) == (epoch, [])

    run_virtual(main)


def test_a_renewal_finds_a_signal_whose_wake_up_was_lost():
    data = MemoryData()
    shop, other = Shop(data, "one"), Shop(data, "two")
    checkout, heard = beating(shop, [])
    sending, _ = beating(other, [])

    async def main():
        async with shop.app.worker(), other.app:
            await checkout.start(id="1")
            await shop.told(checkout)
            other.app.runtime().home.doorbell.ring = lambda _partition: None
            await sending.handle("1").signal("approval", "yes")
            await asyncio.sleep(1)
            lost = not heard
            await asyncio.sleep(9)
            assert (lost, heard) == (True, ["yes"]), "not only when the step ends"

    run_virtual(main)


def test_what_is_short_is_not_told_under_a_later_lease_either():
    shop = Shop()

    @shop.app.step
    async def work(seconds: float) -> None:
        await asyncio.sleep(seconds)

    @shop.app.workflow
    async def twice() -> None:
        await work(30.0)
        await hf.signal("go")
        await work(6.0)

    async def main():
        async with shop.app.worker():
            handle = await twice.start(id="1")
            while (await shop.head(twice)).status != "SUSPENDED":
                await asyncio.sleep(0.1)
            told, renewals = len(bodies(shop)), len(shop.renewals)
            assert told == 1
            await handle.signal("go")
            await handle
            assert len(shop.renewals) == renewals + 1
            assert len(bodies(shop)) == told

    run_virtual(main)


def test_nothing_is_told_of_what_only_lingers():
    """Its release tells it soon."""
    shop = Shop()
    shop.app = hf.App("shop", home=shop._open, clock=VirtualClock(), limits=hf.Limits(linger_seconds=40))

    @shop.app.workflow
    async def asks() -> None:
        await hf.signal("go")

    async def main():
        async with shop.app.worker():
            await shop.rest(asks)
            assert len(shop.renewals) > 5
            assert bodies(shop) == []
            assert [each.kind for each in (await shop.waits(asks)).waits] == [SIGNAL]

    run_virtual(main)


def test_a_reader_believes_what_an_earlier_owner_has_told_no_longer_than_that_one_holds_it():
    data = MemoryData()
    first, second = Shop(data, "one"), Shop(data, "two")
    checkout, again = with_code(first), with_code(second)

    async def main():
        worker = first.app.worker()
        await worker.__aenter__()
        await checkout.start(id="1")
        await first.told(checkout)
        first.app.runtime().host.abandon()
        await worker.__aexit__(None, None, None)
        async with second.app.worker():
            while (await second.head(again)).owner != "two":
                await asyncio.sleep(0.1)
            assert await second.waits(again) is not None
            assert (await again.handle("1").status()).waits == ()
            await asyncio.sleep(30)
            assert [each.kind for each in (await again.handle("1").status()).waits] == [STEP]

    run_virtual(main)


class Outage:
    """The store takes no writes of the processes in ``names``. A full disk still refuses what is to be refused."""

    def __init__(self, *, is_full_disk):
        self.names = set()
        self._is_full_disk = is_full_disk

    def strike(self, shop):
        write = shop.store.write

        async def write_or_fail(*writes):
            claims = isinstance(writes[0], Update) and getattr(writes[0].when, "conditions", ())[:1] == (UNOWNED,)
            if shop.app.runtime().home.owner in self.names and not (claims and self._is_full_disk):
                raise StoreUnavailable("it takes no writes")
            return await write(*writes)

        shop.store.write = write_or_fail


@pytest.mark.parametrize("is_full_disk", [False, True])
@pytest.mark.parametrize("hangs", [False, True])
def test_after_an_outage_that_outlasts_its_lease_an_owner_has_time_to_write_before_it_is_taken_over_from(
    is_full_disk, hangs
):
    """A step that ended in the outage does not run again, however soon another worker looks when the store is back. An
    owner that hangs is taken over from a lease later.
    """
    data, ran, outage = MemoryData(), [], Outage(is_full_disk=is_full_disk)

    def process(name):
        shop = Shop(data, name)

        @shop.app.step
        async def ship() -> str:
            ran.append(name)
            await asyncio.sleep(30)
            return name

        @shop.app.workflow
        async def checkout() -> str:
            return await ship()

        return shop, checkout

    async def main():
        (one, checkout), (two, again) = process("one"), process("two")
        async with one.app.worker():
            outage.strike(one)
            await checkout.start(id="1")
            async with two.app.worker():
                outage.strike(two)
                await asyncio.sleep(10)
                outage.names |= {"one", "two"}
                await asyncio.sleep(60)
                outage.names.remove("two")
                await asyncio.sleep(6)  # the other worker sweeps before the owner has tried again
                if not hangs:
                    outage.names.remove("one")
                assert await again.handle("1") == ("two" if hangs else "one")
                outage.names.clear()
        assert ran == (["one", "two"] if hangs else ["one"])
        assert two.app.telemetry.counts["claimed"] == hangs

    run_virtual(main)
