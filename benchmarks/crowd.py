"""``python -m benchmarks.crowd due 50000`` and ``... lanes 64 512 2000``: whether many at once cost more than few.

``due`` puts so many workflows to sleep until one moment, all of them resident, and waits for their ends. Told is the
processor time of each, and the longest turn of the event loop: so long nothing else on it comes to run. ``lanes`` does
workflows with one step, so many at a time.

All times are processor times, so that other work on the machine counts little.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import holdfast as hf
from benchmarks.workload import Workload, in_lanes

STARTED_AT_ONCE = 64
OPERATIONS = 6_000
SECONDS_FOR_ONE = 0.01
"""So long it may take to put one to sleep, before they are due."""


@contextmanager
def turns() -> Iterator[list[float]]:
    """How long each turn of the running loop takes, in milliseconds. Waiting takes no processor time."""
    loop: Any = asyncio.get_running_loop()
    found: list[float] = []
    run_once = loop._run_once  # noqa: SLF001 - asyncio tells of no turn by itself

    def timed() -> None:
        began = time.process_time()
        run_once()
        found.append((time.process_time() - began) * 1e3)

    loop._run_once = timed  # noqa: SLF001
    try:
        yield found
    finally:
        del loop._run_once  # noqa: SLF001


def told(what: str, count: int, seconds: float, found: list[float]) -> str:
    """A line of the report."""
    longest = sorted(found)[-3:]
    return (
        f"{what:24} {seconds * 1e6 / count:7.0f} us each; the longest turns of the loop "
        f"{', '.join(f'{each:.0f}' for each in longest)} ms"
    )


async def due(folder: str, count: int, *, wait_seconds: float) -> None:
    """So many timers at one moment."""
    it = Workload(folder, limits=hf.Limits(resident=2 * count))
    async with it.worker():
        await in_lanes(it.one_step, range(200), STARTED_AT_ONCE)
        due_at = time.time() + wait_seconds
        with turns() as found:
            began = time.process_time()
            await in_lanes(lambda _: it.overshoot.start(due_at), range(count), STARTED_AT_ONCE)
            await it.told("suspended", count)
            print(told(f"{count} put to sleep", count, time.process_time() - began, found), flush=True)
        if time.time() > due_at:
            print("it was due before all of them slept: give --wait more seconds")
        with turns() as found:
            began = time.process_time()
            await it.told("ended", count + 200)
            print(told(f"{count} due at once", count, time.process_time() - began, found), flush=True)


async def lanes(folder: str, at_once: int) -> None:
    """Workflows with one step, so many at a time."""
    it = Workload(folder)
    async with it.worker():
        await in_lanes(it.one_step, range(at_once), at_once)
        with turns() as found:
            began = time.process_time()
            await in_lanes(it.one_step, range(OPERATIONS), at_once)
            print(told(f"{at_once} at a time", OPERATIONS, time.process_time() - began, found), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["due", "lanes"])
    parser.add_argument("counts", type=int, nargs="+")
    parser.add_argument("--wait", type=float, help="after how many seconds they are due")
    asked = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f}")
    for count in asked.counts:
        with tempfile.TemporaryDirectory(prefix="holdfast-crowd-") as folder:
            if asked.what == "due":
                asyncio.run(due(folder, count, wait_seconds=asked.wait or 10 + count * SECONDS_FOR_ONE))
            else:
                asyncio.run(lanes(folder, count))


if __name__ == "__main__":
    main()
