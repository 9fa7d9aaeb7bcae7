"""The worlds that tests of the state patterns run in."""

from __future__ import annotations

from tests.worlds import (
    errors_expected,
    eventually,
    hangs_after_seconds,
    memory_world,
    no_complaints,
    sqlite_world,
    watchdog,
    world,
)

__all__ = [
    "errors_expected",
    "eventually",
    "hangs_after_seconds",
    "memory_world",
    "no_complaints",
    "sqlite_world",
    "watchdog",
    "world",
]
