"""The work of ``python -m benchmarks.paired``: ``python -m benchmarks.paired_work ROW COUNT FOLDER``.

It does so many operations of a row with whatever Holdfast is on the path, and prints nothing: what it costs is read
from outside. It uses only what every release has.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import holdfast as hf
from benchmarks.workload import Workload, in_lanes
from holdfast.backends.sqlite import writer

LANES = 64
ACTORS = 200

Work = Callable[[Workload, int], Awaitable[object]]


async def many(it: Workload, count: int) -> None:
    """One-step workflows, 64 at a time. The ids of two processes differ."""
    async with it.worker():
        await in_lanes(it.one_step, range(count), LANES)


async def one(it: Workload, count: int) -> None:
    """One-step workflows, one at a time."""
    async with it.worker():
        await in_lanes(it.one_step, range(count), 1)


async def starts(it: Workload, count: int) -> None:
    """Starts by a client, without a worker."""
    async with it.client():
        await asyncio.gather(*[it.one_step.start(number) for number in range(count)])


async def steps(it: Workload, count: int) -> None:
    """The steps of one workflow, one after another."""
    async with it.worker():
        await it.sequence(count)


async def parallel(it: Workload, count: int) -> None:
    """The steps of one workflow, all at once."""
    async with it.worker():
        await it.parallel(count)


async def children(it: Workload, count: int) -> None:
    """The children of one workflow, all at once."""
    async with it.worker():
        await it.children(count)


async def queued(it: Workload, count: int) -> None:
    """Workflows in a queue with a limit: they all wait, until a worker opens and the last of them has ended."""

    @it.app.workflow(queue=it.app.queue("jobs", limit=LANES))
    async def job(number: int) -> int:
        return number

    async with it.client():
        await in_lanes(job.start, range(count), LANES)
        async with it.worker():
            await it.told("ended", count)


@asynccontextmanager
async def counters(it: Workload) -> Any:
    """The app with a worker, and an actor that counts."""

    class Counter(hf.Actor, app=it.app):
        total: int = 0

        async def add(self, number: int) -> int:
            self.total += number
            return self.total

    async with it.worker():
        yield [Counter.at(f"counter-{number}") for number in range(ACTORS)]


async def calls(it: Workload, count: int) -> None:
    """Calls of 200 actors, 64 at a time."""
    async with counters(it) as actors:
        turns = iter(range(count))

        async def lane() -> None:
            for number in turns:
                await actors[number % ACTORS].add(1)

        await asyncio.gather(*[lane() for _ in range(LANES)])


async def sends(it: Workload, count: int) -> None:
    """Messages to 200 actors, until all are applied."""
    async with counters(it) as actors:
        await asyncio.gather(*[hf.send(actors[number % ACTORS].add, 1) for number in range(count)])
        applied = await asyncio.gather(*[actor.add(0) for actor in actors])
        assert sum(applied) == count


async def aws_calls(_it: Workload, count: int) -> None:
    """Idempotent calls of an async handler on AWS, with a table that says yes: two requests each."""
    from benchmarks.canned import canned  # of what earlier releases did not have

    with canned() as url:
        app = hf.App("bench", home=url)

        @app.idempotent(key="event")
        async def charge(event: int) -> int:
            return event

        async with app:
            app.runtime().home.store._transport._patience_seconds = 600  # noqa: SLF001 - a tool that counts is slow
            for number in range(count):
                assert await charge(number) == number


ROWS: dict[str, Work] = {
    "one-step-64": many,
    "one-step-1": one,
    "start": starts,
    "sequential": steps,
    "parallel": parallel,
    "children": children,
    "queued": queued,
    "calls": calls,
    "sends": sends,
    "aws-calls": aws_calls,
}

TWO_WORKERS = "two-workers"
"""``one-step-64`` in two processes at a time, on one file."""


def main() -> None:
    row, count, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    # Where commits run depends on how long they take, which differs under a tool that counts instructions.
    writer.SLOW_COMMIT_SECONDS = float("inf")
    if row == TWO_WORKERS:
        command = [sys.executable, "-m", "benchmarks.paired_work", "one-step-64", str(count // 2), folder]
        for process in [subprocess.Popen(command) for _ in range(2)]:
            if process.wait() != 0:
                sys.exit(f"a worker of two ended with {process.returncode}")
        return
    asyncio.run(ROWS[row](Workload(folder), count))
    os._exit(0)  # what it leaves asleep need not be put away


if __name__ == "__main__":
    main()
