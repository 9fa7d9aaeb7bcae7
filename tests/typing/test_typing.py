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
        "include": [str(path)],
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


def marked(path: Path) -> set[int]:
    """The lines of a case that are wrong."""
    return {number for number, line in enumerate(path.read_text().splitlines(), 1) if line.endswith("# wrong")}


@pytest.fixture(scope="module", params=CHECKERS)
def check(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    return lambda name: CHECKERS[request.param](CASES / name, folder)


def test_a_program_as_users_write_it_is_well_typed(check):
    assert check("program.py") == {}


def test_mistakes_are_found_and_nothing_else(check):
    found = check("mistakes.py")
    expected = marked(CASES / "mistakes.py")
    assert found.keys() - expected == set(), {line: found[line] for line in found.keys() - expected}
    assert expected - found.keys() == set()


def test_starting_checks_its_arguments(check):
    found = check("start.py")
    expected = marked(CASES / "start.py")
    assert found.keys() - expected == set(), {line: found[line] for line in found.keys() - expected}
    assert expected - found.keys() == set()
