"""Idempotent handlers with a crash, an outage, a lost answer, a lag or a zombie at each of their writes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from tests.crash.stage import Stage
from tests.sqlite_database import SqliteDatabase

import holdfast as hf
from holdfast.app import App
from holdfast.coordination import idempotency
from holdfast.coordination.idempotency import holding
from holdfast.items import EXISTS, Delete
from holdfast.testing import (
    Histories,
    Ledger,
    Scenario,
    crash_at_every_write,
    crash_twice,
    lag_at_every_write,
    pause_at_every_write,
    run_swarm,
)
from holdfast.testing.faults import FailBefore, LoseAnswer
from holdfast.testing.world import User

PAUSE_SECONDS = 0.5


class CardDeclined(Exception):
    """The bank says no, and will say so again."""


async def patiently(call: Callable[[], Coroutine[Any, Any, Any]]) -> str:
    """What a caller gets who tries again as long as trying again makes sense."""
    while True:
        try:
            return str(await call())
        except (hf.Busy, hf.LeaseLost, OSError):
            await asyncio.sleep(PAUSE_SECONDS)
        except (CardDeclined, hf.IdempotencyMismatch) as error:
            return type(error).__name__


def build(app: App, ledger: Ledger) -> User:
    tries: dict[str, int] = ledger.notes.setdefault("tries", {})
    outcomes: dict[str, set[str]] = ledger.notes.setdefault("outcomes", {})

    @app.idempotent(key="order", lease="5s", final=(CardDeclined,), max_crashes=50)
    async def charge(order: str, cents: int) -> str:
        tries[order] = number = tries.get(order, 0) + 1
        await asyncio.sleep(0.1)
        ledger.effect(cents, key=order)
        if order == "flaky" and number == 1:
            raise OSError("the line is dead")
        if order == "declined":
            raise CardDeclined("no funds")
        return f"paid {cents}"

    async def user() -> list[str]:
        found: list[str] = []
        for order, cents in (("17", 100), ("17", 100), ("flaky", 1), ("declined", 2), ("declined", 2), ("17", 200)):
            told = await patiently(lambda: charge(order, cents))  # noqa: B023 - it runs here and now
            outcomes.setdefault(f"{order} {cents}", set()).add(told)
            found.append(told)
        return found

    return user


def one_outcome_each(ledger: Ledger) -> list[str]:
    """Whoever asked, and whenever, was told the same."""
    outcomes: dict[str, set[str]] = ledger.notes.get("outcomes", {})
    return [f"{call} came out as {sorted(told)} (G11)" for call, told in outcomes.items() if len(told) > 1]


def no_run_too_many(ledger: Ledger) -> list[str]:
    """As long as nobody dies and nobody is late, each order is tried once, and the flaky one twice."""
    expected = {"17": 1, "flaky": 2, "declined": 1}
    return [] if ledger.attempts == expected else [f"the handler ran {dict(ledger.attempts)}, not {expected}"]


PAYING = Scenario("idempotent payments", build, histories=Histories.FREE, check=one_outcome_each)
ONCE = Scenario("payments in one process", build, histories=Histories.FREE, check=no_run_too_many)
SEEDS = 60
WRITES = 11  # two a fresh call and one a repeat; one more for another try


def test_a_crash_at_any_write_changes_nothing(stage: Stage) -> None:
    assert stage.crash(PAYING).writes >= WRITES


def test_a_crash_at_any_write_changes_nothing_on_sqlite(tmp_path: Path) -> None:
    report = crash_at_every_write(replace(PAYING, database=lambda: SqliteDatabase(tmp_path)))
    assert report.points == 4 * report.writes and report.writes >= WRITES


def test_an_answer_that_is_lost_runs_nothing_twice() -> None:
    crash_at_every_write(ONCE, (LoseAnswer(), FailBefore()))


def test_a_second_crash_during_the_recovery_changes_nothing() -> None:
    assert crash_twice(PAYING).points > 0


def test_a_zombie_at_any_write_changes_nothing(stage: Stage) -> None:
    report = pause_at_every_write(stage.on(PAYING))
    assert report.events["fenced"] > 0, "zombies that never tried to write prove nothing"


def test_a_process_that_hears_late_changes_nothing(stage: Stage) -> None:
    assert lag_at_every_write(stage.on(PAYING)).points > 0


def test_several_processes_with_wrong_clocks_come_to_one_outcome() -> None:
    report = run_swarm([PAYING], range(SEEDS))
    assert report.faults.counts["WrongClock"] >= SEEDS / 2 and report.events["claimed"] > 0


# ── Planted bugs: each must be found ────────────────────────────────────────────────────────────────────────────────


@contextmanager
def an_end_that_asks_nobody() -> Generator[None]:
    """Finishing does not ask whether the key is still ours."""
    with mock.patch.object(holding, "AllOf", return_value=EXISTS):
        yield


@contextmanager
def release_by_deleting() -> Generator[None]:
    """A failure deletes the record, whoever holds it by then."""

    async def release(opened: Any, ticket: Any) -> None:
        await opened.home.store.write(Delete(ticket.place.partition, ticket.place.sort))

    with mock.patch.object(idempotency, "release", release):
        yield


@pytest.mark.parametrize("plant", [an_end_that_asks_nobody, release_by_deleting], ids=lambda each: each.__name__)
def test_a_planted_bug_is_found(plant: Callable[[], AbstractContextManager[None]]) -> None:
    with plant(), pytest.raises(AssertionError, match="divergent"):
        pause_at_every_write(PAYING)
