"""What type checkers know of users' code: decorators keep signatures, and mistakes are found (DESIGN §8)."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CASES = Path(__file__).parent / "cases"

pytestmark = pytest.mark.slow


def mypy(path: Path, cache: Path) -> dict[int, str]:
    """What mypy --strict says about a module, by line."""
    command = [
        sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={cache}",
        "--python-version=3.11", "--hide-error-context", "--no-error-summary", str(path),
    ]  # fmt: skip
    told = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=ROOT, env=os.environ | {"MYPYPATH": str(ROOT / "src")}
    )
    assert not told.stderr, told.stderr
    found = {}
    for line in told.stdout.splitlines():
        match = re.match(r"(.+?):(\d+): error: (.*)", line)
        if match and Path(match[1]).name == path.name:
            found.setdefault(int(match[2]), match[3])
        elif match:
            pytest.fail(f"mypy complains about our own code: {line}")
    return found


def pyright(path: Path, folder: Path) -> dict[int, str]:
    """What pyright says about a module in its strict mode, by line."""
    settings = {
        "include": [path.name],
        "extraPaths": [str(ROOT / "src")],
        "typeCheckingMode": "strict",
        "pythonVersion": "3.11",
        # About unused things, of which a sample is full.
        "reportUnusedFunction": False,
        "reportUnusedVariable": False,
        "reportUnusedCoroutine": False,
        "reportUnknownMemberType": False,
        "reportUnknownVariableType": False,
        "reportUnknownArgumentType": False,
    }
    (folder / path.name).write_text(path.read_text())  # it looks below its configuration only
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, "-p", str(folder)]
    environment = os.environ | {"PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    told = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=environment)
    report = json.loads(told.stdout)
    assert report["summary"]["filesAnalyzed"], told.stdout
    return {
        each["range"]["start"]["line"] + 1: each["message"]
        for each in reversed(report["generalDiagnostics"])
        if each["severity"] == "error"
    }


CHECKERS = {"mypy": mypy, "pyright": pyright}


def marked(path: Path, checker: str) -> set[int]:
    """The lines of a case that are wrong, and that this checker finds."""
    lines = enumerate(path.read_text().splitlines(), 1)
    return {number for number, line in lines if "# wrong" in line and f"but {checker}" not in line}


@pytest.fixture(scope="module", params=CHECKERS)
def check(request, tmp_path_factory):
    """``check(name)`` runs a checker on a case: what it found and should not have, and what it should have found."""
    folder = tmp_path_factory.mktemp(request.param)

    def run(name: str) -> tuple[dict[int, str], set[int]]:
        found = CHECKERS[request.param](CASES / name, folder)
        expected = marked(CASES / name, request.param)
        return {line: told for line, told in found.items() if line not in expected}, expected - found.keys()

    return run


@pytest.mark.parametrize("case", ["program", "mistakes", "start", "actors", "documents", "streams", "patterns"])
def test_mistakes_are_found_and_nothing_else(check, case):
    surplus, missed = check(f"{case}.py")
    assert surplus == {}
    assert missed == set()
