"""The charts of ``docs/performance.md``: ``python -m benchmarks.charts``, on a machine with nothing else to do.

Each point is a median of rounds, in processes of their own on fresh files. The bar through it goes from the least to
the most. Ours and the bare loop take turns. It writes ``docs/performance/*.svg``, and the numbers beside them.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks import machine
from benchmarks.svg import Chart, Point, drawn

ROOT = Path(__file__).parents[1]
OUTPUT = ROOT / "docs" / "performance"
OURS, BARE = "Holdfast", "bare loop"
LANES = (1, 4, 16, 64, 256, 512, 2_048)
STEPS = ([100, 10], [1_000, 2], [5_000, 1], [10_000, 1], [20_000, 1])
STORED = (1_000, 10_000, 100_000, 1_000_000)
BYTES = (100, 1_000, 10_000, 60_000)
AT_A_TIME = 64

Curves = dict[str, dict[float, list[float]]]
"""The samples of each line, by their place on the axis."""


def measured(group: str, function: str, folder: Path, **params: Any) -> dict[str, float]:
    """The values of one measurement, in a process of its own on a fresh file."""
    place = Path(tempfile.mkdtemp(dir=folder))
    words = [group, function, json.dumps({**params, "folder": str(place)})]
    try:
        told = subprocess.run(
            [sys.executable, "-m", "benchmarks.run_ours", *words], cwd=ROOT, check=True, stdout=subprocess.PIPE
        )
    finally:
        shutil.rmtree(place)
    values: dict[str, float] = json.loads(told.stdout.splitlines()[-1])["values"]
    return values


def by_concurrency(folder: Path, share: float) -> Curves:
    """One-step workflows a second, so many at a time."""
    found: Curves = {OURS: {}, BARE: {}}
    for lanes in LANES:
        count = max(int(share * (1_500 if lanes < AT_A_TIME else 8_000)), 1)
        options: dict[str, Any] = {"concurrency": lanes, "count": count}
        found[OURS][lanes] = [measured("curves", "begun", folder, **options)["ours"]]
        found[BARE][lanes] = [measured("curves", "bare", folder, **options)["bare"]]
    return found


def by_steps(folder: Path, share: float) -> Curves:
    """Steps a second of one workflow with so many."""
    sizes = [[max(int(size * share), 10), times] for size, times in STEPS]
    values = measured("steps", "sequential", folder, sizes=sizes)
    return {OURS: {size: [values[f"steps_s_{size}"]] for size, _ in sizes}}


def by_stored(folder: Path, share: float) -> Curves:
    """One-step workflows a second in a file with so many executions."""
    sizes = [max(int(size * share), 1) for size in STORED]
    values = measured("curves", "stored", folder, sizes=sizes, concurrency=AT_A_TIME, count=int(4_000 * share) or 1)
    return {OURS: {size: [values[str(size)]] for size in sizes}}


def by_payload(folder: Path, share: float) -> Curves:
    """Workflows a second that carry so many bytes."""
    values = measured("curves", "payload", folder, sizes=BYTES, concurrency=AT_A_TIME, count=int(1_500 * share) or 1)
    return {OURS: {size: [values[str(size)]] for size in BYTES}}


CHARTS = {
    "concurrency": (by_concurrency, "One-step workflows a second", "workflows at a time", True),
    "steps": (by_steps, "Steps a second, one after another", "steps in the journal", False),
    "stored": (by_stored, f"One-step workflows a second, {AT_A_TIME} at a time", "executions in the file", False),
    "payload": (by_payload, f"One-step workflows a second, {AT_A_TIME} at a time", "bytes of the payload", True),
}


def chart_of(name: str, samples: Curves, note: str = "") -> Chart:
    """The chart of what was measured, with a note of how."""
    _, title, x_title, by_powers = CHARTS[name]
    lines = {
        line: [Point(x, statistics.median(ys), min(ys), max(ys)) for x, ys in sorted(found.items())]
        for line, found in samples.items()
    }
    return Chart(title, x_title, "a second", lines, by_powers, note)


def add(to: Curves, more: Curves) -> None:
    """Take in what another round has yielded."""
    for line, found in more.items():
        for x, ys in found.items():
            to.setdefault(line, {}).setdefault(x, []).extend(ys)


@contextmanager
def work_folder() -> Iterator[Path]:
    """A folder next to this file: on a disk, not in memory."""
    folder = Path(tempfile.mkdtemp(prefix=".charts-", suffix=".tmp", dir=Path(__file__).parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.charts", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="how often each point is measured; 3 unless it is given")
    parser.add_argument("--only", action="append", choices=list(CHARTS), help="only this chart; can be given again")
    parser.add_argument("--share", type=float, default=1.0, help="this part of the work: to try it")
    parser.add_argument("--output", type=Path, default=OUTPUT, metavar="FOLDER", help="docs/performance unless given")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    options.output.mkdir(exist_ok=True)
    names = options.only or list(CHARTS)
    samples: dict[str, Curves] = {name: {} for name in names}
    with work_folder() as folder:
        noise = {"sync_us": [round(machine.sync_us(folder))], "load": [machine.load()]}
        for number in range(1, options.rounds + 1):
            for name in names:
                print(f"round {number} of {options.rounds}: {name}", file=sys.stderr, flush=True)
                add(samples[name], CHARTS[name][0](folder, options.share))
        noise["sync_us"].append(round(machine.sync_us(folder)))
        noise["load"].append(machine.load())
    described = machine.described()
    note = f"{described['date'][:10]}, rounds: {options.rounds}, load: {noise['load'][0]}"
    for name in names:
        (options.output / f"{name}.svg").write_text(drawn(chart_of(name, samples[name], note)), encoding="utf-8")
        content = {**described, "share": options.share, "noise": noise, "samples": samples[name]}
        (options.output / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
