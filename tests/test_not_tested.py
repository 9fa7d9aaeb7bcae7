"""What a machine cannot test is told loudly, and where nothing may be left out it is a failure."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SAMPLES = ("tests/backends/aws/test_many.py", "tests/workflows/test_logging.py")


def run_without_tools(folder: Path, sample: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """As on a machine that has Python and nothing else."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_") and name != "PATH"}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", sample],
        cwd=ROOT,
        env=kept | {"PATH": str(folder), "HOLDFAST_TORTURE": "1"} | environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize("sample", SAMPLES)
def test_without_java_what_is_left_out_is_told(sample: str, tmp_path: Path) -> None:
    run = run_without_tools(tmp_path, sample)
    assert run.returncode in {0, 5}, run.stdout
    told = run.stdout[run.stdout.index("tests were skipped, for want of tools") :]
    assert "NOT TESTED: the home on AWS, on DynamoDB Local: Java is not installed" in told
    assert "apt-get install chromium default-jre-headless npm redis-server" in told


@pytest.mark.slow
@pytest.mark.parametrize("sample", SAMPLES)
def test_where_nothing_may_be_left_out_it_is_a_failure(sample: str, tmp_path: Path) -> None:
    run = run_without_tools(tmp_path, sample, HOLDFAST_SKIP_NOTHING="1")
    assert run.returncode == 1
    assert "HOLDFAST_SKIP_NOTHING is set, and it was skipped" in run.stdout
    assert "Java is not installed" in run.stdout


def test_ci_skips_nothing() -> None:
    script = (ROOT / ".ci" / "run").read_text()
    assert "export HOLDFAST_SKIP_NOTHING=1" in script
    assert all(f"command -v {tool}" in script for tool in ("java", "npm", "redis-server"))
