"""The swarm on DynamoDB: processes that die, stop and come back, on a table with torn pages, a late index and a proxy.

The proxy refuses requests, cuts answers off and loses them. Everything ends as it does in memory without any fault.
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from functools import cache
from typing import Any

import pytest
from tests.backends.aws import hostile
from tests.backends.aws.local import lean_client
from tests.backends.aws.rough import RoughDatabase
from tests.scenarios import ACTOR_SCENARIOS, EVENT_SCENARIOS, SCENARIOS, SWARM_SCENARIOS

from holdfast.testing.swarm import Expectation, expectations, run_seed

SEEDS = 200 if "HOLDFAST_TORTURE" in os.environ else 8
PORTIONS = 2


@cache
def pool() -> tuple[Expectation, ...]:
    return expectations((*SCENARIOS, *ACTOR_SCENARIOS, *EVENT_SCENARIOS, *SWARM_SCENARIOS))


@pytest.mark.aws
@pytest.mark.parametrize("portion", range(PORTIONS))
def test_every_seed_ends_as_it_would_in_memory(portion: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)  # failed turns are logged, and are to be expected here
    before, found, seen = hostile.suffered(), [], Counter[str]()
    databases: list[Any] = []

    def database(seed: int) -> RoughDatabase:
        databases.append(RoughDatabase(lean_client(), way=hostile.lean(), seed=seed))
        return databases[-1]

    for seed in range(portion, SEEDS, PORTIONS):
        run = run_seed(pool(), seed, database=lambda: database(seed))  # noqa: B023 - it is made here and now
        found += [str(run)] if run.violations else []
    for each in databases:
        seen += each.seen
    assert found == []
    assert hostile.suffered() > before
    assert min(seen["missed"], seen["gone"]) > 0, seen
