"""What bodies ask for is loaded before the first of them runs.

A body that asks for something is where it would be imported first. An import that fails there is an error of the body,
which ends the execution for good: the files of the package are just being replaced, or no more can be opened (G13).
"""

from __future__ import annotations

from importlib import import_module
from typing import Final

ASKED_FOR: Final = (
    "definition",
    "handle",
    "history",
    "inline",
    "logging",
    "operations.batch",
    "operations.callback",
    "operations.code_changes",
    "operations.deterministic",
    "operations.live_state",
    "operations.map",
    "operations.new_run",
    "operations.signal",
    "operations.wait",
    "record",
    "saga",
    "scope",
    "status",
)


def load() -> None:
    """Load it, in a process that is going to run bodies."""
    for name in ASKED_FOR:
        import_module(f"holdfast.workflows.{name}")
