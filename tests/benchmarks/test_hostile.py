"""`python -m benchmarks.hostile` serves valid requests beside every attack. Nothing here judges a time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.process
@pytest.mark.slow
def test_a_short_run_prints_a_table_in_which_nobody_is_shut_out() -> None:
    command = [sys.executable, "-m", "benchmarks.hostile", "--seconds", "0.5"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    rows = [line.strip("| ").split("|") for line in run.stdout.splitlines() if line.startswith("| ")][1:]
    names = [row[0].strip() for row in rows]
    assert names == [
        "nothing",
        "1,005 silent connections",
        "100 slow bodies",
        "1,000 bad tokens with 4 MB",
        "100 hostile durations",
        "all of them",
    ]
    assert all(float(row[1].replace(",", "")) > 0 for row in rows), run.stdout
