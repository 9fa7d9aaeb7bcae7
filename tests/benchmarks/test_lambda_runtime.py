"""`python -m benchmarks.lambda_runtime` runs and prints its table. Nothing here judges a time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.backends.aws.conftest import give_up_if
from tests.backends.aws.emulator import lacking
from tests.backends.aws.local import missing

ROOT = Path(__file__).parents[2]


@pytest.mark.aws
@pytest.mark.process
@pytest.mark.slow
def test_a_short_run_prints_every_function_with_its_ratios() -> None:
    give_up_if("the bench of Lambda", missing())
    give_up_if("the bench of Lambda", lacking())
    command = [sys.executable, "-m", "benchmarks.lambda_runtime", "--rounds", "1", "--warm", "2"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    head, *lines = run.stdout.splitlines()
    assert head.split() == ["cold", "least–most", "ratio", "processor", "ratio", "warm", "p99", "ratio"]
    assert len(lines) == 4
    (beside,) = [line.split() for line in lines if line.startswith("boto3")]
    assert beside.count("1.00") >= 3, "what the others are compared with"
