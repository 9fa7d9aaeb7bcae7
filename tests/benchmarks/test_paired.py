"""`python -m benchmarks.paired` compares two commits. Nothing here judges a time."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks import paired
from benchmarks.paired import Measure, Pairs, compare, parse, per_operation
from benchmarks.paired_work import ROWS, TWO_WORKERS

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src"


def test_what_a_process_costs_before_its_work_does_not_count(tmp_path: Path) -> None:
    seen: list[int] = []

    def cost(command, environment):
        seen.append(int(command[-2]))
        assert environment["PYTHONPATH"].split(":")[0] == str(SRC)
        return 1_000 + 7 * seen[-1]

    assert per_operation("one-step-64", SRC, Measure(cost, "µs", 10, 30), tmp_path) == 7
    assert seen == [10, 30]
    assert not list(tmp_path.iterdir())


def test_pairs_take_turns_and_the_ratio_is_that_of_each_pair(tmp_path: Path) -> None:
    order: list[str] = []

    def cost(command, environment):
        order.append("after" if "after" in environment["PYTHONPATH"] else "before")
        return int(command[-2]) * (3 if order[-1] == "after" else 6)

    measured = compare("start", tmp_path / "before", tmp_path / "after", Measure(cost, "µs", 1, 2), 2, tmp_path)
    assert order[2:] == ["before"] * 2 + ["after"] * 4 + ["before"] * 2
    assert measured == Pairs([6, 6], [3, 3])
    assert measured.ratios == [2, 2]
    assert measured.told("start", "µs") == "start                6.0       3.0 µs      × 2.00 (2.00 to 2.00)"


def test_counted_instructions_are_read_from_what_valgrind_says(monkeypatch, tmp_path: Path) -> None:
    counter = tmp_path / "valgrind"
    counter.write_text('#!/bin/sh\necho "==7== I   refs:      1,234,000" >&2\n')
    counter.chmod(0o755)
    monkeypatch.setattr(paired, "COUNTER", (str(counter),))
    assert paired.kilo_instructions(["true"], {}) == 1234


def test_rows_are_chosen_and_what_cannot_be_counted_is_refused(monkeypatch, capsys) -> None:
    monkeypatch.setattr(paired.shutil, "which", lambda _: "/usr/bin/valgrind")
    assert parse(["A", "B"]).rows == [*ROWS, TWO_WORKERS]
    assert parse(["A", "B", "--instructions"]).rows == list(ROWS)
    assert parse(["A", "B", "--row", "calls"]).rows == ["calls"]
    with pytest.raises(SystemExit):
        parse(["A", "B", "--instructions", "--row", TWO_WORKERS])
    monkeypatch.setattr(paired.shutil, "which", lambda _: None)
    with pytest.raises(SystemExit):
        parse(["A", "B", "--instructions"])
    assert "apt-get install valgrind" in capsys.readouterr().err


@pytest.mark.process
@pytest.mark.slow
def test_every_row_runs(tmp_path: Path) -> None:
    for row in (*ROWS, TWO_WORKERS):
        assert paired._run(row, 4, SRC, paired.PROCESSOR, tmp_path) > 0
    assert [each.name for each in tmp_path.iterdir()] == ["compiled"]


@pytest.mark.process
def test_work_that_fails_is_told(tmp_path: Path) -> None:
    with pytest.raises(paired.subprocess.CalledProcessError):
        paired._run("no such row", 1, SRC, paired.PROCESSOR, tmp_path)


def test_the_sources_of_the_working_tree_and_of_a_commit(tmp_path: Path) -> None:
    assert paired.sources(".", tmp_path) == SRC
    assert (paired.sources("HEAD", tmp_path) / "holdfast" / "__init__.py").is_file()
