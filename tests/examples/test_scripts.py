"""Each example runs as the script that its docstring shows, tells a story, and leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted((ROOT / "examples").glob("*.py"))
HANGS_AFTER_SECONDS = 250
OF_A_SLOW_MACHINE = ("loop_stalled partition=", "Cron 'report' is waited for, and nobody works on it")
"""What is logged when something held the loop for a tenth of a second, and while the workers are still starting: here
that is the machine, not the script."""


def test_there_are_examples_and_each_is_described():
    readme, page = (ROOT / "README.md").read_text(), (ROOT / "examples" / "README.md").read_text()
    assert len(SCRIPTS) >= 6
    for script in SCRIPTS:
        assert f"    python examples/{script.name}\n" in script.read_text()
        assert f"examples/{script.name}" in readme
        assert f"({script.name})" in page


def test_the_shopping_cart_is_described_too():
    readme, page = (ROOT / "README.md").read_text(), (ROOT / "examples" / "README.md").read_text()
    assert "(examples/shopping_cart/)" in readme
    modules = sorted((ROOT / "examples" / "shopping_cart").glob("[a-z]*.py"))
    assert len(modules) > 10
    for module in modules:
        assert f"(shopping_cart/{module.name})" in page


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [*([str(script)] for script in SCRIPTS), ["-m", "examples.shopping_cart", "--demo"]],
    ids=lambda command: Path(command[-1]).stem if len(command) == 1 else "shopping_cart",
)
def test_it_runs(command: list[str], tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:  # not below tmp_path, whose name may be too long for a socket's
        environment = {**os.environ, "TMPDIR": folder, "PYTHONWARNINGS": "error", "PYTHONPATH": str(ROOT)}
        run = subprocess.run(
            [sys.executable, *command],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=HANGS_AFTER_SECONDS,
        )
        assert run.returncode == 0, run.stdout + run.stderr
        assert 3 <= len(run.stdout.splitlines()) <= 12
        told = [line for line in run.stderr.splitlines() if not line.startswith(OF_A_SLOW_MACHINE)]
        assert told == []
        assert not list(Path(folder).iterdir())
    assert not list(tmp_path.iterdir())
