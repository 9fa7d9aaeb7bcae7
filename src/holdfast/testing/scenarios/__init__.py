"""Reference scenarios, one per feature: what a home, and the engine itself, must survive whatever happens.

``SCENARIOS`` run on any home. ``transactions.sql_scenarios`` makes those that need SQLite.
"""

from __future__ import annotations

from typing import Final

from holdfast.testing.scenarios import children, control, messages, sagas, steps, waits
from holdfast.testing.simulation import Scenario

SCENARIOS: Final[tuple[Scenario, ...]] = (
    *steps.SCENARIOS,
    *waits.SCENARIOS,
    *messages.SCENARIOS,
    *children.SCENARIOS,
    *sagas.SCENARIOS,
    *control.SCENARIOS,
)


def scenario(name: str) -> Scenario:
    """The scenario of this name."""
    return next(each for each in SCENARIOS if each.name == name)


__all__ = ["SCENARIOS", "scenario"]
