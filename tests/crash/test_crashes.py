"""Every scenario, with a crash, an outage, a lost or a late answer, or a zombie at each write: nothing may differ."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.crash.stage import Stage
from tests.scenarios import SCENARIOS, scenario
from tests.scenarios.transactions import sql_scenarios

from holdfast.testing import (
    Scenario,
    crash_at_every_write,
    crash_twice,
    lag_at_every_write,
)
from holdfast.testing.crashes import DELAYS

TWICE = [
    "sequential",
    "callback",
    *(pytest.param(one, marks=pytest.mark.torture) for one in ("parallel", "sleeping", "compensated", "failing child")),
]
FENCED_AT_LEAST = 200


def name_of(each: Scenario) -> str:
    return each.name


@pytest.mark.parametrize("each", SCENARIOS, ids=name_of)
def test_a_crash_at_any_write_changes_nothing(each: Scenario, stage: Stage) -> None:
    stage.crash(each)


@pytest.mark.parametrize("name", TWICE)
def test_a_second_crash_during_the_recovery_changes_nothing(name: str, patient_stage: Stage) -> None:
    assert crash_twice(patient_stage.on(scenario(name))).points > 0


def test_a_zombie_at_any_write_changes_nothing_and_is_fenced(sampled_stage: Stage) -> None:
    fenced = points = 0
    for each in sampled_stage.some(SCENARIOS):
        report = sampled_stage.pause(each)
        points += report.points
        fenced += report.events["fenced"]
    print(f"{points} zombies came back, {fenced} were fenced")
    assert fenced >= sampled_stage.at_least(FENCED_AT_LEAST), "zombies that never tried to write prove nothing"


@pytest.mark.parametrize("each", [each for each in SCENARIOS if not each.effects_depend_on_time], ids=name_of)
def test_a_slow_store_at_any_write_changes_nothing(each: Scenario, turning_stage: Stage) -> None:
    replace(turning_stage, faults=DELAYS).crash(each)


def test_a_process_that_hears_too_late_from_any_write_on_changes_nothing_and_is_fenced(sampled_stage: Stage) -> None:
    fenced = points = 0
    for each in sampled_stage.some(SCENARIOS):
        report = lag_at_every_write(each)
        points += report.points
        fenced += report.events["fenced"]
    print(f"{points} processes heard too late, {fenced} were fenced")
    assert fenced >= sampled_stage.at_least(FENCED_AT_LEAST), "processes that never tried to write prove nothing"


def test_a_crash_at_any_write_of_a_transactional_step_changes_nothing(tmp_path: Path) -> None:
    for each in sql_scenarios(tmp_path):
        assert crash_at_every_write(each).points > 0
