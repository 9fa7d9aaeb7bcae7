"""Counts without noise: how many commits (fsyncs) actors take on SQLite."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

import holdfast as hf

NO_SWEEP = hf.Limits(sweep_seconds=100_000.0, lease_ms=1_000_000_000, linger_seconds=100.0, slice_seconds=100_000.0)
"""No heartbeat, no renewal, and no lease let go of during the test."""


@pytest.fixture
def app(sqlite_world):
    return sqlite_world.app(limits=NO_SWEEP)


def declare(app):
    @app.workflow
    async def follow_up() -> int:
        return 1

    class Account(hf.Actor, app=app, optimistic=False):
        balance: int = 0

        async def add(self, n: int) -> int:
            self.balance += n
            return self.balance

        async def same(self) -> int:
            return self.balance

        async def fail(self) -> None:
            self.balance = -1
            raise ValueError("no")

        async def wait_and_add(self) -> int:
            await asyncio.sleep(0.001)
            self.balance += 1
            return self.balance

        async def busy(self, others: list[str]) -> None:
            self.balance += 1
            for other in others:
                await hf.send(Account.at(other).add, 1)
            self.ring.after("1h")
            self.ring["another"].after("2h")
            await follow_up.start(id=f"follow-up-{self.balance}")

        async def relay(self, to: str) -> int:
            return await Account.at(to).add(1)

        @hf.read
        async def get(self) -> int:
            return self.balance

        @hf.timer
        async def ring(self) -> None: ...

    class Free(hf.Actor, app=app, optimistic=True):
        n: int = 0

        async def add(self) -> int:
            self.n += 1
            return self.n

        async def same(self) -> int:
            return self.n

    return Account, Free


class Counts:
    """What a store has done since the last look."""

    def __init__(self, app):
        self._store = app.runtime().home.transactions
        self._seen = Counter()
        self.look()

    def look(self):
        """The commits and statements since the last look."""
        before, self._seen = self._seen, Counter(commits=self._store.commits, statements=self._store.statements)
        return self._seen["commits"] - before["commits"], self._seen["statements"] - before["statements"]

    async def settle(self):
        """Wait until nothing more is committed."""
        quiet = 0
        while quiet < 5:
            quiet = quiet + 1 if self.look() == (0, 0) else 0
            await asyncio.sleep(0.01)


async def warm(app, *actors):
    for each in actors:
        await each.add(1)
    counts = Counts(app)
    await counts.settle()
    return counts


async def test_the_first_call_of_an_actor_takes_two_commits_behind_a_claim_that_finds_nothing(app):
    account, _ = declare(app)
    async with app.worker():
        counts = Counts(app)
        await account.at("a").add(1)
        assert counts.look()[0] == 3


async def test_a_warm_call_takes_one_commit_and_one_statement(app):
    account, _ = declare(app)
    async with app.worker():
        counts = await warm(app, account.at("a"))
        for _ in range(10):
            await account.at("a").add(1)
        assert counts.look() == (10, 10)


async def test_calls_that_queue_share_commits(app):
    account, _ = declare(app)
    async with app.worker():
        counts = await warm(app, account.at("a"))
        assert await asyncio.gather(*(account.at("a").add(1) for _ in range(100))) == list(range(2, 102))
        assert 1 <= counts.look()[0] <= 2


async def test_calls_of_many_actors_at_once_share_commits(app):
    account, _ = declare(app)
    async with app.worker():
        actors = [account.at(str(n)) for n in range(50)]
        counts = await warm(app, *actors)
        await asyncio.gather(*(each.add(1) for each in actors))
        assert 1 <= counts.look()[0] <= 3


@pytest.mark.parametrize("method", ["get", "same", "fail"])
async def test_what_changes_nothing_takes_no_commit(app, method):
    account, _ = declare(app)
    async with app.worker():
        counts = await warm(app, account.at("a"))
        for _ in range(5):
            await asyncio.gather(getattr(account.at("a"), method)(), return_exceptions=True)
        assert counts.look() == (0, 0)


async def test_a_read_where_the_actor_does_not_live_is_one_look(app, sqlite_world):
    account, _ = declare(app)
    client = sqlite_world.app()
    away, _ = declare(client)
    async with app.worker(), client:
        await warm(app, account.at("a"))
        counts = Counts(client)
        assert await away.at("a").get() == 1
        commits, statements = counts.look()
    assert commits == 0
    assert statements <= 1


async def test_sends_timers_and_starts_ride_along(app):
    account, _ = declare(app)
    async with app.worker():
        counts = await warm(app, *(account.at(key) for key in "abcd"))
        await account.at("a").busy(["b", "c", "d"])
        commits, _ = counts.look()
    assert commits == 1


async def test_a_reply_that_is_kept_rides_along(app):
    account, _ = declare(app)
    async with app.worker():
        counts = await warm(app, account.at("a"))
        assert await account.at("a", request_id="r").add(1) == 2
        assert counts.look()[0] == 1
        assert await account.at("a", request_id="r").add(1) == 2
        assert counts.look()[0] == 0


async def test_a_call_of_an_actor_by_an_actor_takes_one_commit_if_only_one_changes(app):
    account, _ = declare(app)
    async with app.worker():
        counts = await warm(app, account.at("a"), account.at("b"))
        assert await account.at("a").relay("b") == 2
        assert counts.look()[0] == 1


async def test_queued_messages_share_commits(app, eventually):
    account, _ = declare(app)
    async with app.worker():
        counts = await warm(app, account.at("a"))
        await asyncio.gather(*(hf.send(account.at("a").add, 1) for _ in range(50)))

        async def arrived():
            return await account.at("a").get() == 51

        await eventually(arrived)
        assert counts.look()[0] <= 12


async def test_an_optimistic_call_takes_one_commit_or_none(app):
    _, free = declare(app)
    async with app.worker():
        counts = Counts(app)
        for n in range(1, 6):
            assert await free.at("f").add() == n
        assert counts.look()[0] == 5
        assert await free.at("f").same() == 5
        assert counts.look()[0] == 0


async def test_an_idle_actor_takes_one_commit_to_let_go_and_then_nothing(sqlite_world):
    app = sqlite_world.app(limits=hf.Limits(sweep_seconds=100_000.0, lease_ms=1_000_000_000, linger_seconds=0.05))
    account, _ = declare(app)
    async with app.worker():
        await account.at("a").add(1)
        counts = Counts(app)
        while app.telemetry.counts["suspended"] == 0:
            await asyncio.sleep(0.005)
        assert counts.look()[0] == 1
        await asyncio.sleep(0.1)
        assert counts.look() == (0, 0)
