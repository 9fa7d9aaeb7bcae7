"""``python -m benchmarks.scale children`` and ``overdue``: a pile of executions, worked off through a hostile DynamoDB.

``children``: one execution calls many, and ends when all of them have. ``overdue``: executions were started while no
worker ran, as after an outage, and then workers start. In both a few workers, each a process with a home of its own,
work until nothing is left. Each execution has one step, and each worker notes which steps it ran: one that ran twice is
a repeat. All share the processors of one machine, so what each of them took of these is told too (on Linux): a service
would have its own.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

import holdfast as hf
from benchmarks.emulator import child_environment, new_home
from benchmarks.lean import LeanConnection
from benchmarks.machine import described
from holdfast.backends.aws import open_aws_home
from holdfast.persist import sit_out

STARTS_AT_ONCE = 200
PATIENCE_SECONDS = 30.0
"""A worker that has run nothing for so long has nothing left to do."""

LOOK_SECONDS = 0.2


class Ran(Struct):
    """The steps that ran in one process: the number of the execution, and when."""

    steps: list[tuple[int, float]] = []
    processor_seconds: float = 0.0


class Worked(Struct, frozen=True):
    """How many executions have ended, in how many seconds, how many steps ran twice, and by how many processes."""

    ended: int
    seconds: float
    repeats: int
    processes: int

    @property
    def per_second(self) -> float:
        """Executions a second."""
        return self.ended / self.seconds


def app_on(url: str, endpoint: str, ran: Ran) -> tuple[hf.App, Any, Any]:
    """The app on a home with a connection of its own, and its workflows: one, and the one that calls many."""
    app = hf.App("piles", home=partial(open_aws_home, url, connection=LeanConnection(endpoint)))

    @app.step
    async def note(number: int) -> int:
        ran.steps.append((number, time.time()))
        return number

    @app.workflow
    async def one(number: int) -> int:
        return await note(number)

    @app.workflow
    async def many(count: int) -> int:
        return sum(await asyncio.gather(*(one(number) for number in range(count))))

    return app, one, many


async def work(url: str, endpoint: str) -> Ran:
    """Work until nothing more was run for a while."""
    ran = Ran()
    app, _, _ = app_on(url, endpoint, ran)
    async with app.worker():
        print("ready", flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
        seen, since = -1, time.monotonic()
        while time.monotonic() - since < PATIENCE_SECONDS:
            if len(ran.steps) != seen:
                seen, since = len(ran.steps), time.monotonic()
            await asyncio.sleep(LOOK_SECONDS)
    ran.processor_seconds = time.process_time()
    return ran


async def pile_up(url: str, endpoint: str, count: int) -> None:
    """Start executions while no worker runs."""
    app, one, _ = app_on(url, endpoint, Ran())
    numbers = iter(range(count))

    async def start() -> None:
        for number in numbers:
            await sit_out(partial(one.start, number, id=f"n{number}"), lambda _error: None)

    async with app:
        await asyncio.gather(*(start() for _ in range(STARTS_AT_ONCE)))


async def call_all(url: str, endpoint: str, count: int) -> float:
    """Have one execution call many. Answers when it has ended."""
    app, _, many = app_on(url, endpoint, Ran())
    async with app:
        told: int = await (await many.start(count, id="all"))
    assert told == count * (count - 1) // 2
    return time.time()


def worker(url: str, endpoint: str) -> subprocess.Popen[str]:
    """A worker in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.piles", url, endpoint]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=child_environment())


def told_by(workers: list[subprocess.Popen[str]]) -> list[Ran]:
    """What they ran, when nothing is left."""
    for each in workers:
        assert each.stdin is not None
        each.stdin.write("\n")
        each.stdin.flush()
    return [msgspec.json.decode(each.communicate()[0].splitlines()[-1], type=Ran) for each in workers]


def processor_seconds(of: str) -> float:
    """What the children of this process whose command line has these words have taken of the processors."""
    ticks = 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            if int(fields[1]) == os.getpid() and of in (folder / "cmdline").read_text():
                ticks += int(fields[11]) + int(fields[12])
        except OSError:
            continue  # it has ended meanwhile
    return ticks / os.sysconf("SC_CLK_TCK")


def taken_by_others() -> Counter[str]:
    """What emulator and proxy have taken of the processors, in seconds."""
    others = {"emulator": "DynamoDBLocal.jar", "proxy": "holdfast.testing.hostile"}
    return Counter({name: processor_seconds(words) for name, words in others.items()})


def requests_at(endpoint: str) -> Counter[str]:
    """What was asked of the proxy."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(endpoint, timeout=60) as answer:
        return Counter(json.loads(answer.read())["requests"])


def measure(options: argparse.Namespace, endpoint: str) -> Worked:
    """One run; its figures are printed too."""
    url = asyncio.run(new_home(endpoint))
    if options.what == "overdue":
        asyncio.run(pile_up(url, endpoint, options.count))
    before, took, began = requests_at(endpoint), taken_by_others(), time.time()
    workers = [worker(url, endpoint) for _ in range(options.workers)]
    for each in workers:
        assert each.stdout is not None
        each.stdout.readline()
    ended_at = 0.0
    if options.what == "children":
        began = time.time()
        ended_at = asyncio.run(call_all(url, endpoint, options.count))
    ran = told_by(workers)
    asked = requests_at(endpoint) - before
    took = taken_by_others() - took
    took["workers"] = sum(each.processor_seconds for each in ran)
    return show(options, [each.steps for each in ran], began, ended_at, asked, took)


def show(
    options: argparse.Namespace,
    steps: list[list[tuple[int, float]]],
    began: float,
    ended_at: float,
    asked: Counter[str],
    took: Counter[str],
) -> Worked:
    """Print what came of it."""
    numbers = Counter(number for part in steps for number, _ in part)
    first, last = (pick(at for part in steps for _, at in part) for pick in (min, max))
    found = Worked(
        len(numbers), (ended_at or last) - (began if ended_at else first), numbers.total() - len(numbers), len(steps)
    )
    print(f"{options.what}: {options.count:,}, {options.workers} workers")
    print(f"  ended             {found.ended:,} in {found.seconds:.1f} s, {found.per_second:.0f}/s")
    print(f"  first after       {first - began:.1f} s")
    print(f"  each worker ran   {sorted(map(len, steps))}; {found.repeats} ran twice")
    print(f"  requests          {asked.total() / max(1, found.ended):.1f} for each: {dict(asked)}")
    told = ", ".join(f"{name} {each:.0f} s" for name, each in took.items())
    print(f"  processor time    {told}; {1000 * took.total() / max(1, found.ended):.1f} ms for each")
    about = described()
    where = f"{about['date']}, {about['commit']}, {about['machine']['processor']}"
    print(f"  {where}, load {os.getloadavg()[0]:.1f}", flush=True)
    assert found.ended == options.count, "some were lost"
    return found


if __name__ == "__main__":
    print(msgspec.json.encode(asyncio.run(work(*sys.argv[1:]))).decode())
