"""The deletion of a stream, with a crash, an outage, a lost answer or a zombie at each of its writes."""

from __future__ import annotations

import pytest
from tests.scenarios.streams import DELETED

from holdfast.coordination.stream import deleting
from holdfast.testing import crash_at_every_write, crash_twice, lag_at_every_write, pause_at_every_write, run_scenario


def test_the_undisturbed_run_leaves_only_what_came_after() -> None:
    run = run_scenario(DELETED)
    assert not run.violations
    events = [(5, 7), (6, 2)]
    places = [(f"e#{n:012d}", status) for n, status in enumerate(["deleted"] * 4 + [""] * 2, start=1)]
    assert run.observation.result == repr([events, events, [*places, ("q#first", "")], 4, 4, 5])


def test_a_crash_at_any_write_changes_nothing() -> None:
    report = crash_at_every_write(DELETED)
    assert report.points == 4 * report.writes >= 4 * 7


def test_a_second_crash_during_the_recovery_changes_nothing() -> None:
    assert crash_twice(DELETED).points > 0


def test_a_zombie_at_any_write_changes_nothing() -> None:
    assert pause_at_every_write(DELETED).points > 0


def test_a_process_that_hears_too_late_from_any_write_on_changes_nothing() -> None:
    assert lag_at_every_write(DELETED).points > 0


# ── Bugs that these must find ───────────────────────────────────────────────────────────────────────────────────────


def apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first place is marked in a write of its own, after the deletion."""
    write_events = deleting.write_events

    async def then_marked(streams, place, base, events, *, id, seen, besides):
        await write_events(streams, place, base, events, id=id, seen=seen)
        await streams.opened().home.store.write(*besides)

    monkeypatch.setattr(deleting, "write_events", then_marked)


def sweeping(monkeypatch: pytest.MonkeyPatch) -> None:
    """A deletion takes request ids from after it too."""
    monkeypatch.setattr(
        deleting, "_deletes", lambda items, _version: [deleting.Delete(each.partition, each.sort) for each in items]
    )


@pytest.mark.parametrize(("plant", "disturb"), [(apart, crash_at_every_write), (sweeping, pause_at_every_write)])
def test_a_planted_bug_is_found(plant, disturb, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        disturb(DELETED)
