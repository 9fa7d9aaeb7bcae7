"""Actors in several real processes on one SQLite file."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.actors.counting import make

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.process, pytest.mark.slow]


async def start(path, callers):
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.actors.counting", str(path), str(callers), "10",
        cwd=ROOT, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip


async def test_increments_from_four_processes_all_count_once(tmp_path):
    path = tmp_path / "home.db"
    processes = [await start(path, callers) for callers in (13, 13, 12, 12)]
    for each in processes:
        assert await each.stdout.readline() == b"ready\n"
    outcomes = await asyncio.gather(*(each.communicate(b"go\n") for each in processes))
    replies = []
    for out, err in outcomes:
        assert not err, err.decode()
        replies += json.loads(out)
    assert sorted(replies) == list(range(1, 501))
    app, counter = make(str(path))
    async with app:
        assert await counter.at("one").get() == 500
        status = await app.actor("Counter", "one").status()
        assert (status.status, status.owner) == ("SUSPENDED", None)
        assert await app.actor("Counter", "one").messages() == ()


def test_a_bank_whose_workers_are_killed_loses_and_invents_no_money(tmp_path):
    report = tmp_path / "report.json"
    command = [sys.executable, "-m", "tests.actors.bank", "--quick", "--json", str(report)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    counters = json.loads(report.read_text())["counters"]
    assert counters["transfers acknowledged"] == 1_200
    assert counters["workers killed"] >= 5
    assert counters["requests sent again"] >= 240


@pytest.mark.torture
def test_a_bank_that_loses_money_is_found_out(tmp_path):
    report = tmp_path / "report.json"
    command = [sys.executable, "-m", "tests.actors.bank", "--quick", "--plant", "twice", "--json", str(report)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    complaints = json.loads(report.read_text())["complaints"]
    assert any("was applied" in each for each in complaints), complaints
