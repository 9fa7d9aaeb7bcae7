"""What actors and consumers send where writes are billed: faults at each of their writes, and bugs that these find."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from tests.crash.stage import Stage
from tests.scenarios import EVENT_SCENARIOS, scenario

from holdfast.actors.mailbox import departures
from holdfast.actors.mailbox.departures import Departures
from holdfast.actors.turn import aftermath, performed, stages
from holdfast.items import Put, Write, place
from holdfast.testing import Report, Scenario, crash_at_every_write, lag_at_every_write, pause_at_every_write, run_swarm
from holdfast.testing.faulty import FaultyStore

SWARM_SEEDS = 20
PUBLISHED = ["events of an actor", "events set aside", "events delivered again"]
REPEATED_AT_LEAST = 100


pytestmark = pytest.mark.usefixtures("billed")


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_crash_at_any_write_of_what_publishes_changes_nothing(name: str, turning_stage: Stage) -> None:
    turning_stage.crash(scenario(name))


def test_a_zombie_delivers_again_and_nothing_is_applied_twice() -> None:
    reports = [pause_at_every_write(scenario(name)) for name in ("sent by a method", "delayed", "events of an actor")]
    assert sum(report.events["delivery_repeated"] for report in reports) >= REPEATED_AT_LEAST


def test_a_swarm_comes_to_the_end_it_comes_to_undisturbed() -> None:
    run_swarm(EVENT_SCENARIOS, range(SWARM_SEEDS))


def test_no_commit_reaches_another_actor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Apart from what is started with it, or parked, which is new and has no other writer."""
    write, across = FaultyStore.write, []

    def watch(store: FaultyStore, *writes: Write) -> Any:
        partitions = {place(each)[0] for each in writes}
        if len({each for each in partitions if each.startswith(("actor#", "out#"))}) > 1:
            across.append(writes)
        return write(store, *writes)

    monkeypatch.setattr(FaultyStore, "write", watch)
    for name in ("sent by a method", "periodic", "events of an actor"):
        pause_at_every_write(scenario(name))
    assert not across


# ── Bugs that these must find ───────────────────────────────────────────────────────────────────────────────────────


def no_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A receiver does not note what it has applied."""
    for module in (performed, aftermath):
        monkeypatch.setattr(module, "with_mark", lambda record, *_message: (record, ()))


def the_newest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries for one receiver are delivered one by one, the newest first."""
    deliver = departures.deliver

    async def backwards(to: str, puts: Sequence[Put], *others: Any, **options: Any) -> None:
        for put in reversed(puts):
            await deliver(to, [put], *others, **options)

    monkeypatch.setattr(departures, "deliver", backwards)


def deleted_before_delivery(monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry is deleted before its delivery is confirmed."""

    def acknowledgements(self: Departures, most: int | None = None) -> Any:
        waiting = {place: None for each in self._waiting.values() for place, _ in each}
        self._delivered |= waiting
        return really(self, most)

    really = Departures.acknowledgements
    monkeypatch.setattr(Departures, "acknowledgements", acknowledgements)


def forgotten_at_takeover(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new owner does not deliver what the last one has left."""

    async def nothing(*_given: object) -> None: ...

    monkeypatch.setattr(stages, "depart_again", nothing)


def released_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """An owner releases an actor before all that it has sent is delivered."""
    monkeypatch.setattr(Departures, "under_way", False)
    monkeypatch.setattr(Departures, "remains_without", lambda *_given: False)


Plant = Callable[[pytest.MonkeyPatch], None]
Enumerate = Callable[[Scenario], Report]
PLANTS: dict[str, tuple[Plant, Enumerate, str]] = {
    "no marks": (no_marks, lag_at_every_write, "sent by a method"),
    "the newest first": (the_newest_first, crash_at_every_write, "sent by a method"),
    "deleted before delivery": (deleted_before_delivery, crash_at_every_write, "sent by a method"),
    "forgotten at takeover": (forgotten_at_takeover, crash_at_every_write, "periodic"),
    "released too early": (released_too_early, crash_at_every_write, "periodic"),
}


@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_bug_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, enumerate_faults, victim = PLANTS[name]
    plant(monkeypatch)
    with pytest.raises(AssertionError) as found:
        enumerate_faults(scenario(victim))
    print(f"{name}: {str(found.value).splitlines()[:2]}")
