"""Idempotency by hand, and ours, under the same schedules."""

from __future__ import annotations

import asyncio

from tests.compared import naive
from tests.compared.stage import begin, outcome, told

DAY_SECONDS = 86_400


async def pay(stage):
    """A payment: it happens at once, and takes a second to answer its number."""
    number = len(stage.seen) + 1
    stage.seen.append(number)
    await asyncio.sleep(1)
    return f"payment {number}"


def by_hand(once):
    def build(app, stage):
        return lambda: once(stage.store, "order-17", lambda: pay(stage))

    return build


def ours(app, stage):
    @app.idempotent(key="order", lease="60s", window="24h", max_crashes=1_000)
    async def charge(order: str) -> str:
        return await pay(stage)

    return lambda: charge("order-17")


def test_whoever_is_refused_leaves_the_record_alone(compare):
    async def schedule(stage):
        one, two, three = [await stage.boot() for _ in range(3)]
        first = begin(one)
        await asyncio.sleep(0.1)
        second = await told(two)
        third = await told(three)
        return await outcome(first), second, third, len(stage.seen)

    by_naive, by_ours = compare(schedule, by_hand(naive.once_cleaning_up), ours)
    assert by_naive == ("payment 1", "Refused", "payment 2", 2)
    assert by_ours == ("payment 1", "Busy", "Busy", 1)


def test_an_outcome_that_could_not_be_recorded_at_once_is_no_reason_to_pay_again(compare):
    async def schedule(stage):
        process = await stage.boot()
        first = begin(process)
        await asyncio.sleep(0.5)
        stage.fail_writes(1)
        return await outcome(first), await told(process), len(stage.seen)

    by_naive, by_ours = compare(schedule, by_hand(naive.once_cleaning_up), ours)
    assert by_naive == ("ConnectionError", "payment 2", 2)
    assert by_ours == ("payment 1", "payment 1", 1)


def test_an_outcome_that_cannot_be_recorded_is_told_and_holds_the_key(compare):
    async def schedule(stage):
        process, other = await stage.boot(), await stage.boot()
        first = begin(process)
        await asyncio.sleep(0.5)
        stage.lines[0].failing = stage.store.failing = 1_000  # longer than anybody tries
        came = await outcome(first)
        stage.fail_writes(0)
        return came, await told(other), len(stage.seen)

    by_naive, by_ours = compare(schedule, by_hand(naive.once_cleaning_up), ours)
    assert by_naive == ("ConnectionError", "Refused", 1)  # nothing could be deleted either, for once
    assert by_ours == ("ResultNotStored", "Busy", 1)


def test_a_death_blocks_nobody_for_a_day(compare):
    async def schedule(stage):
        one, two = await stage.boot(), await stage.boot()
        first = begin(one)
        await asyncio.sleep(0.5)
        one.crash()
        await asyncio.sleep(DAY_SECONDS - 10)
        return await outcome(first), await told(two)

    by_naive, by_ours = compare(schedule, by_hand(naive.once), ours)
    assert by_naive == ("ProcessDied", "InProgress")
    assert by_ours == ("ProcessDied", "payment 2")


def test_who_was_overtaken_does_not_overwrite_the_outcome(compare):
    async def schedule(stage):
        one, two, three = [await stage.boot() for _ in range(3)]
        first = begin(one)
        await asyncio.sleep(0.5)
        one.pause()
        await asyncio.sleep(70)
        second = await told(two)
        one.resume()
        late = await outcome(first)
        assert getattr(first.exception(), "value", "payment 1") == "payment 1"
        return late, second, await told(three)

    by_naive, by_ours = compare(schedule, by_hand(naive.once_with_expiry), ours)
    assert by_naive == ("payment 1", "payment 2", "payment 1")
    assert by_ours == ("LeaseLost", "payment 2", "payment 2")


def test_an_outcome_counts_for_longer_than_the_lock(compare):
    async def schedule(stage):
        process = await stage.boot()
        first = await told(process)
        await asyncio.sleep(61)
        return first, await told(process), len(stage.seen)

    by_naive, by_ours = compare(schedule, by_hand(naive.once_with_expiry), ours)
    assert by_naive == ("payment 1", "payment 2", 2)
    assert by_ours == ("payment 1", "payment 1", 1)
