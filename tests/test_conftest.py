"""The hook that runs `async def` tests really runs them: with fixtures, under Hypothesis, and to their failures."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

SAMPLE = """
import asyncio
import pytest
from hypothesis import given, strategies as st

@pytest.fixture
def three():
    return 3

async def test_runs(three):
    await asyncio.sleep(0)
    assert three == 3

async def test_can_fail(three):
    await asyncio.sleep(0)
    assert three == 4

@pytest.mark.parametrize("two", [2])
async def test_takes_parameters(two, three):
    assert two < three

@given(number=st.integers(0, 100))
async def test_examples_run(number):
    await asyncio.sleep(0)
    assert number >= 0

@given(number=st.integers(0, 100))
async def test_an_example_can_fail(number):
    await asyncio.sleep(0)
    assert number < 50

async def never():
    pass

async def test_forgotten_await():
    never()
"""


def test_async_tests_run_and_can_fail(tmp_path: Path) -> None:
    shutil.copy(Path(__file__).with_name("conftest.py"), tmp_path)
    (tmp_path / "test_sample.py").write_text(SAMPLE)
    options = ["-W", "error", "-p", "no:cacheprovider", "-rA", "--rootdir", str(tmp_path)]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *options], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    outcomes = {
        line.split()[1].rpartition("::")[2]: line.split()[0] for line in run.stdout.splitlines() if "::" in line
    }
    assert outcomes == {
        "test_runs": "PASSED",
        "test_can_fail": "FAILED",
        "test_takes_parameters[2]": "PASSED",
        "test_examples_run": "PASSED",
        "test_an_example_can_fail": "FAILED",
        "test_forgotten_await": "FAILED",
    }, run.stdout
