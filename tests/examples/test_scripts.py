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
HANGS_AFTER_SECONDS = 120


def test_there_are_examples_and_each_is_described():
    readme, page = (ROOT / "README.md").read_text(), (ROOT / "examples" / "README.md").read_text()
    assert len(SCRIPTS) >= 6
    for script in SCRIPTS:
        assert f"    python examples/{script.name}\n" in script.read_text()
        assert f"examples/{script.name}" in readme
        assert f"({script.name})" in page


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_it_runs(script: Path, tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:  # not below tmp_path, whose name may be too long for a socket's
        environment = {**os.environ, "TMPDIR": folder, "PYTHONWARNINGS": "error"}
        run = subprocess.run(
            [sys.executable, str(script)],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=HANGS_AFTER_SECONDS,
        )
        assert run.returncode == 0, run.stdout + run.stderr
        assert 3 <= len(run.stdout.splitlines()) <= 12
        assert not run.stderr
        assert not list(Path(folder).iterdir())
    assert not list(tmp_path.iterdir())
