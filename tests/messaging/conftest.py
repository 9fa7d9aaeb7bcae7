"""The worlds that tests of messaging run in."""

from __future__ import annotations

from tests.workflows.conftest import errors_expected, eventually, no_complaints, sqlite_world, watchdog, world

__all__ = ["errors_expected", "eventually", "no_complaints", "sqlite_world", "watchdog", "world"]
