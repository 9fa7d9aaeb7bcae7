"""Counts without noise: commits are fsyncs, statements are work, and an idle worker does neither (G14)."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

import holdfast as hf

NO_SWEEP = hf.Limits(sweep_seconds=100_000.0, lease_ms=1_000_000_000)
"""No heartbeat and no renewal during the test."""


@pytest.fixture
def world(sqlite_world):
    return sqlite_world


@pytest.fixture
def app(world):
    return world.app(limits=NO_SWEEP)


@pytest.fixture
def step(app):
    @app.step(name="step")
    async def step(n: int) -> int:
        return n

    return step


@pytest.fixture
def steps(app, step):
    @app.workflow
    async def steps(count: int) -> int:
        return sum([await step(n) for n in range(count)])

    return steps


class Counts:
    """What a store has done since the last look."""

    def __init__(self, app):
        self._store = app.runtime().home.transactions
        self.look()

    def look(self):
        """The commits and statements since the last look."""
        before = getattr(self, "_seen", Counter())
        self._seen = Counter(commits=self._store.commits, statements=self._store.statements)
        return self._seen["commits"] - before["commits"], self._seen["statements"] - before["statements"]

    async def settle(self):
        """Wait until a commit that the writer's thread has made is counted too."""
        quiet = 0
        while quiet < 5:
            quiet = quiet + 1 if self.look() == (0, 0) else 0
            await asyncio.sleep(0.01)


async def test_a_one_step_workflow_takes_two_commits(app, steps):
    async with app.worker():
        counts = Counts(app)
        await steps(1)
        commits, statements = counts.look()
    assert commits == 2
    assert statements <= 5


@pytest.mark.parametrize("count", [2, 5, 40])
async def test_so_many_steps_in_sequence_take_one_commit_more(app, steps, count):
    async with app.worker():
        counts = Counts(app)
        await steps(count)
        commits, statements = counts.look()
    assert commits == count + 1
    assert statements <= 2 * count + 3


async def test_the_cost_of_a_step_does_not_grow_with_the_journal(app, steps):
    async with app.worker():
        counts = Counts(app)
        await steps(50)
        _, short = counts.look()
        await steps(500)
        _, long = counts.look()
    assert long - short <= 450 * (short / 50) + 5


async def test_a_workflow_without_steps_takes_two_commits(app):
    @app.workflow
    async def nothing() -> None: ...

    async with app.worker():
        counts = Counts(app)
        await nothing()
        assert counts.look()[0] == 2


async def test_executions_at_once_share_commits(app, steps):
    async with app.worker():
        counts = Counts(app)
        await asyncio.gather(*[steps(1) for _ in range(64)])
        commits, _ = counts.look()
    assert commits <= 16


async def test_steps_at_once_share_commits(app, step):
    @app.workflow
    async def wide(count: int) -> int:
        return sum(await asyncio.gather(*[step(n) for n in range(count)]))

    async with app.worker():
        counts = Counts(app)
        await wide(1_000)
        commits, statements = counts.look()
    assert commits <= 6
    assert statements <= 40


async def test_children_at_once_share_commits(app, steps):
    @app.workflow
    async def parent(count: int) -> int:
        return sum(await asyncio.gather(*[steps(1) for _ in range(count)]))

    async with app.worker():
        counts = Counts(app)
        await parent(50)
        commits, _ = counts.look()
    assert commits <= 20


async def test_looking_writes_nothing(app, steps):
    async with app.worker():
        handle = await steps.start(10, id="s")
        await handle
        counts = Counts(app)
        await handle.status()
        await handle.history()
        await handle.result()
        await app.executions()
        assert await (await steps.start(10, id="s")) == 45
        commits, statements = counts.look()
    assert commits <= 1  # the start that found it there
    assert statements <= 12


async def test_queries_of_a_waiting_and_of_a_finished_execution_write_nothing(app, step, reaches):
    @app.workflow
    async def job() -> int:
        seen = []

        @hf.query
        def count() -> int:
            return len(seen)

        for n in range(20):
            seen.append(await step(n))
        await hf.signal("go")
        return len(seen)

    async with app.worker():
        handle = await job.start(id="j")
        await reaches(handle, "SUSPENDED")
        counts = Counts(app)
        assert await handle.query("count") == 20
        assert counts.look()[0] == 0
        await handle.signal("go")
        await handle
        counts.look()
        assert await handle.query("count") == 20
        assert counts.look()[0] == 0


async def test_a_worker_that_starts_among_finished_executions_writes_nothing(world, app, steps):
    async with app.worker():
        await asyncio.gather(*[steps(3) for _ in range(20)])
    async with app.worker():
        counts = Counts(app)
        await asyncio.sleep(0.02)
        assert counts.look() == (0, 0)


async def test_an_idle_worker_does_nothing(app, steps):
    async with app.worker():
        await steps(3)
        counts = Counts(app)
        await counts.settle()
        await asyncio.sleep(0.05)
        assert counts.look() == (0, 0)


async def test_a_worker_with_sleeping_executions_does_nothing_either(app, eventually):
    @app.workflow
    async def sleeper() -> None:
        await hf.sleep("30d")

    async with app.worker():
        handles = [await sleeper.start(id=f"s-{n}") for n in range(20)]

        async def asleep() -> bool:
            return len((await app.executions(status="SUSPENDED")).executions) == len(handles)

        await eventually(asleep)
        counts = Counts(app)
        await counts.settle()
        await asyncio.sleep(0.05)
        assert counts.look() == (0, 0)


async def test_the_heartbeat_of_an_idle_worker_is_one_statement_a_sweep(world):
    app = world.app(limits=hf.Limits(sweep_seconds=0.02, lease_ms=1_000_000_000))

    @app.workflow
    async def job() -> None: ...

    async with app.worker():
        await job()
        sweeps = []
        sweep = app.employed.sweeper.sweep

        async def counted(horizon_ms, **options):
            before = counts.look()[1]
            await sweep(horizon_ms, **options)
            sweeps.append((before, counts.look()))

        counts = Counts(app)
        app.employed.sweeper.sweep = counted
        while len(sweeps) < 3:
            await asyncio.sleep(0.005)
    for between, (commits, statements) in sweeps:
        assert commits == 0
        assert statements <= 2
        assert between == 0


async def test_the_default_heartbeat_is_seconds_apart():
    limits = hf.Limits()
    assert limits.sweep_seconds >= 1
    assert limits.lease_ms / 3000 >= 1


async def test_suspending_and_resuming_take_a_commit_each(app, reaches):
    @app.workflow
    async def job() -> str:
        return await hf.signal("go", str)

    async with app.worker():
        counts = Counts(app)
        handle = await job.start(id="j")
        await reaches(handle, "SUSPENDED")
        assert counts.look()[0] == 2  # its start, and the end of its lease
        await handle.signal("go", "gone")
        await handle
        assert counts.look()[0] <= 3  # the message, the claim, the end


async def test_a_timer_that_fires_soon_takes_no_commit_of_its_own(app, step):
    @app.workflow
    async def job() -> None:
        await step(1)
        await hf.sleep("2ms")
        await step(2)

    async with app.worker():
        counts = Counts(app)
        await job()
        assert counts.look()[0] <= 4  # start, first step, timer before the next effect, end
