"""Reference scenarios, one per feature: what a home, and the engine itself, must survive whatever happens.

``SCENARIOS`` are of workflows, ``ACTOR_SCENARIOS`` of actors, ``EVENT_SCENARIOS`` of events,
``DOCUMENT_SCENARIOS`` of documents; all run on any home.
``transactions.sql_scenarios`` makes those that need SQLite.
"""

from __future__ import annotations

from typing import Final

from holdfast.testing.scenarios import actors, children, control, documents, events, mail, messages, sagas, steps, waits
from holdfast.testing.simulation import Scenario

SCENARIOS: Final[tuple[Scenario, ...]] = (
    *steps.SCENARIOS,
    *waits.SCENARIOS,
    *messages.SCENARIOS,
    *children.SCENARIOS,
    *sagas.SCENARIOS,
    *control.SCENARIOS,
)

ACTOR_SCENARIOS: Final[tuple[Scenario, ...]] = (*actors.SCENARIOS, *mail.SCENARIOS)

EVENT_SCENARIOS: Final[tuple[Scenario, ...]] = tuple(events.SCENARIOS)

DOCUMENT_SCENARIOS: Final[tuple[Scenario, ...]] = tuple(documents.SCENARIOS)


def scenario(name: str) -> Scenario:
    """The scenario of this name."""
    return next(
        each for each in (*SCENARIOS, *ACTOR_SCENARIOS, *EVENT_SCENARIOS, *DOCUMENT_SCENARIOS) if each.name == name
    )


__all__ = ["ACTOR_SCENARIOS", "DOCUMENT_SCENARIOS", "EVENT_SCENARIOS", "SCENARIOS", "scenario"]
