"""Compare two commits: ``python -m benchmarks.paired A B``.

Each figure is the cost of one operation: that of a long run less that of a short one, so that imports and openings do
not count. Processes of both commits take turns. Their processor time is read, which other work on the machine disturbs
less than a clock, and the ratio is taken of each pair. With ``--instructions`` valgrind counts instructions instead:
that is slow, repeats within a few percent on any machine, and needs one pair.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.paired_work import ROWS, TWO_WORKERS

ROOT = Path(__file__).parents[1]

Cost = Callable[[Sequence[str], dict[str, str]], float]
"""What a command costs in an environment, in the unit of the measure."""

COUNTER = ("valgrind", "--tool=cachegrind", "--cache-sim=no", "--branch-sim=no", "--cachegrind-out-file=/dev/null")
COUNTED = re.compile(r"I\s+refs:\s+([0-9,]+)")


@dataclass(frozen=True, slots=True)
class Measure:
    """A way to measure, its unit, and how many operations the short and the long run of it have."""

    cost: Cost
    unit: str
    short: int
    long: int


@dataclass(frozen=True, slots=True)
class Pairs:
    """The cost of one operation before and after, pair by pair."""

    before: list[float]
    after: list[float]

    @property
    def ratios(self) -> list[float]:
        """How many times as much work the commit after does for the same cost, by pair."""
        return [before / after for before, after in zip(self.before, self.after, strict=True)]

    def told(self, row: str, unit: str) -> str:
        """A line of the table."""
        before, after = statistics.median(self.before), statistics.median(self.after)
        ratios = self.ratios
        spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
        return f"{row:14}{before:10.1f}{after:10.1f} {unit:8}× {statistics.median(ratios):.2f} ({spread})"


def processor_us(command: Sequence[str], environment: dict[str, str]) -> float:
    """The processor time of a command and its children, in microseconds."""
    process = subprocess.Popen(command, cwd=ROOT, env=environment)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, command)
    return (used.ru_utime + used.ru_stime) * 1e6


def kilo_instructions(command: Sequence[str], environment: dict[str, str]) -> float:
    """How many thousand instructions of the user a command takes."""
    run = subprocess.run([*COUNTER, *command], cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    counted = COUNTED.search(run.stderr)
    assert counted is not None, run.stderr
    return int(counted[1].replace(",", "")) / 1000


PROCESSOR = Measure(processor_us, "µs", 500, 4_500)
INSTRUCTIONS = Measure(kilo_instructions, "k instr", 200, 800)


def sources(commit: str, folder: Path) -> Path:
    """The sources of a commit, unpacked; of the working tree for ``.``."""
    if commit == ".":
        return ROOT / "src"
    packed = subprocess.run(["git", "archive", commit, "src"], cwd=ROOT, capture_output=True, check=True).stdout
    place = folder / commit.replace("/", "-")
    place.mkdir()
    subprocess.run(["tar", "x"], cwd=place, input=packed, check=True)
    return place / "src"


def per_operation(row: str, src: Path, measure: Measure, folder: Path) -> float:
    """The cost of one operation of a row with these sources."""
    short, long = (_run(row, count, src, measure, folder) for count in (measure.short, measure.long))
    return (long - short) / (measure.long - measure.short)


def _run(row: str, count: int, src: Path, measure: Measure, folder: Path) -> float:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment |= {
        "PYTHONPATH": f"{src}{os.pathsep}{ROOT}",
        "PYTHONPYCACHEPREFIX": str(folder / "compiled"),
        "PYTHONHASHSEED": "0",
    }
    files = Path(tempfile.mkdtemp(dir=folder))
    try:
        command = [sys.executable, "-m", "benchmarks.paired_work", row, str(count), str(files)]
        return measure.cost(command, environment)
    finally:
        shutil.rmtree(files)


def compare(row: str, before: Path, after: Path, measure: Measure, pairs: int, folder: Path) -> Pairs:
    """Measure a row with two versions of the sources in turn; every other pair begins with the other one."""
    for src in (before, after):
        _run(row, 1, src, measure, folder)  # compiles what it imports
    costs: dict[bool, list[float]] = {True: [], False: []}
    for number in range(pairs):
        for is_after in (False, True) if number % 2 == 0 else (True, False):
            costs[is_after].append(per_operation(row, after if is_after else before, measure, folder))
    return Pairs(costs[False], costs[True])


def parse(arguments: list[str] | None) -> argparse.Namespace:
    rows = [*ROWS, TWO_WORKERS]
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.paired",
        description=__doc__,
        epilog="example: python -m benchmarks.paired main~20 . --row one-step-64 --row two-workers",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("before", metavar="A", help="a commit")
    parser.add_argument("after", metavar="B", help="a commit, or . for the files as they are")
    parser.add_argument("--row", action="append", choices=rows, help="only this row; can be given again")
    parser.add_argument("--pairs", type=int, default=7, help="how many pairs of processor times; 7 unless it is given")
    parser.add_argument("--instructions", action="store_true", help="count instructions, by valgrind, of one pair")
    options = parser.parse_args(arguments)
    if options.instructions and shutil.which(COUNTER[0]) is None:
        parser.error("--instructions needs valgrind: apt-get install valgrind, or leave it out")
    options.rows = options.row or (list(ROWS) if options.instructions else rows)  # valgrind follows no children
    if options.instructions and TWO_WORKERS in options.rows:
        parser.error(f"the instructions of two processes are not counted: leave {TWO_WORKERS} out")
    return options


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    measure, pairs = (INSTRUCTIONS, 1) if options.instructions else (PROCESSOR, options.pairs)
    folder = Path(tempfile.mkdtemp(prefix=".paired-", suffix=".tmp", dir=Path(__file__).parent))
    try:
        before, after = sources(options.before, folder), sources(options.after, folder)
        print(f"{'one operation':14}{'before':>10}{'after':>10} {'unit':8}before ÷ after, median (least to most)")
        for row in options.rows:
            print(compare(row, before, after, measure, pairs, folder).told(row, measure.unit), flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
