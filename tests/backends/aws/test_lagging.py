"""Sweeps find everything and harm nothing although the indexes they look at lag behind, and name heads twice."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from msgspec import structs
from tests.backends.aws.lagging import LaggingDatabase
from tests.backends.aws.local import lean_client
from tests.scenarios import scenario

from holdfast.testing import FaultsAt, Scenario, run_scenario
from holdfast.testing.faults import CrashAfter, LoseRing, RingFault

pytestmark = pytest.mark.gentle("it has an index of its own, and compares what was reported")

# All of them wait, are sent to, or are left behind, so that only a sweep can find what is to be done.
NAMES = [
    "sleeping",
    "awaited child",
    "abandoned child",
    "delayed",
    "timers",
    "periodic",
    "sent by a method",
    "starts a workflow",
    "events of an actor",
]
SEEDS = 2
EACH_AT_LEAST = 20


class Unheard(FaultsAt):
    """Nobody hears its rings, and it dies after a write."""

    def on_ring(self) -> RingFault | None:
        return LoseRing()


def forgetful(each: Scenario) -> Scenario:
    """Nothing that waits stays in memory."""
    return replace(each, limits=structs.replace(each.limits, linger_seconds=0.0, near_seconds=0.0, resident=0))


@pytest.mark.aws
def test_sweeps_find_everything_in_an_index_that_lags_behind() -> None:
    seen, dead = Counter[str](), 0
    for name in NAMES:
        each = forgetful(scenario(name))
        expected = run_scenario(each)
        for seed in range(SEEDS):
            random = Random(f"{name}/{seed}")
            lagging = replace(each, database=lambda: LaggingDatabase(lean_client(), random, seen))  # noqa: B023 - it runs here and now
            dies_after = random.randint(1, expected.writes[0])
            run = run_scenario(lagging, (Unheard({dies_after: CrashAfter()}), Unheard()))
            assert run.violations == [], f"{name}, {seed}"
            assert expected.observation.differences(run.observation, each.histories) == [], f"{name}, {seed}"
            dead += run.faults.counts["CrashAfter"]
    assert all(seen[what] >= EACH_AT_LEAST for what in ("missed", "gone", "twice")), seen
    assert dead >= len(NAMES)
