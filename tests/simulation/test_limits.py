"""Limits of calls in the swarm, and each planted bug of theirs, found by the calls themselves or by no end."""

from __future__ import annotations

from functools import cache

import pytest
from tests.scenarios import LIMIT_SCENARIOS
from tests.simulation import limit_plants as plants
from tests.simulation.finding import Bug, find

from holdfast.testing.swarm import Expectation, expectations, run_seeds

SEEDS = 15

pytestmark = [
    pytest.mark.usefixtures("quiet"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@cache
def pool() -> tuple[Expectation, ...]:
    return expectations(LIMIT_SCENARIOS)


@pytest.mark.parametrize("billed", [False, True])
def test_no_more_run_than_may_whatever_happens(*, billed: bool) -> None:
    report = run_seeds(pool(), range(SEEDS), billed=billed)
    print(report)
    report.require_success()
    assert report.faults.counts.total() > SEEDS


SOON: tuple[tuple[Bug, str, int], ...] = (
    (plants.loan_over_at_first_sight, "run, over", 4),
    (plants.permits_in_use_taken_away, "run, over", 4),
    (plants.limit_only_here, "run, over", 0),
    (plants.arrival_in_memory_only, "calls began within", 1),
    (plants.begun_without_a_token, "calls began within", 0),
    (plants.tokens_without_a_slot, "(G1)", 0),
    (plants.permit_not_given_back, "(G1)", 1),
)
LATE: tuple[tuple[Bug, str, int], ...] = (
    (plants.loan_without_its_revision, "(G16)", 0),
    (plants.loan_for_ever, "run, over", 0),
    (plants.unanswered_write_forgotten, "run, over", 0),
    (plants.late_token_used, "calls began within", 0),
)
"""Found after more than twenty seeds."""

PLANTS = [
    *(pytest.param(*each, id=each[0].__name__) for each in SOON),
    *(pytest.param(*each, id=each[0].__name__, marks=pytest.mark.torture) for each in LATE),
]


@pytest.mark.parametrize(("bug", "told", "first"), PLANTS)
def test_a_planted_bug_is_found(bug: Bug, told: str, first: int) -> None:
    find(bug, told, pool(), first=first)
