"""Every scenario of events, with a crash, an outage, a lost answer or a zombie at each of its writes."""

from __future__ import annotations

from typing import Any

import pytest
from tests.crash.stage import Stage
from tests.scenarios import EVENT_SCENARIOS, scenario
from tests.scenarios.schedules import a_morning

from holdfast.messaging import relay
from holdfast.messaging.consumers import EventHandler
from holdfast.testing import (
    FaultsAt,
    Scenario,
    crash_at_every_write,
    crash_twice,
    run_scenario,
    run_swarm,
)
from holdfast.testing.faults import CrashAfter, CrashBefore, LoseAnswer

FENCED_AT_LEAST = 50
SWARM_SEEDS = 80

ENUMERATED = [each for each in EVENT_SCENARIOS if each.name != "events of many"]
"""That one is for the swarm: it has so many writes that to fail at each of them takes a minute, and shows no more."""


@pytest.mark.parametrize("each", ENUMERATED, ids=str)
def test_a_crash_at_any_write_changes_nothing(each: Scenario, stage: Stage) -> None:
    stage.crash(each)


@pytest.mark.torture
def test_a_second_crash_during_the_recovery_changes_nothing() -> None:
    assert crash_twice(scenario("events of an actor")).points > 0


def test_a_zombie_at_any_write_changes_nothing_and_is_fenced(sampled_stage: Stage) -> None:
    fenced = points = 0
    for each in sampled_stage.some(ENUMERATED):
        report = sampled_stage.pause(each)
        points += report.points
        fenced += report.events["fenced"]
    print(f"{points} zombies came back, {fenced} were fenced")
    assert fenced >= sampled_stage.at_least(FENCED_AT_LEAST), "zombies that never tried to write prove nothing"


def test_a_swarm_of_processes_publishes_carries_and_handles_each_event_once_in_the_order_of_its_group() -> None:
    report = run_swarm(EVENT_SCENARIOS, range(SWARM_SEEDS))
    report.require_every_fault(5)  # only a call for later can come early, and there are few of them
    for event in ("message_failed", "fenced", "turn_failed"):
        assert report.events[event] >= SWARM_SEEDS // 4, event
    assert len(report.schedules) == SWARM_SEEDS


EXPECTED = {
    "events of an actor": {"bill": [1, 2, 3], "ship": [1, 2, 3]},
    "events of a client": {"pack": [1, 2], "send_off": [1, 2]},
    "events delivered again": {"pack": [1, 2, 3, 4]},
    "events set aside": {"pack": [1, 2, 3]},
    "events that halt": {"pack": [1, 2, 3]},
    "events of many": {},
}


@pytest.mark.parametrize("each", EVENT_SCENARIOS, ids=str)
def test_what_the_undisturbed_run_amounts_to_is_what_the_scenario_says(each: Scenario) -> None:
    run = run_scenario(each)
    assert not run.violations
    handled: dict[str, list[int]] = {}
    for label, order in run.observation.accepted.items():
        consumer = label.split(" ")[0]
        if consumer in EXPECTED[each.name]:
            handled.setdefault(consumer, []).append(order)
    assert {consumer: sorted(orders) for consumer, orders in handled.items()} == EXPECTED[each.name]


# ── Bugs that these must find ───────────────────────────────────────────────────────────────────────────────────────


def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    """Consumers do not remember what they have handled."""
    monkeypatch.setattr(EventHandler, "is_repeat", lambda _self, _place: False)


def dropping(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was set aside is not remembered: later events make it look handled."""
    monkeypatch.setattr(
        EventHandler, "note", lambda self, place, *, handled: setattr(self, "mark", max(self.mark, place))
    )


def mark_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Events are taken out of the outbox before they are delivered."""
    deliver, mark = relay.deliver, relay.mark
    waiting: list[Any] = []

    async def keep(messages: Any, runtime: Any, _host: Any) -> None:
        waiting.append((messages, runtime))

    async def mark_and_deliver(items: Any, held: Any, host: Any) -> None:
        messages, runtime = waiting.pop()
        await mark(items, held, host)
        await deliver(messages, runtime, host)

    monkeypatch.setattr(relay, "deliver", keep)
    monkeypatch.setattr(relay, "mark", mark_and_deliver)


@pytest.mark.parametrize("plant", [forgetful, mark_first])
def test_a_planted_bug_is_found_by_a_swarm(monkeypatch: pytest.MonkeyPatch, plant: Any) -> None:
    scenarios = [scenario("events of many"), scenario("events of a client")]
    plant(monkeypatch)
    with pytest.raises(AssertionError, match="seeds failed"):
        for seed in range(40):
            run_swarm(scenarios, [seed])


@pytest.mark.parametrize(
    ("plant", "name"),
    [(forgetful, "events delivered again"), (dropping, "events set aside"), (mark_first, "events of an actor")],
)
def test_a_planted_bug_is_found(monkeypatch: pytest.MonkeyPatch, plant: Any, name: str) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        crash_at_every_write(scenario(name))


# ── Schedules ───────────────────────────────────────────────────────────────────────────────────────────────────────

CRASHES = (CrashBefore(), CrashAfter(), LoseAnswer())


def test_a_crash_at_any_write_of_schedules_loses_and_doubles_no_tick() -> None:
    undisturbed = a_morning()
    closed = [f"close@2026-01-01T0{hour}:30:00+00:00 COMPLETED" for hour in range(4)]
    assert (undisturbed.answer, undisturbed.complaints) == (([1, 2, 3], closed), [])
    for number in range(1, undisturbed.writes + 1):
        for fault in CRASHES:
            morning = a_morning(FaultsAt({number: fault}))
            assert (morning.answer, morning.complaints) == (undisturbed.answer, []), f"{fault} {number}"
            assert morning.faults.counts.total() == 1
    print(f"schedules: {len(CRASHES) * undisturbed.writes} points")
