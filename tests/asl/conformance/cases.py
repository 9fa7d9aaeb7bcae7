"""Case files: JSON lists of cases, each with a kind. A folder is read whole, and nothing in it is skipped."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Case = dict[str, Any]
Differences = list[str]

Check = Callable[[Case], Differences]
"""Runs a case and says how it differs from what is expected; an empty list means that it passes."""


@dataclass(frozen=True)
class Outcome:
    """What became of a case."""

    case: Case
    differences: Differences

    @property
    def name(self) -> str:
        return str(self.case.get("name", "?"))


def cases_in(folder: Path) -> Iterator[Case]:
    """All cases below a folder, file by file."""
    for file in sorted(folder.rglob("*.json")):
        read = json.loads(file.read_text(encoding="utf-8"))
        yield from _with_mocks(read if isinstance(read, list) else read["cases"])


def _with_mocks(cases: list[Case]) -> list[Case]:
    """The cases; one that looks at a recorded execution by another call gets the interactions of that execution."""
    recorded = {_test_of(case): case["task_mocks"] for case in cases if "task_mocks" in case}
    return [
        {**case, "task_mocks": recorded[_test_of(case)]}
        if case.get("needs_mocks") and "task_mocks" not in case and _test_of(case) in recorded
        else case
        for case in cases
    ]


def _test_of(case: Case) -> str:
    return str(case.get("name")).rpartition("::")[0]
