"""The worlds of the comparisons: ours on the memory home and on a SQLite file, naive code on its own store."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from tests.compared.stage import Build, Schedule, play
from tests.sqlite_database import SqliteDatabase
from tests.worlds import errors_expected, hangs_after_seconds, no_complaints, watchdog

from holdfast.testing import MemoryDatabase

__all__ = ["compare", "errors_expected", "hangs_after_seconds", "no_complaints", "play_ours", "watchdog"]


@pytest.fixture
def compare(play_ours: Callable[..., Any]) -> Callable[..., Any]:
    """``compare(schedule, naive, ours)``: play the same schedule with both; answers what came of each."""

    def run(schedule: Schedule, naive: Build, ours: Build) -> tuple[Any, Any]:
        return play(schedule, naive), play_ours(schedule, ours)

    return run


@pytest.fixture(params=["memory", "sqlite"])
def play_ours(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Any]:
    """``play_ours(schedule, ours)``: play a schedule on a home of its own."""
    numbers = count()

    def run(schedule: Schedule, ours: Build) -> Any:
        if request.param == "memory":
            return play(schedule, ours, MemoryDatabase())
        (folder := tmp_path / f"{next(numbers)}").mkdir()
        return play(schedule, ours, SqliteDatabase(folder))

    return run
