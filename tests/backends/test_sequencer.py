"""Writes that are decided at their turn, on each home that has one writer."""

from __future__ import annotations

import asyncio

import pytest
from tests.worlds import hangs_after_seconds, watchdog, world

from holdfast.errors import Refused
from holdfast.items import ABSENT, Item, Put

__all__ = ["hangs_after_seconds", "watchdog", "world"]

pytestmark = pytest.mark.not_on_dynamodb("it has many writers")


def counted(there):
    return [Put(Item("p", "@", revision=1 if there is None else there.revision + 1))]


async def test_of_many_at_once_each_sees_what_the_one_before_has_written(world):
    async with world.app() as one, world.app() as other:
        homes = [app.runtime().home for app in (one, other)]
        await asyncio.gather(*(homes[n % 2].sequencer.write_after("p", "@", counted) for n in range(20)))
        assert (await homes[0].store.get("p")).revision == 20


async def test_what_is_refused_or_raises_changes_nothing_and_hurts_no_other(world):
    async with world.app() as app:
        home = app.runtime().home
        await home.sequencer.write_after("p", "@", counted)

        def refused(_there):
            return [Put(Item("q", "@")), Put(Item("p", "@"), ABSENT)]

        def broken(_there):
            raise ZeroDivisionError

        ended = await asyncio.gather(
            home.sequencer.write_after("p", "@", counted),
            home.sequencer.write_after("p", "@", refused),
            home.sequencer.write_after("p", "@", broken),
            home.sequencer.write_after("p", "@", counted),
            return_exceptions=True,
        )
        assert isinstance(ended[1], Refused)
        assert (ended[1].index, ended[1].item.revision) == (1, 2)
        assert isinstance(ended[2], ZeroDivisionError)
        assert (await home.store.get("p")).revision == 3
        assert await home.store.get("q") is None


@pytest.mark.parametrize("sort", ["@", "e#1"])
async def test_any_item_may_be_looked_at(world, sort):
    async with world.app() as app:
        home, seen = app.runtime().home, []

        def look(there):
            seen.append(there)
            return [Put(Item("p", sort, revision=7))]

        for _ in range(2):
            await home.sequencer.write_after("p", sort, look)
        assert [None if each is None else each.revision for each in seen] == [None, 7]
