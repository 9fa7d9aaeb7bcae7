"""Every scenario of documents, with a crash, an outage, a lost answer or a zombie at each of its writes."""

from __future__ import annotations

import pytest
from tests.crash.stage import Stage
from tests.scenarios import DOCUMENT_SCENARIOS, scenario

import holdfast as hf
from holdfast.app import App
from holdfast.coordination.document import documents, record
from holdfast.patterns import atomic
from holdfast.testing import (
    Ledger,
    Scenario,
    crash_at_every_write,
    crash_twice,
    lag_at_every_write,
    run_scenario,
)
from holdfast.testing.crashes import FAULTS
from holdfast.testing.faults import Delay, FailBefore, LoseAnswer
from holdfast.testing.world import User


@pytest.mark.parametrize("each", DOCUMENT_SCENARIOS, ids=str)
def test_a_crash_at_any_write_changes_nothing(each: Scenario, stage: Stage) -> None:
    stage.crash(each)


def test_a_second_crash_during_the_recovery_changes_nothing(patient_stage: Stage) -> None:
    assert crash_twice(patient_stage.on(scenario("the life of a document"))).points > 0


@pytest.mark.parametrize("each", DOCUMENT_SCENARIOS, ids=str)
def test_a_zombie_at_any_write_changes_nothing(each: Scenario, patient_stage: Stage) -> None:
    assert patient_stage.pause(patient_stage.on(each)).points > 0


@pytest.mark.parametrize("each", DOCUMENT_SCENARIOS, ids=str)
def test_a_process_that_hears_too_late_from_any_write_on_changes_nothing(each: Scenario, patient_stage: Stage) -> None:
    assert lag_at_every_write(patient_stage.on(each)).points > 0


@pytest.mark.parametrize(
    ("name", "result"),
    [
        ("transfers between documents", "(60, 40, [0, 1, 2, 3])"),
        ("the life of a document", "(5, 'put')"),
    ],
)
def test_what_the_undisturbed_run_amounts_to_is_what_the_scenario_says(name: str, result: str) -> None:
    run = run_scenario(scenario(name))
    assert not run.violations
    assert run.observation.result == result


# ── Bugs that these must find ───────────────────────────────────────────────────────────────────────────────────────


def oblivious(monkeypatch: pytest.MonkeyPatch) -> None:
    """A write whose answer was lost does not know itself again."""
    for module in (documents, atomic):
        monkeypatch.setattr(module, "is_ours", lambda *_: False)


def careless(monkeypatch: pytest.MonkeyPatch) -> None:
    """A write replaces whatever is there."""
    from holdfast.items import ALWAYS

    monkeypatch.setattr(record.Before, "unchanged", property(lambda _self: ALWAYS))


def counted(app: App, _ledger: Ledger) -> User:
    """Updates that are not safe to begin again: only a store that fails, not a crash, may come between."""

    async def user() -> int:
        for _ in range(3):
            await app.document(int, "n").update(lambda n: n + 1, default=0)
            await app.atomically(double)
        return (await app.document(int, "n").get()).value

    async def double(tx: hf.Transaction) -> None:
        tx.put(app.document(int, "n"), 2 * await tx.get(app.document(int, "n")))

    return user


COUNTED = Scenario("counted", counted)
OUTAGES = (LoseAnswer(), FailBefore(), Delay(before_seconds=20.0))


def test_a_store_that_does_not_answer_counts_nothing_twice() -> None:
    assert crash_at_every_write(COUNTED, OUTAGES).points == 3 * 6
    assert run_scenario(COUNTED).observation.result == "14"


@pytest.mark.parametrize(
    ("plant", "each", "faults"),
    [(oblivious, COUNTED, OUTAGES), (careless, DOCUMENT_SCENARIOS[0], FAULTS)],
    ids=["oblivious", "careless"],
)
def test_a_planted_bug_is_found(plant, each, faults, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError, match=each.name):
        crash_at_every_write(each, faults)
