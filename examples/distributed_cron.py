"""Cron for several processes on one file: whoever is there runs a tick, and each tick is run once.

Shows an actor with a periodic timer that starts workflows. The timer's next due time and the start of the job commit
together, so a tick is neither lost nor doubled when a process is killed. The job is a workflow, under an id made of its
tick: it takes as long as it likes without holding the next tick up, and it survives a crash too. ``@app.cron`` does the
same for cron expressions; this is for any period, and shows how it is done.

    python examples/distributed_cron.py

starts three workers, kills the one that runs the ticks, and checks the ticks.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

import holdfast as hf

app = hf.App("cron", limits=hf.Limits(sweep_seconds=1))  # how soon others miss a process that was killed


@app.step
async def work(schedule: str) -> str:
    """What is to be done."""
    return f"the {schedule} of now"


@app.workflow
async def job(schedule: str) -> str:
    return await work(schedule)


@dataclass(frozen=True)
class State:
    """When the next tick is due, how many there were, and which process ran the last."""

    next_tick: datetime | None
    ticks: int
    ran_by: int


class Cron(hf.Actor, app=app):
    """One schedule per key. A pause in which no process ran makes one late tick, not many."""

    every_ms: int = 0
    ticks: int = 0
    ran_by: int = 0

    async def schedule(self, every_ms: int) -> None:
        """Tick from now on. Every process may say so when it starts: only a change makes a difference."""
        if every_ms != self.every_ms:
            self.every_ms = every_ms
            self.tick.every(timedelta(milliseconds=every_ms))

    async def stop(self) -> None:
        """Tick no more."""
        self.every_ms = 0
        self.tick.cancel()

    @hf.timer
    async def tick(self) -> None:
        """Start the job of this tick. In its own method a timer's ``due_at`` is the time it fires for."""
        due = self.tick.due_at
        assert due is not None
        self.ticks, self.ran_by = self.ticks + 1, os.getpid()
        await job.start(self.key, id=f"{self.key} {due.isoformat()}", tags={"schedule": self.key})

    @hf.read
    async def state(self) -> State:
        return State(self.tick.due_at, self.ticks, self.ran_by)


# ── See it work ─────────────────────────────────────────────────────────────────────────────────────────────────────

EVERY_MS = 100
WORKERS = 3


async def more_ticks(count: int) -> State:
    """Wait for so many more."""
    enough = (await Cron.at("report").state()).ticks + count
    while (state := await Cron.at("report").state()).ticks < enough:
        await asyncio.sleep(0.05)
    return state


async def watch(workers: dict[int, asyncio.subprocess.Process]) -> None:
    await Cron.at("report").schedule(EVERY_MS)
    state = await more_ticks(10)
    print(f"{len(workers)} workers, {state.ticks} ticks, run by process {state.ran_by}: kill -9")
    workers[state.ran_by].kill()
    await workers.pop(state.ran_by).wait()

    state = await more_ticks(10)
    print(f"{state.ticks} ticks, now run by process {state.ran_by}")
    assert state.ran_by in workers, "the dead still work"
    await Cron.at("report").stop()
    for worker in workers.values():
        worker.send_signal(signal.SIGTERM)
    assert [await worker.wait() for worker in workers.values()] == [0] * len(workers)


async def check() -> None:
    """Every tick has run, at a time of its own, once."""
    jobs = (await app.executions("job", tags={"schedule": "report"}, limit=1_000, scan=True)).executions
    for each in jobs:
        assert await job.handle(each.id) == "the report of now"
    ticks = (await Cron.at("report").state()).ticks
    assert len(jobs) == ticks, f"{ticks} ticks, {len(jobs)} jobs"
    dues = sorted(datetime.fromisoformat(each.id.split()[1]) for each in jobs)
    steps = [(after - before) / timedelta(milliseconds=EVERY_MS) for before, after in pairwise(dues)]
    assert all(step >= 1 and step.is_integer() for step in steps), f"not a multiple of the period: {steps}"
    missed = round(sum(steps)) - len(steps)
    print(f"{ticks} ticks, {len(jobs)} jobs: each ran once; {missed} were skipped until the others took over")


async def story() -> None:
    environment = {**os.environ, "HOLDFAST_URL": app.home_url}
    command = (sys.executable, __file__, "work")
    started = [await asyncio.create_subprocess_exec(*command, env=environment) for _ in range(WORKERS)]
    try:
        async with app:  # only a client: the others do the work
            await watch({worker.pid: worker for worker in started})
    finally:
        for worker in started:
            if worker.returncode is None:
                worker.kill()
    async with app.worker():  # finishes what was begun when the others stopped
        await check()


def main() -> None:
    if sys.argv[1:] == ["work"]:
        app.run()
        return
    with tempfile.TemporaryDirectory() as folder:
        app.home_url = f"sqlite:///{folder}/cron.db"
        asyncio.run(story())


if __name__ == "__main__":
    main()
