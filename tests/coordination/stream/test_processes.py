"""Documents, streams and a projection in several real processes on one SQLite file; two of them are killed."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from pathlib import Path

import pytest
from tests.coordination.stream.clerk import make

ROOT = Path(__file__).parents[3]
TIMES = 40
KILLED_AFTER = {"ada": 0, "bob": 0, "eve": 13, "dan": 27}

pytestmark = [pytest.mark.process, pytest.mark.slow]


async def start(path, name, killed_after):
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.coordination.stream.clerk", str(path), name, str(TIMES), str(killed_after),
        cwd=ROOT, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip


async def watch(streams, seen, done):
    """Read the order of all events while it grows."""
    while not done.is_set():
        async for each in streams.read(after=seen[-1].position if seen else 0):
            seen.append(each)
        await asyncio.sleep(0.001)


async def test_nothing_is_lost_doubled_or_out_of_order(tmp_path):
    path = tmp_path / "home.db"
    app, streams, totals, projection = make(str(path))
    async with app:
        processes = [await start(path, name, after) for name, after in KILLED_AFTER.items()]
        for each in processes:
            assert await each.stdout.readline() == b"ready\n"
        seen, done = [], asyncio.Event()
        watching = asyncio.create_task(watch(streams, seen, done))
        outcomes = await asyncio.gather(*(each.communicate(b"go\n") for each in processes))
        done.set()
        await watching
        for name, each, (out, err) in zip(KILLED_AFTER, processes, outcomes, strict=True):
            assert not err, err.decode()
            assert each.returncode == (-9 if KILLED_AFTER[name] else 0)
            assert len(out.splitlines()) == (KILLED_AFTER[name] or TIMES)

        rounds = sum(after or TIMES for after in KILLED_AFTER.values())
        final = [each async for each in streams.read()]
        assert [each.position for each in final] == list(range(1, 2 * rounds + 1))
        assert seen == final[: len(seen)]
        common = [each.event async for each in streams.at("common").read()]
        for name, after in KILLED_AFTER.items():
            own = list(range(1, (after or TIMES) + 1))
            assert [each.event.number async for each in streams.at(name).read()] == own
            assert [each.number for each in common if each.by == name] == own

        await projection.catch_up()
        counted = Counter(each.event.by for each in final)
        assert {name: (await totals.at(name).get()).value for name in KILLED_AFTER} == counted
        assert (await totals.at("shared").get()).value == rounds
        assert [(await totals.at(each).get()).value for each in ("left", "right")] == [-rounds, rounds]
