"""A saga by hand, and ours: the last step fails, and perhaps the process dies while the others are undone."""

from __future__ import annotations

import asyncio

from tests.compared import naive
from tests.compared.stage import begin, outcome, told

import holdfast as hf

ONCE = hf.Retry(max_attempts=1)


class Declined(Exception):
    """The bank says no."""


async def arrange(what):
    await asyncio.sleep(1)
    if what == "payment":
        raise Declined


def undoing(stage):
    async def undo(what):
        await asyncio.sleep(1)
        stage.seen.append(f"no {what}")

    return undo


def by_hand(trip):
    def build(app, stage):
        return lambda: trip(arrange, undoing(stage))

    return build


def ours(app, stage):
    @app.step(retry=ONCE)
    async def book(what: str) -> str:
        await arrange(what)
        return what

    @book.undo
    async def cancel(what: str) -> None:
        await undoing(stage)(what)

    @app.workflow
    async def trip() -> None:
        async with hf.saga():
            for what in ("hotel", "flight", "payment"):
                await book(what)

    async def take() -> None:
        await (await trip.start(id="trip-1"))

    return take


def test_each_thing_is_undone_once(compare):
    async def schedule(stage):
        process = await stage.boot(worker=True)
        await told(process)
        return stage.seen

    by_naive, by_ours = compare(schedule, by_hand(naive.trip), ours)
    assert by_naive == ["no flight", "no hotel", "no hotel"]  # the hotel is paid back twice
    assert by_ours == ["no flight", "no hotel"]


def test_a_death_between_two_undos_leaves_nothing_done(compare):
    async def schedule(stage):
        one = await stage.boot(worker=True)
        first = begin(one)
        await asyncio.sleep(4.5)  # the flight is undone, the hotel is being undone
        one.crash()
        await outcome(first)
        await stage.boot(worker=True)
        await asyncio.sleep(120)
        return stage.seen

    by_naive, by_ours = compare(schedule, by_hand(naive.trip_with_list), ours)
    assert by_naive == ["no flight"]
    assert by_ours == ["no flight", "no hotel"]
