"""Actors whose owners let go of them with their commits, as on AWS: a crash, or a zombie, at each of their writes."""

from __future__ import annotations

import pytest
from tests.crash.stage import Stage
from tests.scenarios import ACTOR_SCENARIOS

from holdfast.testing import (
    Scenario,
    lag_at_every_write,
    pause_at_every_write,
    run_swarm,
)

SWARM_SEEDS = 40
FENCED_AT_LEAST = 100


pytestmark = pytest.mark.usefixtures("billed")


@pytest.mark.parametrize("each", ACTOR_SCENARIOS, ids=str)
def test_a_crash_at_any_write_changes_nothing(each: Scenario, turning_stage: Stage) -> None:
    turning_stage.crash(each)


def test_zombies_and_laggards_change_nothing_and_are_fenced(memory_stage: Stage) -> None:
    played = memory_stage.some(ACTOR_SCENARIOS)
    reports = [run(each) for each in played for run in (pause_at_every_write, lag_at_every_write)]
    fenced = sum(report.events["fenced"] for report in reports)
    print(f"{sum(report.points for report in reports)} came late, {fenced} were fenced")
    assert fenced >= memory_stage.at_least(FENCED_AT_LEAST)


def test_a_swarm_comes_to_the_end_it_comes_to_undisturbed() -> None:
    report = run_swarm(ACTOR_SCENARIOS, range(SWARM_SEEDS))
    assert report.events["fenced"] >= SWARM_SEEDS // 2
