"""Queues in the swarm, and each planted bug of theirs, found by the oracle that counts what has begun or by no end."""

from __future__ import annotations

from functools import cache

import pytest
from tests.scenarios import QUEUE_SCENARIOS
from tests.simulation import queue_plants as plants
from tests.simulation.finding import Bug, find

from holdfast.testing.swarm import Expectation, expectations, run_seeds

SEEDS = 25

pytestmark = [
    pytest.mark.usefixtures("quiet"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@cache
def pool() -> tuple[Expectation, ...]:
    return expectations(QUEUE_SCENARIOS)


@pytest.mark.parametrize("billed", [False, True])
def test_no_more_begin_than_may_whatever_happens(*, billed: bool) -> None:
    report = run_seeds(pool(), range(SEEDS), billed=billed)
    print(report)
    report.require_success()
    assert report.faults.counts.total() > SEEDS


PLANTS: tuple[tuple[Bug, str, int], ...] = (
    (plants.begun_before_the_decision, "began without a slot", 0),
    (plants.unfenced_decision, "(G15)", 20),
    (plants.claim_without_the_epoch, "began without a slot", 67),
    (plants.slot_of_a_dead_permission, "(G1)", 0),
    (plants.free_on_the_hint, "have begun, over", 0),
    (plants.place_kept, "(G1)", 0),
    (plants.slot_kept_after_terminate, "(G1)", 0),
)


@pytest.mark.parametrize(("bug", "told", "first"), PLANTS, ids=[bug.__name__ for bug, *_ in PLANTS])
def test_a_planted_bug_is_found(bug: Bug, told: str, first: int) -> None:
    find(bug, told, pool(), first=first)


@pytest.mark.torture
def test_a_start_that_loses_its_place_is_found() -> None:
    find(plants.place_deleted_before_its_head, "(G1)", pool(), billed=True)
