"""Starts by key, with a crash, an outage, a lost answer or a zombie at each write."""

from __future__ import annotations

import pytest
from tests.crash.stage import Stage
from tests.scenarios import START_SCENARIOS

from holdfast.testing import Scenario, pause_at_every_write, run_scenario, run_swarm

SWARM_SEEDS = 30
FENCED_AT_LEAST = 10


@pytest.mark.parametrize("each", START_SCENARIOS, ids=str)
def test_a_crash_at_any_write_loses_and_repeats_nothing(each: Scenario, stage: Stage) -> None:
    stage.crash(each)


def test_a_zombie_at_any_write_changes_nothing_and_is_fenced() -> None:
    fenced = sum(pause_at_every_write(each).events["fenced"] for each in START_SCENARIOS)
    assert fenced >= FENCED_AT_LEAST, "zombies that never tried to write prove nothing"


def test_a_swarm_of_them_comes_to_a_good_end() -> None:
    report = run_swarm(START_SCENARIOS, range(SWARM_SEEDS))
    assert report.events["fenced"] >= SWARM_SEEDS / 5, "processes that never came late prove nothing"


@pytest.mark.parametrize(
    ("name", "effects"),
    [
        ("collected", [[0, 1, 2], [3, 4, 5], [6]]),
        ("debounced", ["edit 2"]),
        ("one at a time", ["begin 0", "end 0", "begin 2", "end 2"]),
    ],
)
def test_undisturbed_they_do_what_they_are_for(name: str, effects: list[object]) -> None:
    (each,) = (each for each in START_SCENARIOS if each.name == name)
    run = run_scenario(each)
    assert run.violations == []
    assert list(run.observation.accepted.values()) == effects
