"""A consumer with an inbox by hand, and ours: it dies half-way, or is overtaken and fails late."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

from tests.compared import naive
from tests.compared.bookkeeping import Placed, dies_at_every_write
from tests.compared.stage import begin, do, outcome, play, told

# ── Dying between the effect and the mark ───────────────────────────────────────────────────────────────────────────


def by_hand(app, stage):
    async def effect():
        await stage.store.update("books", lambda row: [*(row or []), "17"])

    return lambda: naive.consume(stage.store, "order-17", effect)


async def it_dies_after_the_effect(stage):
    one, two = await stage.boot(), await stage.boot()
    first = begin(one)
    await asyncio.sleep(0.012)  # a claim, an effect and a mark take five milliseconds each
    one.crash()
    await outcome(first)
    await asyncio.sleep(40)
    await told(two)
    return stage.store.rows["books"]


def test_by_hand_the_effect_is_had_twice():
    assert play(it_dies_after_the_effect, by_hand) == ["17", "17"]


def test_ours_has_it_once_wherever_the_consumer_dies(play_ours):
    found = dies_at_every_write(play_ours)
    assert found == [["17"]] * len(found)


# ── Failing late ────────────────────────────────────────────────────────────────────────────────────────────────────


async def effect(stage):
    """The first attempt is stopped in the middle, and finds its connection dead when it wakes up."""
    first = "begun" not in stage.seen
    stage.seen.append("begun")
    await asyncio.sleep(1)
    if first:
        raise ConnectionResetError
    stage.seen.append("booked")


def consuming(app, stage):
    async def deliver():
        await naive.consume(stage.store, "order-17", lambda: effect(stage))

    return SimpleNamespace(deliver=deliver)


def ours(app, stage):
    @app.consumer(Placed)
    async def book(event: Placed) -> None:
        await effect(stage)

    async def deliver():
        await app.publish(Placed("17"), id="order-17")

    return SimpleNamespace(deliver=deliver)


def test_who_was_overtaken_and_fails_does_not_release_what_is_handled(compare):
    async def schedule(stage):
        one = await stage.boot(worker=True)
        first = do(one, "deliver")
        await asyncio.sleep(0.5)
        one.pause()
        await asyncio.sleep(120)
        two = await stage.boot(worker=True)
        await do(two, "deliver")
        await asyncio.sleep(120)
        one.resume()
        await asyncio.sleep(10)
        await outcome(first)
        await do(two, "deliver")
        await asyncio.sleep(120)
        return stage.seen.count("booked")

    by_naive, by_ours = compare(schedule, consuming, ours)
    assert by_naive == 2
    assert by_ours == 1
