"""Counts without noise: what events cost in commits (fsyncs) on SQLite."""

from __future__ import annotations

import asyncio

import pytest
from tests.messaging.places import Placed

import holdfast as hf
from holdfast.messaging.outbox import ENTRY_PREFIX

QUIET = {"sweep_seconds": 100_000.0, "lease_ms": 1_000_000_000, "slice_seconds": 100_000.0}
"""No heartbeat, no renewal, and no call that gives way to others because the machine is slow."""

WARM = hf.Limits(linger_seconds=100.0, near_seconds=100.0, **QUIET)
"""No lease is let go of during the test."""

COLD = hf.Limits(linger_seconds=0.0, near_seconds=0.0, **QUIET)
"""Every lease let go of as soon as there is nothing to do."""


def declare(app):
    class Shop(hf.Actor, app=app):
        orders: int = 0

        async def order(self, *, events: int) -> int:
            self.orders += 1
            for n in range(events):
                await app.publish(Placed(f"{self.orders} {n}"))
            return self.orders

    seen = []

    @app.consumer(Placed)
    async def pack(event: Placed) -> None:
        seen.append(event.order)

    return Shop, seen


class Counts:
    """What a store has committed since the last look."""

    def __init__(self, app):
        self._store = app.runtime().home.transactions
        self._app = app
        self._seen = self._store.commits

    def look(self):
        before, self._seen = self._seen, self._store.commits
        return self._seen - before

    async def settled(self):
        """The commits until nothing happens any more."""
        commits, quiet = 0, 0
        while quiet < 20:
            await asyncio.sleep(0.005)
            more = self.look()
            commits += more
            waiting = (await self._store.query("out#shop", prefix=ENTRY_PREFIX)).items
            quiet = 0 if more or waiting else quiet + 1
        return commits


@pytest.fixture
def warm(sqlite_world):
    return sqlite_world.app(limits=WARM)


@pytest.mark.parametrize("events", [0, 1, 100])
async def test_publishing_adds_no_commit_to_the_call_that_does_it(warm, events):
    shop, _ = declare(warm)
    async with warm.worker():
        await shop.at("a").order(events=1)
        counts = Counts(warm)
        await counts.settled()
        await shop.at("a").order(events=events)
        assert counts.look() == 1


@pytest.mark.parametrize("events", [1, 10, 100])
async def test_an_actor_s_events_take_three_commits_more_to_be_delivered_handled_and_marked(warm, events):
    shop, seen = declare(warm)
    async with warm.worker():
        await shop.at("a").order(events=1)
        counts = Counts(warm)
        await counts.settled()
        await shop.at("a").order(events=events)
        assert await counts.settled() <= 1 + 3
    assert len(seen) == 1 + events


@pytest.mark.parametrize("events", [1, 10, 100])
async def test_events_that_stand_alone_take_five_commits_together(warm, events):
    """They are published, delivered to handlers that begin with them, marked, handled, and these are let go of."""
    _, seen = declare(warm)
    async with warm.worker():
        await warm.publish(Placed("first"))
        counts = Counts(warm)
        await counts.settled()
        await asyncio.gather(*[warm.publish(Placed(str(n))) for n in range(events)])
        assert await counts.settled() <= 5
    assert len(seen) == 1 + events


async def test_where_nothing_is_warm_each_lease_takes_two_commits_more(sqlite_world):
    app = sqlite_world.app(limits=COLD)
    shop, seen = declare(app)
    async with app.worker():
        await shop.at("a").order(events=1)
        counts = Counts(app)
        await counts.settled()
        await shop.at("a").order(events=1)
        assert await counts.settled() <= 1 + 3 + 2 * len(("the shop", "the relay", "the handler"))
    assert len(seen) == 2


async def test_an_idle_relay_commits_nothing_and_is_not_looked_at(sqlite_world):
    app = sqlite_world.app(limits=COLD)
    declare(app)
    async with app.worker():
        await app.publish(Placed("1"))
        counts = Counts(app)
        await counts.settled()
        await asyncio.sleep(0.05)
        assert counts.look() == 0
        head = await app.runtime().home.store.get("out#shop")
        assert head is not None
        assert (head.owner, head.due_at) == (None, None)


async def test_a_worker_that_starts_again_with_consumers_and_schedules_writes_nothing(sqlite_world):
    def app():
        made = sqlite_world.app(limits=COLD)
        declare(made)

        @made.cron("0 3 1 1 *")
        async def report() -> None: ...

        return made

    first = app()
    async with first.worker():
        await first.publish(Placed("1"))
        await Counts(first).settled()
    second = app()
    async with second:
        counts = Counts(second)
        async with second.worker():
            assert await counts.settled() == 0
