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


NAMES = ["program", "mistakes", "start", "actors", "documents", "streams", "patterns"]

Told = dict[str, dict[int, str]]
"""The first complaint about each line of each case."""


def mypy(paths: list[Path], cache: Path) -> Told:
    """What mypy --strict says about modules, by line."""
    command = [
        sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={cache}",
        "--python-version=3.11", "--hide-error-context", "--no-error-summary", *map(str, paths),
    ]  # fmt: skip
    told = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=ROOT, env=os.environ | {"MYPYPATH": str(ROOT / "src")}
    )
    assert not told.stderr, told.stderr
    found: Told = {path.name: {} for path in paths}
    for line in told.stdout.splitlines():
        match = re.match(r"(.+?):(\d+): error: (.*)", line)
        if match and Path(match[1]).name in found:
            found[Path(match[1]).name].setdefault(int(match[2]), match[3])
        elif match:
            pytest.fail(f"mypy complains about our own code: {line}")
    return found


def pyright(paths: list[Path], folder: Path) -> Told:
    """What pyright says about modules in its strict mode, by line."""
    settings = {
        "include": [path.name for path in paths],
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
    for path in paths:
        (folder / path.name).write_text(path.read_text())  # it looks below its configuration only
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, "-p", str(folder)]
    environment = os.environ | {"PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    told = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=environment)
    report = json.loads(told.stdout)
    assert report["summary"]["filesAnalyzed"] == len(paths), told.stdout
    found: Told = {path.name: {} for path in paths}
    for each in report["generalDiagnostics"]:
        if each["severity"] == "error":
            found[Path(each["file"]).name].setdefault(each["range"]["start"]["line"] + 1, each["message"])
    return found


CHECKERS = {"mypy": mypy, "pyright": pyright}


def marked(path: Path, checker: str) -> set[int]:
    """The lines of a case that are wrong, and that this checker finds."""
    lines = enumerate(path.read_text().splitlines(), 1)
    return {number for number, line in lines if "# wrong" in line and f"but {checker}" not in line}


@pytest.fixture(scope="module", params=CHECKERS)
def check(request, tmp_path_factory):
    """``check(name)``: what a checker found in a case and should not have, and what it should have found. It looks at
    all cases at once, because it reads the whole library first.
    """
    told = CHECKERS[request.param]([CASES / f"{name}.py" for name in NAMES], tmp_path_factory.mktemp(request.param))

    def look(name: str) -> tuple[dict[int, str], set[int]]:
        found, expected = told[name], marked(CASES / name, request.param)
        return {line: what for line, what in found.items() if line not in expected}, expected - found.keys()

    return look


@pytest.mark.parametrize("case", NAMES)
def test_mistakes_are_found_and_nothing_else(check, case):
    surplus, missed = check(f"{case}.py")
    assert surplus == {}
    assert missed == set()


def test_every_case_is_checked():
    assert sorted(NAMES) == sorted(path.stem for path in CASES.glob("*.py"))
