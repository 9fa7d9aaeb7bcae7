"""Queues, with a crash, an outage, a lost or a late answer, or a zombie at each write: limits hold, and all ends."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
from tests.crash.stage import Stage
from tests.scenarios import QUEUE_SCENARIOS, scenario

from holdfast.testing import (
    MemoryDatabase,
    Scenario,
    crash_at_every_write,
    crash_twice,
    lag_at_every_write,
    pause_at_every_write,
)
from holdfast.testing.crashes import DELAYS

FENCED_AT_LEAST = 50
LONGER = [pytest.param(one, marks=pytest.mark.torture) for one in ("queued", "queued family", "churned")]


def name_of(each: Scenario) -> str:
    return each.name


def billed(each: Scenario) -> Scenario:
    """The scenario where each write is paid for: a place comes behind its head, and is deleted behind the decision."""
    return replace(each, database=partial(MemoryDatabase, billed=True))


@pytest.mark.parametrize("each", QUEUE_SCENARIOS, ids=name_of)
def test_a_crash_at_any_write_changes_nothing(each: Scenario, stage: Stage) -> None:
    stage.crash(each)


@pytest.mark.parametrize("name", ["tried again", "spaced", "purged", *LONGER])
def test_a_crash_at_any_write_changes_nothing_where_writes_are_paid(name: str, turning_stage: Stage) -> None:
    turning_stage.crash(billed(scenario(name)))


@pytest.mark.parametrize("name", ["tried again", "spaced", *LONGER])
def test_a_zombie_at_any_write_changes_nothing(name: str) -> None:
    report = pause_at_every_write(scenario(name))
    assert report.events["fenced"] >= FENCED_AT_LEAST, "zombies that never tried to write prove nothing"


@pytest.mark.parametrize("name", ["in line", *LONGER])
def test_a_process_that_hears_too_late_changes_nothing(name: str) -> None:
    assert lag_at_every_write(scenario(name)).events["fenced"] > 0


@pytest.mark.torture
@pytest.mark.parametrize("each", QUEUE_SCENARIOS, ids=name_of)
def test_a_slow_store_at_any_write_changes_nothing(each: Scenario) -> None:
    report = crash_at_every_write(each, DELAYS)
    assert report.points == len(DELAYS) * report.writes > 0


@pytest.mark.torture
@pytest.mark.parametrize("name", ["tried again", "in line"])
def test_a_second_crash_during_the_recovery_changes_nothing(name: str) -> None:
    assert crash_twice(scenario(name)).points > 0
