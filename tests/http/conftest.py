"""The worlds that tests of HTTP run in."""

from __future__ import annotations

from tests.worlds import hangs_after_seconds, memory_world, no_complaints, watchdog, world

__all__ = ["hangs_after_seconds", "memory_world", "no_complaints", "watchdog", "world"]
