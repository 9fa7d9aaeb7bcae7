"""Machines, with a crash, a lost answer or a zombie at each write: nothing may differ."""

from __future__ import annotations

import pytest
from tests.scenarios.machines import MACHINE_SCENARIOS

from holdfast.testing import Scenario, crash_at_every_write, pause_at_every_write

pytestmark = pytest.mark.usefixtures("errors_expected")  # the store fails where it is told to


def name_of(each: Scenario) -> str:
    return each.name


@pytest.mark.parametrize("each", MACHINE_SCENARIOS, ids=name_of)
def test_a_crash_at_any_write_changes_nothing(each: Scenario) -> None:
    report = crash_at_every_write(each)
    assert report.points == 4 * report.writes > 0


def test_a_zombie_at_any_write_changes_nothing_and_is_fenced() -> None:
    fenced = sum(pause_at_every_write(each).events["fenced"] for each in MACHINE_SCENARIOS)
    assert fenced > 0, "zombies that never tried to write prove nothing"
