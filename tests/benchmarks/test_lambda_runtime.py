"""`python -m benchmarks.lambda_runtime` runs and prints its table. Nothing here judges a time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.backends.aws import emulator, local
from tests.infra.tools import lacking

ROOT = Path(__file__).parents[2]


@pytest.mark.aws
@pytest.mark.torture
@pytest.mark.process
@pytest.mark.slow
def test_a_short_run_prints_every_function_with_its_ratios() -> None:
    if (lack := local.missing() or emulator.missing()) is not None:
        lacking("the benchmark of Lambda", lack)
    command = [sys.executable, "-m", "benchmarks.lambda_runtime", "--rounds", "1", "--warm", "2"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    head, *lines = run.stdout.splitlines()
    assert head.split() == ["cold", "least–most", "ratio", "processor", "ratio", "warm", "p99", "ratio"]
    assert len(lines) == 4
    (beside,) = [line.split() for line in lines if line.startswith("boto3")]
    assert beside.count("1.00") >= 3, "what the others are compared with"
