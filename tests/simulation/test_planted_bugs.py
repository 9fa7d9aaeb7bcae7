"""Each planted bug is found, by the swarm or by an enumeration, and by the oracle that is there for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache

import pytest
from tests.scenarios import SCENARIOS, scenario
from tests.simulation import plants
from tests.simulation.finding import Bug, find, seeds

from holdfast.testing.crashes import DELAYS, crash_at_every_write, lag_at_every_write
from holdfast.testing.swarm import Expectation, expectations, run_seed

MOST_SEEDS = 120
"""As many as one part of the swarm's own test runs."""


pytestmark = [
    pytest.mark.usefixtures("quiet"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@cache
def pool() -> tuple[Expectation, ...]:
    return expectations(SCENARIOS)


# ── Where bugs are looked for ───────────────────────────────────────────────────────────────────────────────────────

Search = Callable[[], Iterator[str]]
"""What went wrong, one place after another."""


def swarm(first: int = 0) -> Search:
    """Seeds, and first the one that is known to find it."""
    return lambda: violations_of(seeds(first, MOST_SEEDS))


def violations_of(those: Iterable[int]) -> Iterator[str]:
    for seed in those:
        for violation in run_seed(pool(), seed).violations:
            yield f"seed {seed}: {violation}"


def crashes(name: str) -> Search:
    return lambda: failures_of(lambda: crash_at_every_write(scenario(name)))


def delays(name: str) -> Search:
    return lambda: failures_of(lambda: crash_at_every_write(scenario(name), DELAYS))


def lags(name: str) -> Search:
    return lambda: failures_of(lambda: lag_at_every_write(scenario(name)))


def failures_of(enumerate_all: Callable[[], object]) -> Iterator[str]:
    try:
        enumerate_all()
    except AssertionError as error:
        yield str(error)


# ── What is planted, where it is found, and what tells ──────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Plant:
    bug: Callable[[], AbstractContextManager[object]]
    search: Search
    told: str


PLANTS = (
    Plant(plants.unconditional_commit, swarm(), "was overwritten (G3)"),
    Plant(plants.no_fence, lags("folding"), "was at work (G3)"),
    Plant(plants.deaf_settle, swarm(20), "from PAUSED to SUSPENDED"),
    Plant(plants.early_intent, crashes("at most once"), "attempted 2 times (G10)"),
    Plant(plants.early_intent, crashes("at most once per attempt"), "failures at the launch was made 2 times (G10)"),
    Plant(plants.open_gate, crashes("durable before next"), "and then as"),
    Plant(plants.early_acknowledgement, crashes("forwarded"), "(G1)"),
    # Where the owner has the execution in memory: whoever has to read it finds the newer segments.
    Plant(plants.stubborn_renewal, lags("durable before next"), "performed again after its outcome was recorded (G2)"),
    Plant(plants.forgetful_start, swarm(), "its epoch went back"),
    Plant(plants.unrecognised_start, crashes("sequential"), "IdempotencyMismatch"),
    Plant(plants.born_twice, delays("primitives"), "performed again after its outcome was recorded (G2)"),
    Plant(plants.early_timer, swarm(13), "(G8)"),
    Plant(plants.shuffled_replay, swarm(), "is still BLOCKED"),
    Plant(plants.lost_outcome, swarm(), "performed again after its outcome was recorded (G2)"),
    Plant(plants.repeated_signal, swarm(7), "the user got [1, 1, "),
    Plant(plants.another_child, swarm(), "effects are"),
    Plant(plants.forgotten_attempts, crashes("retried"), "was attempted"),
    Plant(plants.unordered_messages, swarm(4), "busy inbox: the user got"),
)


def name_of(plant: Plant) -> str:
    return plant.bug.__name__


@pytest.mark.parametrize("plant", PLANTS, ids=name_of)
def test_a_planted_bug_is_found(plant: Plant) -> None:
    told: list[str] = []
    with plant.bug():
        for violation in plant.search():
            told.append(violation)
            if plant.told in violation:
                print(f"{name_of(plant)}: {violation}")
                return
    pytest.fail(f"no oracle said {plant.told!r}, but: {told}")


@pytest.mark.parametrize("bug", [plants.no_new_epoch, plants.blind_sweep])
def test_a_planted_bug_that_lets_something_never_end_is_found(bug: Bug) -> None:
    find(bug, "(G1)", pool())
