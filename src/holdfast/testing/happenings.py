"""What users and operators do in a swarm, next to the faults. It is counted, because an action that never happened
proves nothing.
"""

from __future__ import annotations

from collections import Counter
from enum import StrEnum


class Happening(StrEnum):
    """What is counted, as a report names it."""

    REUSED = "ids used again"
    EXPIRED = "executions expired"
    CODE_CHANGED = "processes with other code"
    BLOCKED = "times blocked"
    CANCELLED = "cancels"


def require(minimum: int, happened: Counter[Happening]) -> None:
    """Fail unless each of them has happened at least ``minimum`` times."""
    rare = [f"{happened[each]} {each}" for each in Happening if happened[each] < minimum]
    if rare:
        raise AssertionError(f"each was to happen at least {minimum} times, but: {', '.join(rare)}: nothing was proven")


def told(happened: Counter[Happening]) -> str:
    """For a report."""
    return ", ".join(f"{happened[each]} {each}" for each in Happening)
