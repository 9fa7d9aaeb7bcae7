"""The worlds that tests of moving house run in."""

from __future__ import annotations

from tests.worlds import errors_expected, eventually, hangs_after_seconds, no_complaints, reaches, watchdog

__all__ = ["errors_expected", "eventually", "hangs_after_seconds", "no_complaints", "reaches", "watchdog"]
