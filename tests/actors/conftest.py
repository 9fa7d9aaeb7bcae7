"""The worlds that tests of actors run in."""

from __future__ import annotations

from tests.worlds import (
    app,
    errors_expected,
    eventually,
    fast,
    hangs_after_seconds,
    memory_world,
    no_complaints,
    reaches,
    sqlite_world,
    watchdog,
    world,
)

__all__ = [
    "app",
    "errors_expected",
    "eventually",
    "fast",
    "hangs_after_seconds",
    "memory_world",
    "no_complaints",
    "reaches",
    "sqlite_world",
    "watchdog",
    "world",
]
