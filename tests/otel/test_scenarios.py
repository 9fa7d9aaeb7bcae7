"""The spans of every scenario are what its processes wrote, without faults and with a crash at their writes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from tests.otel.watched import watch, watch_morning
from tests.scenarios import ACTOR_SCENARIOS, EVENT_SCENARIOS, SCENARIOS, SWARM_SCENARIOS, scenario

from holdfast.actors.turn import commit
from holdfast.testing import FaultsAt, Scenario
from holdfast.testing.crashes import CRASHES
from holdfast.testing.faults import WriteFault
from holdfast.testing.simulation import run_scenario

ALL = (*SCENARIOS, *ACTOR_SCENARIOS, *EVENT_SCENARIOS, *SWARM_SCENARIOS)
CRASHES_OF_EACH = 3
"""Of each scenario, at so many of its writes a process dies; ``make torture`` takes all of them."""
CRASHES_OF_SCHEDULES = 12

Point = tuple[int, WriteFault]


def points(writes: int) -> list[Point]:
    """Before and after each write."""
    return [(number, fault) for number in range(1, writes + 1) for fault in CRASHES]


def crash(each: Scenario, at: Sequence[Point]) -> int:
    """The spans that are lost by a crash at each of these points."""
    lost = crashes = 0
    for number, fault in at:
        run, compared = watch(each, (FaultsAt({number: fault}),))
        assert not run.violations
        crashes += run.faults.counts.total()
        lost += compared.lost()
    assert crashes == len(at) > 0, "a run without its fault proves nothing"
    return lost


@pytest.mark.parametrize("each", ALL, ids=str)
def test_what_is_emitted_is_what_was_written_and_what_a_backfill_makes(each: Scenario) -> None:
    _, compared = watch(each)
    emitted, told = compared.executions()
    assert emitted == told, (emitted - told, told - emitted)
    assert compared.lost() == 0


@pytest.mark.parametrize("each", ALL, ids=str)
def test_with_crashes_nothing_else_is_emitted_and_nothing_twice(each: Scenario) -> None:
    every = points(run_scenario(each).writes[0])
    crash(each, Random(each.name).sample(every, min(CRASHES_OF_EACH, len(every))))


@pytest.mark.torture
@pytest.mark.parametrize("each", ALL, ids=str)
def test_a_crash_at_any_write_emits_nothing_else_and_nothing_twice(each: Scenario) -> None:
    crash(each, points(run_scenario(each).writes[0]))


def test_what_a_dying_process_did_not_hear_of_is_lost_and_no_replay_emits_it() -> None:
    each = scenario("sequential")
    assert crash(each, points(run_scenario(each).writes[0])) > 0


def test_the_spans_of_schedules_are_what_was_written_with_crashes_and_without() -> None:
    undisturbed, compared = watch_morning()
    assert compared.lost() == 0
    names = Counter(span.name for span in compared.emitted)
    assert names == {
        "arm close": 1,
        "arm report": 1,
        "tick close": 4,
        "workflow close": 4,
        "tick report": 3,
        "run report": 3,
        "actor Book.enter": 3,
    }
    crashes = 0
    for number, fault in Random("schedules").sample(points(undisturbed.writes), CRASHES_OF_SCHEDULES):
        morning, compared = watch_morning(FaultsAt({number: fault}))
        assert not morning.complaints
        crashes += morning.faults.counts.total()
        compared.lost()
    assert crashes == CRASHES_OF_SCHEDULES


def test_there_are_spans_at_all() -> None:
    _, compared = watch(scenario("sequential"))
    assert Counter(span.name for span in compared.emitted) == {"step charge": 3, "workflow checkout": 1}


# ── Bugs that these must find ───────────────────────────────────────────────────────────────────────────────────────


def too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attempts of actors are told before they are durable."""
    write, tell = commit._write, commit.tell

    async def tell_and_write(batch: Any, version: Any, actor: Any, runtime: Any, *rest: Any) -> None:
        for each in batch:
            if each.handled is not None:
                tell(each.handled, runtime)
        await write(batch, version, actor, runtime, *rest)

    monkeypatch.setattr(commit, "tell", lambda _handled, _runtime: None)
    monkeypatch.setattr(commit, "_write", tell_and_write)


def only_good_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attempts of actors that are tried again are not told."""
    tell = commit.tell
    monkeypatch.setattr(
        commit, "tell", lambda handled, runtime: tell(handled, runtime) if handled.outcome == "done" else None
    )


@pytest.mark.parametrize(
    ("plant", "what"), [(too_early, "has not written|ids are unique"), (only_good_ones, "has not emitted")]
)
def test_a_planted_bug_is_found(monkeypatch: pytest.MonkeyPatch, plant: Any, what: str) -> None:
    each = scenario("parked")
    every = points(run_scenario(each).writes[0])
    plant(monkeypatch)
    with pytest.raises(AssertionError, match=what):
        crash(each, every)
