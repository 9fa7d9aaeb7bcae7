"""Limits of calls, with a crash, an outage, a lost answer or a zombie at each write: they hold, and all ends."""

from __future__ import annotations

import pytest
from tests.crash.stage import Stage
from tests.scenarios import LIMIT_SCENARIOS, scenario

from holdfast.testing import Scenario, crash_at_every_write, crash_twice, lag_at_every_write, pause_at_every_write
from holdfast.testing.crashes import DELAYS

LONGER = [pytest.param(one, marks=pytest.mark.torture) for one in ("limited", "rated", "limited by key")]


def name_of(each: Scenario) -> str:
    return each.name


@pytest.mark.parametrize("each", LIMIT_SCENARIOS, ids=name_of)
def test_a_crash_at_any_write_changes_nothing(each: Scenario, stage: Stage) -> None:
    stage.crash(each)


@pytest.mark.parametrize("name", ["limited once", "limited methods", *LONGER])
def test_a_zombie_at_any_write_changes_nothing(name: str) -> None:
    assert pause_at_every_write(scenario(name)).points > 0


@pytest.mark.torture
@pytest.mark.parametrize("name", ["limited", "rated"])
def test_a_process_that_hears_too_late_changes_nothing(name: str) -> None:
    assert lag_at_every_write(scenario(name)).points > 0


@pytest.mark.torture
@pytest.mark.parametrize("each", LIMIT_SCENARIOS, ids=name_of)
def test_a_slow_store_at_any_write_changes_nothing(each: Scenario) -> None:
    report = crash_at_every_write(each, DELAYS)
    assert report.points == len(DELAYS) * report.writes > 0


@pytest.mark.torture
@pytest.mark.parametrize("name", ["limited once", "limited methods"])
def test_a_second_crash_during_the_recovery_changes_nothing(name: str) -> None:
    assert crash_twice(scenario(name)).points > 0
