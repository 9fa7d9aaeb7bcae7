"""A small torture run: a few kills and zombies, one at every point. And runs with planted bugs, which must go red."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.torture.plants import PLANTS
from tests.torture.points import POINTS
from tests.torture.process import ROOT

pytestmark = [pytest.mark.process, pytest.mark.slow]


def torture(folder: Path, *options: str) -> tuple[int, dict[str, Any], str]:
    """The exit status, the report as data, and all that was printed."""
    report = folder / "report.json"
    command = [sys.executable, "-m", "tests.torture", "--quick", "--json", str(report), *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)
    text = done.stdout + done.stderr
    assert report.exists(), text
    return done.returncode, json.loads(report.read_text()), text


def test_killed_and_stopped_processes_keep_every_promise(tmp_path: Path) -> None:
    status, report, text = torture(tmp_path)
    assert status == 0, text
    counters = report["counters"]
    assert counters["kills at points"] >= 14
    assert counters["zombies that were fenced"] >= 2
    assert set(report["points"]) == set(POINTS)
    assert all(hits["kill"] + hits["stop"] for hits in report["points"].values()), text


@pytest.mark.torture
def test_where_nothing_happens_nothing_is_late(tmp_path: Path) -> None:
    status, _, text = torture(tmp_path, "--kills", "0", "--zombies", "0", "--executions", "150", "--rate", "30")
    assert status == 0, text


CAUGHT_BY = {
    "unfenced": {"journals_are_linear", "nothing_was_completed_twice"},
    "ack-early": {"no_promise_was_seen_broken"},
    "deaf": {"nothing_is_left_lying_about", "every_execution_ended"},
}


@pytest.mark.torture
@pytest.mark.parametrize("plant", PLANTS)
def test_a_planted_bug_is_found(tmp_path: Path, plant: str) -> None:
    status, report, text = torture(tmp_path, "--plant", plant, "--kills", "2", "--zombies", "6", "--healing", "4")
    assert status == 1, text
    assert CAUGHT_BY[plant] & report["complaints"].keys(), text
