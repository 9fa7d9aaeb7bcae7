"""Several processes, users and misfortunes at once, drawn from seeds: everything ends as it would have without them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from functools import cache

import pytest
from tests.scenarios import SCENARIOS, SWARM_SCENARIOS
from tests.simulation.report import explained

import holdfast as hf
from holdfast.app import App
from holdfast.testing import Ledger, Scenario, run_swarm
from holdfast.testing.swarm import Expectation, expectations, run_seed, run_seeds, together
from holdfast.testing.world import User

PARTS = 2
SEEDS_PER_PART = 90
DEPLOYS_PER_PART = 10
"""As many of them draw from the scenarios with later code alone: a large pool offers those too seldom to block."""
"""``python -m tests.simulation --seeds 5000`` runs more of them."""
EACH_FAULT_AT_LEAST = 5
EACH_HAPPENING_AT_LEAST = 1
FENCED_AT_LEAST = 50


@pytest.fixture(autouse=True)
def _quiet(caplog) -> None:
    """Failed turns are logged, and are to be expected here."""
    caplog.set_level(logging.CRITICAL, logger="holdfast")


@cache
def pool() -> tuple[Expectation, ...]:
    return expectations((*SCENARIOS, *SWARM_SCENARIOS))


@cache
def deploys() -> tuple[Expectation, ...]:
    return tuple(each for each in pool() if each.scenario.later)


@pytest.mark.parametrize("part", range(PARTS))
def test_whatever_happens_to_the_processes_everything_ends_as_if_nothing_had(part: int) -> None:
    seeds = range(part * SEEDS_PER_PART, (part + 1) * SEEDS_PER_PART)
    mixed, deployed = seeds[:-DEPLOYS_PER_PART], seeds[-DEPLOYS_PER_PART:]
    report = together((run_seeds(pool(), mixed), run_seeds(deploys(), deployed)))
    print(report)
    if report.failures:
        pytest.fail(explained(report), pytrace=False)
    report.require_every_fault(EACH_FAULT_AT_LEAST)
    report.require_every_happening(EACH_HAPPENING_AT_LEAST)
    assert report.events["fenced"] >= FENCED_AT_LEAST, "processes that never came late prove nothing"
    assert len(report.schedules) >= 0.95 * SEEDS_PER_PART, "seeds that lead to the same prove nothing new"


def test_a_seed_leads_to_the_same_run_watched_or_not() -> None:
    told: list[tuple[str, str]] = []
    once, again = run_seed(pool(), 7), run_seed(pool(), 7, lambda who, what: told.append((who, what)))
    assert once.schedule == again.schedule
    for run in (once, again):
        del run.events["swept"]  # told only where somebody listens
    assert (once.faults.counts, once.events) == (again.faults.counts, again.events)
    assert any("suffers" in what for _, what in told)
    assert any("attempts" in what for _, what in told)


def test_a_run_in_which_a_fault_never_happened_is_told() -> None:
    report = run_seeds(pool(), range(1))
    with pytest.raises(AssertionError, match="nothing was proven"):
        report.require_every_fault(EACH_FAULT_AT_LEAST)


def test_a_run_in_which_users_never_did_something_is_told() -> None:
    report = run_seeds(pool(), range(1))
    with pytest.raises(AssertionError, match="nothing was proven"):
        report.require_every_happening()


def careless(app: App, ledger: Ledger) -> User:
    """A step that is not to be repeated, and has no idea of idempotency keys."""

    @app.step
    async def charge() -> None:
        await asyncio.sleep(20)
        ledger.notes["calls"] = ledger.notes.get("calls", 0) + 1
        ledger.effect("charged", key=f"call {ledger.notes['calls']}")

    @app.workflow
    async def checkout() -> None:
        await charge()
        with contextlib.suppress(TimeoutError):
            await hf.signal("shipped", timeout="10s")

    async def user() -> None:
        await (await checkout.start(id="one"))

    return user


def test_a_scenario_that_is_not_safe_is_found_and_the_failure_says_how_to_see_it(capsys) -> None:
    with pytest.raises(AssertionError, match=r"(?s)seed \d+ \(careless.*timeline=print") as found:
        run_swarm([Scenario("careless", careless)], range(30))
    assert "these effects were not expected" in str(found.value)
    assert "30 seeds" in capsys.readouterr().out
