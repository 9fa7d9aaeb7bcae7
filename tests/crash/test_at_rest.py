"""Every scenario as functions play it: each write is paid for, and an entity that waits is released at once.

There the last entries before a rest ride in the head with the release, and an end after a wait is written without a
claim (``replay.settling``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from msgspec.structs import replace as replace_fields
from tests.crash.stage import Stage
from tests.scenarios import SCENARIOS, scenario

from holdfast.testing import Scenario, crash_twice, lag_at_every_write, pause_at_every_write
from holdfast.testing.crashes import Report

pytestmark = pytest.mark.usefixtures("billed")

LONGER = ("sleeping", "sequential", "signals")
TWICE = ["callback", *(pytest.param(each, marks=pytest.mark.torture) for each in LONGER)]
FENCED_AT_LEAST = 100

Played = Callable[[Scenario], Report]


def at_once(each: Scenario) -> Scenario:
    """The scenario where nothing lingers."""
    return replace(each, limits=replace_fields(each.limits, linger_seconds=0.0, near_seconds=0.0))


@pytest.mark.parametrize("each", SCENARIOS, ids=lambda each: each.name)
def test_a_crash_at_any_write_changes_nothing(each: Scenario, turning_stage: Stage) -> None:
    turning_stage.crash(at_once(each))


@pytest.mark.parametrize("name", TWICE)
def test_a_second_crash_during_the_recovery_changes_nothing(name: str) -> None:
    assert crash_twice(at_once(scenario(name))).points > 0


@pytest.mark.parametrize("played", [pause_at_every_write, lag_at_every_write])
def test_zombies_and_laggards_change_nothing_and_are_fenced(played: Played, memory_stage: Stage) -> None:
    fenced = sum(played(at_once(each)).events["fenced"] for each in memory_stage.some(SCENARIOS))
    assert fenced >= memory_stage.at_least(FENCED_AT_LEAST), "zombies that never tried to write prove nothing"
