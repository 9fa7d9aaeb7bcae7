"""State machines in a swarm: tokens, distributed Maps and redrives, with processes that die, pause and come late."""

from __future__ import annotations

import logging

import pytest
from tests.scenarios.machines import MACHINE_SCENARIOS

from holdfast.testing import run_swarm

SEEDS = 50
FENCED_AT_LEAST = 10


@pytest.fixture(autouse=True)
def _quiet(caplog) -> None:
    """Failed turns are logged, and are to be expected here."""
    caplog.set_level(logging.CRITICAL, logger="holdfast")


def test_machines_end_as_if_nothing_had_happened() -> None:
    report = run_swarm(MACHINE_SCENARIOS, range(SEEDS))
    report.require_every_fault()
    assert report.events["fenced"] >= FENCED_AT_LEAST, "processes that never came late prove nothing"
