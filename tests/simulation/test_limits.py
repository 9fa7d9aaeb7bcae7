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


SOON: tuple[tuple[Bug, str], ...] = (
    (plants.loan_over_at_first_sight, "run, over"),
    (plants.permits_in_use_taken_away, "run, over"),
    (plants.limit_only_here, "run, over"),
    (plants.arrival_in_memory_only, "calls began within"),
    (plants.begun_without_a_token, "calls began within"),
    (plants.tokens_without_a_slot, "(G1)"),
    (plants.permit_not_given_back, "(G1)"),
)
LATE: tuple[tuple[Bug, str], ...] = (
    (plants.loan_without_its_revision, "(G16)"),
    (plants.loan_for_ever, "run, over"),
    (plants.unanswered_write_forgotten, "run, over"),
    (plants.late_token_used, "calls began within"),
)
"""Found after more than twenty seeds."""

PLANTS = [
    *(pytest.param(*each, id=each[0].__name__) for each in SOON),
    *(pytest.param(*each, id=each[0].__name__, marks=pytest.mark.torture) for each in LATE),
]


@pytest.mark.parametrize(("bug", "told"), PLANTS)
def test_a_planted_bug_is_found(bug: Bug, told: str) -> None:
    find(bug, told, pool())
