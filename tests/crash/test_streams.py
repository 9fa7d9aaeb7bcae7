"""The scenario of streams, with a crash, an outage, a lost answer or a zombie at each of its writes."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.scenarios import STREAM_SCENARIOS

from holdfast.coordination.stream import appending, record, streams
from holdfast.items import ALWAYS, Put
from holdfast.patterns.atomic import Transaction
from holdfast.testing import crash_at_every_write, crash_twice, lag_at_every_write, pause_at_every_write, run_scenario

(PROJECTED,) = STREAM_SCENARIOS


def test_a_crash_at_any_write_changes_nothing() -> None:
    report = crash_at_every_write(PROJECTED)
    assert report.points == 4 * report.writes > 0


def test_a_second_crash_during_the_recovery_changes_nothing() -> None:
    assert crash_twice(PROJECTED).points > 0


def test_a_zombie_at_any_write_changes_nothing() -> None:
    assert pause_at_every_write(PROJECTED).points > 0


def test_a_process_that_hears_too_late_from_any_write_on_changes_nothing() -> None:
    assert lag_at_every_write(PROJECTED).points > 0


def test_what_the_undisturbed_run_amounts_to_is_what_the_scenario_says() -> None:
    run = run_scenario(PROJECTED)
    assert not run.violations
    assert run.observation.result == "[8, 16, 2, 4, 9, 9]"


# ── Bugs that these must find ───────────────────────────────────────────────────────────────────────────────────────


def careless(monkeypatch: pytest.MonkeyPatch) -> None:
    """An append goes where it likes."""

    event_put = record.event_put

    def put(place, version, event, position):
        return replace(event_put(place, version, event, position), when=ALWAYS)

    monkeypatch.setattr(appending, "event_put", put)


def oblivious(monkeypatch: pytest.MonkeyPatch) -> None:
    """An append that comes again is not known."""

    async def nothing(*_):
        return None

    monkeypatch.setattr(streams, "earlier", lambda *_: None)
    monkeypatch.setattr(streams.Stream, "_request", nothing)


def apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """A projection's checkpoint is not guarded by what it was."""
    commit = Transaction.commit

    async def unguarded(self):
        for touched in self._touched.values():
            if touched.put is not None:
                touched.put = Put(touched.put.item, ALWAYS)
        await commit(self)

    monkeypatch.setattr(Transaction, "commit", unguarded)


@pytest.mark.parametrize("plant", [careless, oblivious, apart], ids=lambda each: each.__name__)
def test_a_planted_bug_is_found(plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        crash_at_every_write(PROJECTED)
