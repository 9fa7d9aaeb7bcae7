"""Reference scenarios, one per feature: what a home, and the engine itself, must survive whatever happens.

``SCENARIOS`` are of workflows, ``ACTOR_SCENARIOS`` of actors, ``EVENT_SCENARIOS`` of events, ``QUEUE_SCENARIOS`` of
queues, ``LIMIT_SCENARIOS`` of limits of calls, ``START_SCENARIOS`` of starts by key, ``DOCUMENT_SCENARIOS`` of
documents, ``STREAM_SCENARIOS`` of streams; all run on any home. ``SWARM_SCENARIOS`` are of what users and operators do
while others come late; they are for swarms. ``transactions.sql_scenarios`` makes those that need SQLite.
"""

from __future__ import annotations

from typing import Final

from tests.scenarios import (
    actors,
    children,
    control,
    deploys,
    documents,
    events,
    limits,
    mail,
    messages,
    moments,
    queues,
    redrives,
    reuse,
    sagas,
    starts,
    steps,
    streams,
    waits,
)

from holdfast.testing.simulation import Scenario

SCENARIOS: Final[tuple[Scenario, ...]] = (
    *steps.SCENARIOS,
    *waits.SCENARIOS,
    *messages.SCENARIOS,
    *children.SCENARIOS,
    *sagas.SCENARIOS,
    *control.SCENARIOS,
)

ACTOR_SCENARIOS: Final[tuple[Scenario, ...]] = (*actors.SCENARIOS, *mail.SCENARIOS, *redrives.SCENARIOS)

EVENT_SCENARIOS: Final[tuple[Scenario, ...]] = tuple(events.SCENARIOS)

DOCUMENT_SCENARIOS: Final[tuple[Scenario, ...]] = tuple(documents.SCENARIOS)

STREAM_SCENARIOS: Final[tuple[Scenario, ...]] = tuple(streams.SCENARIOS)

LIMIT_SCENARIOS: Final[tuple[Scenario, ...]] = tuple(limits.SCENARIOS)

START_SCENARIOS: Final[tuple[Scenario, ...]] = tuple(starts.SCENARIOS)

QUEUE_SCENARIOS: Final[tuple[Scenario, ...]] = tuple(queues.SCENARIOS)

SWARM_SCENARIOS: Final[tuple[Scenario, ...]] = (*reuse.SCENARIOS, *moments.SCENARIOS, *deploys.SCENARIOS)


def scenario(name: str) -> Scenario:
    """The scenario of this name."""
    of_models = (*SCENARIOS, *ACTOR_SCENARIOS, *EVENT_SCENARIOS)
    known = (*of_models, *DOCUMENT_SCENARIOS, *STREAM_SCENARIOS, *QUEUE_SCENARIOS, *START_SCENARIOS, *SWARM_SCENARIOS)
    known += LIMIT_SCENARIOS
    return next(each for each in known if each.name == name)


__all__ = [
    "ACTOR_SCENARIOS",
    "DOCUMENT_SCENARIOS",
    "EVENT_SCENARIOS",
    "LIMIT_SCENARIOS",
    "QUEUE_SCENARIOS",
    "SCENARIOS",
    "START_SCENARIOS",
    "STREAM_SCENARIOS",
    "SWARM_SCENARIOS",
    "scenario",
]
