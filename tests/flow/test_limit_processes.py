"""Three workers on one file, killed and stopped at random: a ledger outside counts the calls that overlap, and begin.

A call whose process was stopped for longer than a loan may overlap with others, as the page says; it is not counted.
Every call that begins is. Run it for longer by ``python -m tests.flow.test_limit_processes JOBS``.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest
from tests.flow.crew import client, spawn

WORKER = Path(__file__).with_name("limit_worker.py")
PERMITS = 3
LOAN_SECONDS = 1.5
SPAN_SECONDS = 2.0
MOST_IN_SPAN = 40 + 4 - 1
JOBS = 90
PATIENCE_SECONDS = 300.0

pytestmark = pytest.mark.process


@dataclass
class Faults:
    """What was done to the processes: when each was killed, and from when to when each was stopped for long."""

    killed: dict[str, float] = field(default_factory=dict)
    stopped: list[tuple[str, float, float]] = field(default_factory=list)
    stops: int = 0

    def excuse(self, pid: str, began: float, now: float) -> bool:
        """Whether a call that began then does not run by a loan that lasts any more."""
        if self.killed.get(pid, now) < now:
            return True
        return any(of == pid and began < start + LOAN_SECONDS and start <= now for of, start, _ in self.stopped)


def most_at_once(lines: list[str], faults: Faults) -> int:
    """The most calls that ran at once when one began, by loans that last."""
    running, most = dict[tuple[str, str], float](), 0
    for line in lines:
        what, name, pid, at = line.split()
        if what == "end":
            running.pop((name, pid), None)
            continue
        running[name, pid] = now = float(at)
        most = max(most, 1 + sum(not faults.excuse(of, began, now) for (_, of), began in list(running.items())[:-1]))
    return most


def most_within(lines: list[str], seconds: float) -> int:
    """The most calls that began within a time."""
    began = sorted(float(line.split()[3]) for line in lines if line.startswith("begin"))
    return max(sum(start <= at < start + seconds for at in began) for start in began)


def test_the_ledger_counts_what_overlaps() -> None:
    lines = ["begin a 1 0.0", "begin b 2 0.1", "end a 1 0.2", "begin c 1 0.3", "begin d 3 9.0"]
    assert most_at_once(lines, Faults()) == 3
    assert most_at_once(lines, Faults(killed={"2": 0.2})) == 2
    assert most_at_once(lines, Faults(stopped=[("1", 0.5, 8.0), ("2", 0.5, 8.0)])) == 2
    assert most_within(lines, 0.3) == 2


async def play(folder: Path, jobs: int) -> tuple[list[str], Faults]:
    """Run the jobs under faults. What the ledger has, and what was done."""
    file, ledger = folder / "home.db", folder / "ledger"
    ledger.touch()
    app, rnd, faults = client(WORKER, file, ledger), Random(11), Faults()
    async with app:
        handles = [await app.registry.workflow("job").start(f"j{number}", id=f"j{number}") for number in range(jobs)]
        crew = [spawn(WORKER, file, ledger) for _ in range(3)]
        ends = asyncio.gather(*handles)
        try:
            async with asyncio.timeout(PATIENCE_SECONDS + jobs):
                while not ends.done():
                    await asyncio.wait((ends,), timeout=rnd.uniform(0.3, 1.0))
                    place = rnd.randrange(3)
                    if rnd.random() < 0.4:
                        crew[place].kill()
                        crew[place].wait()
                        faults.killed[str(crew[place].pid)] = time.monotonic()
                        crew[place] = spawn(WORKER, file, ledger)
                    else:
                        await stop(crew[place], rnd.choice((0.2, 0.6, 2 * LOAN_SECONDS)), faults, ends)
                assert await ends == [f"j{number}" for number in range(jobs)]
        finally:
            for process in crew:
                process.kill()
                process.wait()
    return ledger.read_text().splitlines(), faults


async def stop(process: subprocess.Popen[bytes], seconds: float, faults: Faults, ends: asyncio.Future[object]) -> None:
    """Stop a process for a while. Its loan is over if that is longer than one lasts."""
    began = time.monotonic()
    process.send_signal(signal.SIGSTOP)
    await asyncio.wait((ends,), timeout=seconds)
    faults.stops += 1
    if time.monotonic() - began > LOAN_SECONDS / 3:  # its last renewal may be this old
        faults.stopped.append((str(process.pid), began, time.monotonic()))
    process.send_signal(signal.SIGCONT)


async def test_no_more_than_the_permits_overlap_whoever_dies(tmp_path: Path) -> None:
    lines, faults = await play(tmp_path, JOBS)
    assert faults.killed and faults.stops, "faults that did not happen prove nothing"
    assert most_at_once(lines, faults) <= PERMITS
    assert most_within(lines, SPAN_SECONDS) <= MOST_IN_SPAN


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        told, done = asyncio.run(play(Path(place), int(sys.argv[1])))
    calls = sum(line.startswith("begin") for line in told)
    summary = (
        f"{calls} calls, {len(done.killed)} kill -9, {done.stops} SIGSTOP, {len(done.stopped)} of them long; at once "
        f"{most_at_once(told, done)} of {PERMITS}, within {SPAN_SECONDS:g} s {most_within(told, SPAN_SECONDS)}\n"
    )
    sys.stdout.write(summary)
