"""``python -m benchmarks.soak --minutes 60``: whether anything grows in a process that works for a long time.

One worker does all kinds of work at a rate: workflows with a step, with a timer, with a child and with a signal, ones
that fail, calls of actors and messages to them. Everything expires after a minute and is purged a minute later, instead
of an hour, so that the file has its final size after a few minutes.

Sampled are memory, the used pages of the file, the log, threads, descriptors and tasks. Printed is a line a minute, and
a verdict: the median of the last quarter may not be above that of the second one by more than a tenth, and for the few
there are of some by more than ``SLACK``. Exits with 1 if something has grown.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import statistics
import sys
import tempfile
import time
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

import holdfast as hf
from holdfast.errors import HoldfastError
from holdfast.kernel import sweep

KEPT = "1m"
SOON_MS = 60_000
SAMPLE_SECONDS = 5.0
SHARE = 0.1
SLACK = {"memory_mb": 4.0, "file_mb": 1.0, "log_mb": 17.0, "threads": 2.0, "descriptors": 4.0, "tasks": 50.0}
"""What may come on top of the share. The log is truncated to 16 MB when it was longer."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What the process holds at a moment."""

    memory_mb: float
    file_mb: float
    log_mb: float
    threads: float
    descriptors: float
    tasks: float


def sample(path: Path, store: Any) -> Sample:
    """Take one."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    ((pages,),), ((free,),) = store.rows("PRAGMA page_count", ()), store.rows("PRAGMA freelist_count", ())
    log = Path(f"{path}-wal")
    return Sample(
        memory_mb=int(status["VmRSS"].split()[0]) / 1e3,
        file_mb=(pages - free) * 4096 / 1e6,
        log_mb=log.stat().st_size / 1e6 if log.exists() else 0.0,
        threads=float(status["Threads"]),
        descriptors=float(len(list(Path("/proc/self/fd").iterdir()))),
        tasks=float(len(asyncio.all_tasks())),
    )


def grown(samples: list[Sample]) -> list[str]:
    """What is larger in the last quarter of the samples than in the second one, a line each."""
    quarter = len(samples) // 4
    lines = []
    for field in fields(Sample):
        early = statistics.median(getattr(each, field.name) for each in samples[quarter : 2 * quarter])
        late = statistics.median(getattr(each, field.name) for each in samples[-quarter:])
        if late > early * (1 + SHARE) + SLACK[field.name]:
            lines.append(f"{field.name} has grown from {early:.1f} to {late:.1f}")
    return lines


def make(url: str) -> tuple[hf.App, list[Any]]:
    """The app, and functions that do one piece of work of each kind."""
    app = hf.App("soak", home=url)

    @app.step
    async def double(number: int) -> int:
        return 2 * number

    @app.step(retry=hf.Retry(max_attempts=1))
    def refuse(number: int) -> int:
        raise ValueError(f"no {number}")

    @app.workflow(retention=KEPT)
    async def short(number: int) -> int:
        return await double(number)

    @app.workflow(retention=KEPT)
    async def slow(number: int) -> int:
        await hf.sleep("1s")
        return await double(number)

    @app.workflow(retention=KEPT)
    async def parent(number: int) -> int:
        return sum(await asyncio.gather(short(number), short(number + 1)))

    @app.workflow(retention=KEPT)
    async def fails(number: int) -> int:
        return await refuse(number)

    @app.workflow(retention=KEPT)
    async def waits(number: int) -> int:
        return number + await hf.signal("more", int, timeout="5s")

    class Counter(hf.Actor, app=app):
        total: int = 0

        async def add(self, number: int) -> int:
            self.total += number
            return self.total

    async def signalled(number: int) -> None:
        handle = await waits.start(number)
        await handle.signal("more", 1)
        await handle

    async def sent(number: int) -> None:
        await hf.send(Counter.at(str(number % 50)).add, number)

    return app, [short, slow, parent, fails, signalled, sent, lambda number: Counter.at(str(number % 50)).add(number)]


async def soak(minutes: float, rate: float) -> int:
    """Work, sample, and judge."""
    with tempfile.TemporaryDirectory(prefix="holdfast-soak-") as folder:
        path = Path(folder) / "soak.db"
        app, kinds = make(f"sqlite:///{path}")
        samples: list[Sample] = []
        done = failed = 0
        ends_at = time.monotonic() + minutes * 60

        async def one(number: int) -> None:
            nonlocal done, failed
            try:
                await random.choice(kinds)(number)
            except HoldfastError:
                failed += 1
            done += 1

        async def load() -> None:
            number, running = 0, set[asyncio.Task[None]]()
            while time.monotonic() < ends_at:
                number += 1
                if len(running) < 500:  # a machine that is busy with other things does less
                    running.add(task := asyncio.create_task(one(number)))
                    task.add_done_callback(running.discard)
                await asyncio.sleep(1 / rate)
            await asyncio.gather(*running)

        async with app.worker():
            store = app.runtime().home.transactions
            loading = asyncio.create_task(load())
            while not loading.done():
                await asyncio.wait([loading], timeout=SAMPLE_SECONDS)
                samples.append(sample(path, store))
                if len(samples) % round(60 / SAMPLE_SECONDS) == 1:
                    told = ", ".join(
                        f"{field.name} {value:.1f}"
                        for field, value in zip(fields(Sample), astuple(samples[-1]), strict=True)
                    )
                    print(f"{done} done, {failed} failed as they should; {told}", flush=True)
            await loading
    complaints = grown(samples)
    print("\n".join(complaints) or f"flat, over {minutes:.0f} minutes and {done} pieces of work")
    return 1 if complaints else 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--rate", type=float, default=30.0, help="pieces of work a second")
    asked = parser.parse_args()
    sweep.LATE_MS = SOON_MS  # type: ignore[misc]
    print(f"load {os.getloadavg()[0]:.1f}", flush=True)
    sys.exit(asyncio.run(soak(asked.minutes, asked.rate)))


if __name__ == "__main__":
    main()
