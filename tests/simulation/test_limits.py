"""Limits of calls in the swarm, and each planted bug of theirs, found by the calls themselves or by no end."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import cache

import pytest
from tests.scenarios import LIMIT_SCENARIOS
from tests.simulation import limit_plants as plants

from holdfast.testing.swarm import Expectation, expectations, run_seed, run_seeds

SEEDS = 15
MOST_SEEDS = 120
"""A bug that is not found by then is not found."""

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(autouse=True)
def _quiet(caplog) -> Iterator[None]:
    """Failed turns are logged, and are to be expected here."""
    caplog.set_level(logging.CRITICAL)
    yield
    gc.collect()


@cache
def pool() -> tuple[Expectation, ...]:
    return expectations(LIMIT_SCENARIOS)


@pytest.mark.parametrize("billed", [False, True])
def test_no_more_run_than_may_whatever_happens(*, billed: bool) -> None:
    report = run_seeds(pool(), range(SEEDS), billed=billed)
    print(report)
    report.require_success()
    assert report.faults.counts.total() > SEEDS


Bug = Callable[[], AbstractContextManager[object]]

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
    found: list[str] = []
    pool()
    with bug():
        for seed in range(MOST_SEEDS):
            found = run_seed(pool(), seed).violations
            if any(told in each for each in found):
                print(f"{bug.__name__} is found by seed {seed}, after {seed + 1} seeds")
                return
    pytest.fail(f"no oracle said {told!r}, but at last: {found}")
