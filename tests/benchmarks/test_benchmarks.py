"""`python -m benchmarks` runs, prints a table and writes its results. Nothing here judges a time."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pytest
from benchmarks import groups
from tests.backends.aws.local import missing
from tests.infra.tools import lacking

ROOT = Path(__file__).parents[2]


def benchmarks(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.process
@pytest.mark.slow
def test_a_quick_run_prints_a_table_and_writes_valid_json(tmp_path: Path) -> None:
    output = tmp_path / "results.json"
    run = benchmarks(
        "--quick", "--no-peers", "--only", "commits", "--only", "recovery-in-step", "--output", str(output)
    )
    assert run.returncode == 0, run.stderr
    results = json.loads(output.read_text(encoding="utf-8"))
    assert results["quick"]
    assert results["peers"] == []
    assert {"date", "commit", "machine", "python", "sqlite", "fsync"} <= results.keys()
    rows = {row["name"]: row for row in results["rows"]}
    assert len(rows) == 4
    for name, row in rows.items():
        assert name in run.stdout
        assert row["ours"] > 0
        assert row["peers"] == {}
        assert row["ratio"] is None
    assert rows["commits per one-step workflow"]["ours"] == 2
    assert rows["commits per workflow of 100 sequential steps"]["ours"] == 101


def test_every_case_is_listed() -> None:
    listed = benchmarks("--list").stdout.split()
    assert {"one-step-64", "sequential", "recovery-asleep", "replay"} <= set(listed)
    assert {"asl-checkouts", "asl-cold", "asl-map", "asl-loop", "asl-cost"} <= set(listed)
    of_aws = {"aws-one-step", "aws-ten-steps", "aws-parallel", "aws-wait", "aws-idempotency"}
    assert of_aws | {"aws-cold-workflow", "aws-cold-idempotent"} <= set(listed)


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.aws
@pytest.mark.torture
def test_what_is_asked_of_dynamodb_is_counted_and_the_same_in_every_run(tmp_path: Path) -> None:
    if (lack := missing()) is not None:
        lacking("the benchmarks on DynamoDB", lack)
    output = tmp_path / "results.json"
    cases = ("--only", "aws-idempotency", "--only", "aws-parallel", "--only", "aws-cold-idempotent")
    run = benchmarks("--quick", "--no-peers", "--rounds", "1", *cases, "--output", str(output))
    assert run.returncode == 0, run.stderr
    rows = {row["name"]: row["ours"] for row in json.loads(output.read_text(encoding="utf-8"))["rows"]}
    assert rows["requests of a call"] == rows["requests of a call by our layer"] == 2
    assert rows["requests of a repeat"] == rows["requests of a repeat by our layer"] == 1
    assert rows["write units of a call"] == 2
    assert rows["workflow of ten parallel steps, requests"] == 2  # its start; ten results and its end together
    assert rows["modules of the idempotent one"] < rows["modules after its first call"]


def test_an_unknown_name_is_an_error() -> None:
    run = benchmarks("--quick", "--no-peers", "--only", "no-such-case")
    assert run.returncode == 2
    assert "--list" in run.stderr


@pytest.mark.process
@pytest.mark.slow
def test_what_a_state_machine_costs_is_counted_and_stands_beside_the_list_price(tmp_path: Path) -> None:
    output = tmp_path / "results.json"
    run = benchmarks("--quick", "--no-peers", "--only", "asl-cost", "--only", "asl-map", "--output", str(output))
    assert run.returncode == 0, run.stderr
    rows = {row["name"]: row["ours"] for row in json.loads(output.read_text(encoding="utf-8"))["rows"]}
    assert rows["requests of the store for a checkout"] == 5
    assert rows["the same on Step Functions, list price"] == 150  # four states, start and end: six transitions
    assert rows["list price over ours"] == 150 / rows["a million checkouts on AWS"]
    assert rows["Map of 1,000 items, a task each"] > 0


def test_each_bare_loop_runs_on_an_event_loop_which_the_store_needs() -> None:
    modules = [import_module(f"benchmarks.groups.{each.name}") for each in iter_modules(groups.__path__)]
    bare = [each for module in modules for name, each in vars(module).items() if re.match(r"bare(_|$)", name)]
    loops = [each for each in bare if inspect.isfunction(each)]
    assert len(loops) >= 5
    assert all(map(inspect.iscoroutinefunction, loops))
