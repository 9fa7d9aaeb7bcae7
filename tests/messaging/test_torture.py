"""A small torture run of events; and runs with planted bugs, which must go red."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.messaging.torture.points import PLANTS, POINTS
from tests.torture.process import ROOT

pytestmark = [pytest.mark.process, pytest.mark.slow]


def torture(folder: Path, *options: str) -> tuple[int, dict[str, Any], str]:
    """The exit status, the report as data, and all that was printed."""
    report = folder / "report.json"
    command = [sys.executable, "-m", "tests.messaging.torture", "--quick", "--json", str(report), *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)
    text = done.stdout + done.stderr
    assert report.exists(), text
    return done.returncode, json.loads(report.read_text()), text


def test_events_survive_the_death_of_their_relay_and_deliveries_that_arrive_twice(tmp_path: Path) -> None:
    status, report, text = torture(tmp_path)
    assert status == 0, text
    counters = report["counters"]
    assert counters["events published"] == counters["distinct events handled"] >= 200
    assert counters["kills at points"] >= 2 * len(POINTS)
    assert counters["deliveries that arrived twice"] > 0


@pytest.mark.torture
@pytest.mark.parametrize(("plant", "complaint"), [("mark first", r"lost \[\d"), ("no memory", r"applied twice \[\d")])
def test_a_planted_bug_is_found(tmp_path: Path, plant: str, complaint: str) -> None:
    assert plant in PLANTS
    status, report, text = torture(tmp_path, "--plant", plant)
    assert status == 1, text
    assert any(re.search(complaint, told) for told in report["complaints"]), text
