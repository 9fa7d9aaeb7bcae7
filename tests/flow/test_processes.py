"""Three workers on one file, killed and stopped at random: a ledger outside counts how many jobs overlap."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from random import Random

import pytest
from tests.flow.crew import client, spawn

WORKER = Path(__file__).with_name("worker.py")
LIMIT = 3
JOBS = 90
PATIENCE_SECONDS = 300.0

pytestmark = pytest.mark.process


def overlap(lines: list[str]) -> int:
    """How many jobs had begun at once and had not ended. What is repeated of one after a crash is the same job."""
    begun, ended, most = set[str](), set[str](), 0
    for line in lines:
        what, name = line.split()
        (begun if what == "begin" else ended).add(name)
        most = max(most, len(begun - ended))
    return most


def test_the_ledger_counts_what_overlaps() -> None:
    assert overlap(["begin a", "begin b", "begin a", "end a", "begin c", "end c", "end b"]) == 2


async def test_no_more_than_the_limit_overlap_whoever_dies(tmp_path: Path) -> None:
    file, ledger = tmp_path / "home.db", tmp_path / "ledger"
    ledger.touch()
    app = client(WORKER, file, ledger)
    rnd, killed, stopped = Random(7), 0, 0
    async with app:
        handles = [await app.registry.workflow("job").start(f"j{number}", id=f"j{number}") for number in range(JOBS)]
        crew = [spawn(WORKER, file, ledger) for _ in range(3)]
        ends = asyncio.gather(*handles)
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not ends.done():
                    await asyncio.wait((ends,), timeout=rnd.uniform(0.3, 1.0))
                    place = rnd.randrange(3)
                    if rnd.random() < 0.5:
                        crew[place].kill()
                        crew[place].wait()
                        crew[place] = spawn(WORKER, file, ledger)
                        killed += 1
                    else:
                        crew[place].send_signal(signal.SIGSTOP)
                        await asyncio.wait((ends,), timeout=rnd.uniform(0.2, 2.5))
                        crew[place].send_signal(signal.SIGCONT)
                        stopped += 1
                assert await ends == [f"j{number}" for number in range(JOBS)]
        finally:
            for process in crew:
                process.kill()
                process.wait()
    lines = ledger.read_text().splitlines()
    assert killed and stopped, "faults that did not happen prove nothing"
    assert overlap(lines) <= LIMIT
