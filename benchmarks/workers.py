"""``python -m benchmarks.workers``: how many one-step workflows a second several processes do, on one file or one each.

A figure is that of a long run less a short one, so that imports do not count. The ways take turns, and the ratio is
that of each round to one process in the same round. ``processor`` is the processor time of one workflow in all
processes together: where it stays the same, processes do not stand in each other's way.

``one each`` is the most that a home of several files could gain, in which every entity has a file by its hash.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SHORT, LONG = 200, 2_000


@dataclass(frozen=True, slots=True)
class Way:
    """Some processes, on one file or on a file each."""

    processes: int
    files: int

    def __str__(self) -> str:
        return f"{self.processes} on {'one file' if self.files == 1 else 'a file each'}"


WAYS = (Way(1, 1), Way(2, 1), Way(2, 2), Way(4, 1), Way(4, 4))


def run(way: Way, each: int, row: str) -> tuple[float, float]:
    """Wall time and processor time in seconds, with ``each`` operations in every process."""
    with tempfile.TemporaryDirectory(prefix="holdfast-workers-") as folder:
        places = [Path(folder) / str(number % way.files) for number in range(way.processes)]
        for place in places:
            place.mkdir(exist_ok=True)
        before, began = os.times(), time.perf_counter()
        command = [sys.executable, "-m", "benchmarks.paired_work", row, str(each)]
        running = [subprocess.Popen([*command, str(place)]) for place in places]
        if max([process.wait() for process in running]):
            sys.exit(f"a process of {way} failed")
        after = os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return time.perf_counter() - began, used


def measured(way: Way, row: str) -> tuple[float, float]:
    """Operations a second, and the processor time of one in microseconds."""
    (short_s, short_used), (long_s, long_used) = run(way, SHORT, row), run(way, LONG, row)
    count = way.processes * (LONG - SHORT)
    return count / (long_s - short_s), (long_used - short_used) * 1e6 / count


def lines(row: str, rounds: int) -> Iterator[str]:
    """The table, after all rounds."""
    found: dict[Way, list[tuple[float, float]]] = {way: [] for way in WAYS}
    for _ in range(rounds):
        for way in WAYS:
            found[way].append(measured(way, row))
    for way, figures in found.items():
        ratios = [mine / one for (mine, _), (one, _) in zip(figures, found[WAYS[0]], strict=True)]
        each, used = (statistics.median(column) for column in zip(*figures, strict=True))
        spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
        yield (
            f"{way!s:20} {each:8.0f} /s   x {statistics.median(ratios):.2f} of one ({spread})   processor {used:.0f} us"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--row", default="one-step-64")
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} processors")
    for line in lines(asked.row, asked.rounds):
        print(line)


if __name__ == "__main__":
    main()
