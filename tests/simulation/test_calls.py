"""Processes that are there only when they are called, by rings that get lost, come late, early, twice, in no order."""

from __future__ import annotations

import logging
from itertools import count, islice

from tests.scenarios import SCENARIOS

from holdfast.testing.faults import DelayRing, DoubleRing, EarlyRing, Kill, LoseRing
from holdfast.testing.swarm import calls_of, expectations, run_seeds

SEEDS = 60
FIRST = 1_000
"""The swarm's own test begins at another one."""


def test_what_is_called_comes_to_the_same_end_whatever_becomes_of_the_calls(caplog) -> None:
    caplog.set_level(logging.CRITICAL)  # failed turns are logged, and are to be expected here
    seeds = islice((seed for seed in count(FIRST) if calls_of(seed) is not None), SEEDS)
    report = run_seeds(expectations(SCENARIOS), seeds)
    print(report, f"{report.events['invoked']} invocations")
    report.require_success()
    report.faults.require(8, LoseRing, DoubleRing, DelayRing, EarlyRing, Kill)
    assert report.events["invoked"] >= 10 * SEEDS
