"""The scenarios of workflows, actors and events, unchanged, on DynamoDB: each comes to the same as in memory.

Its pages are torn and its index lags behind; records of its stream come late, again, and in any order.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs
from tests.backends.aws import hostile
from tests.backends.aws.rough import RoughDatabase
from tests.backends.aws.streamed import StreamedDatabase
from tests.scenarios import (
    ACTOR_SCENARIOS,
    DOCUMENT_SCENARIOS,
    EVENT_SCENARIOS,
    SCENARIOS,
)

from holdfast.testing import Scenario, crash_at_every_write
from holdfast.testing.crashes import CRASHES
from holdfast.testing.hostile import Fault
from holdfast.testing.simulation import run_scenario
from holdfast.testing.world import MemoryDatabase

DAY_SECONDS = 86_400.0

ALL = [*SCENARIOS, *ACTOR_SCENARIOS, *EVENT_SCENARIOS, *DOCUMENT_SCENARIOS]
ON_A_FRESH_DATABASE = [each for each in ALL if each.database is MemoryDatabase]
CRASHED = ["sequential", "requests"]
COVERED = ["sequential", "requests", "sleeping", "awaited child", "timers", "events of an actor"]
LEFT = ["awaited child", pytest.param("events of an actor", marks=pytest.mark.torture)]
SWEEP_SECONDS = 600.0


def seldom(each: Scenario) -> Scenario:
    """Its sweeps once a day: in virtual time days pass, and each sweep is a few requests. Not if requests are refused:
    a worker that opens late hears no wake-up, and its first sweep may not see in the index what was to be woken.
    """
    if hostile.is_hostile():
        return sweeping(each)
    return replace(each, limits=structs.replace(each.limits, sweep_seconds=DAY_SECONDS, purge_seconds=DAY_SECONDS))


def sweeping(each: Scenario) -> Scenario:
    """Its sweeps are seldom, but what a dead process has left waits for one."""
    return replace(each, limits=structs.replace(each.limits, sweep_seconds=SWEEP_SECONDS, purge_seconds=DAY_SECONDS))


def on_dynamodb(each: Scenario, client: Any) -> Scenario:
    return replace(each, database=lambda: RoughDatabase(client), unsteady=hostile.is_hostile())


@pytest.mark.parametrize("each", ON_A_FRESH_DATABASE, ids=lambda each: each.name)
def test_a_scenario_comes_to_the_same_as_in_memory(each: Scenario, client: Any, dynamodb: str) -> None:
    expected = run_scenario(seldom(each), seed=1)
    found = run_scenario(on_dynamodb(seldom(each), client), seed=1)
    assert found.violations == []
    assert expected.observation.differences(found.observation, each.histories) == []


@pytest.mark.parametrize("name", CRASHED)
def test_a_crash_at_any_write_changes_nothing(name: str, client: Any, dynamodb: str) -> None:
    (each,) = [each for each in ALL if each.name == name]
    report = crash_at_every_write(on_dynamodb(sweeping(each), client))
    assert report.points == 4 * report.writes > 0


# ── Where the stream covers what is due ─────────────────────────────────────────────────────────────────────────────


def streamed(each: Scenario, client: Any, opened: list[StreamedDatabase]) -> Scenario:
    def database() -> StreamedDatabase:
        opened.append(StreamedDatabase(client))
        return opened[-1]

    return replace(each, database=database, unsteady=hostile.is_hostile())


@pytest.mark.parametrize("name", COVERED)
def test_a_scenario_comes_to_the_same_where_the_stream_covers_it(name: str, client: Any, dynamodb: str) -> None:
    (each,) = [each for each in ALL if each.name == name]
    expected = run_scenario(seldom(each), seed=1)
    found = run_scenario(streamed(seldom(each), client, []), seed=1)
    assert found.violations == []
    assert expected.observation.differences(found.observation, each.histories) == []


@pytest.mark.parametrize("name", LEFT)
def test_what_a_dead_process_left_is_found_by_the_stream(name: str, client: Any, dynamodb: str) -> None:
    (each,) = [each for each in ALL if each.name == name]
    opened: list[StreamedDatabase] = []
    report = crash_at_every_write(streamed(sweeping(each), client, opened), CRASHES)
    assert report.points == len(CRASHES) * report.writes > 0
    assert sum(each.kept for each in opened) > 0, "the stream has found nothing"
    faults = sum((each.disorder.faults for each in opened), Counter[Fault]())
    assert min(faults[Fault.RECORD_LATE], faults[Fault.RECORD_AGAIN]) > 0, "the stream was in order"
