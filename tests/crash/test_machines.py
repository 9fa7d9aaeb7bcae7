"""Activities, task tokens and created machines, with a crash, an outage, a lost answer or a zombie at each write."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from msgspec import Raw
from msgspec.structs import replace
from tests.crash.stage import Stage

from holdfast.app import App
from holdfast.asl.stored.queue import take
from holdfast.asl.stored.records import Revision, StoredActivity, StoredMachine
from holdfast.asl.stored.shelf import Shelf
from holdfast.client import CallbackHandle
from holdfast.errors import InvalidToken, StoreUnavailable
from holdfast.http.states.versions import publish
from holdfast.testing import Ledger, Scenario, lag_at_every_write
from holdfast.testing.simulation import Histories
from holdfast.testing.world import User

LOOK_SECONDS = 0.5
ACTIVITY = "arn:aws:states:us-east-1:000000000000:activity:work"
RETRY = [{"ErrorEquals": ["States.Timeout"], "IntervalSeconds": 1, "MaxAttempts": 9}]
WORK = {"Type": "Task", "Resource": ACTIVITY, "TimeoutSeconds": 60, "Retry": RETRY}
DEFINITION = {"StartAt": "One", "States": {"One": WORK | {"Next": "Two"}, "Two": WORK | {"End": True}}}


def worked(app: App, ledger: Ledger) -> User:
    """Two tasks of an activity. A worker that dies with one leaves it to the next attempt, which has another token."""
    machine = app.state_machine("machine", DEFINITION)
    handed: Counter[str] = ledger.notes.setdefault("handed", Counter())

    async def work() -> None:
        while True:
            try:
                found = await take(app.runtime().home.store, "work", app.runtime().clock.now_ms())
                if found is None:
                    await asyncio.sleep(LOOK_SECONDS)
                    continue
                handed[found.token] += 1
                await CallbackHandle(found.token, app.runtime).answer(value=Raw(b'{"done":true}'))
            except (StoreUnavailable, InvalidToken):  # the next attempt, or the next worker, does it
                await asyncio.sleep(LOOK_SECONDS)

    async def user() -> Any:
        await Shelf(app.runtime).add_activity(StoredActivity(name="work", created_at=0))
        handle = await machine.start({}, id="one")
        working = asyncio.create_task(work())
        try:
            return await handle
        finally:
            working.cancel()

    return user


def handed_once(ledger: Ledger) -> list[str]:
    handed: Counter[str] = ledger.notes["handed"]
    return [f"{token[-12:]} went to {count} workers" for token, count in handed.items() if count > 1]


class SoAlready(Exception):
    """Somebody else was faster."""


async def change(shelf: Shelf, made: Callable[[StoredMachine], StoredMachine]) -> None:
    def unless_so(old: StoredMachine) -> StoredMachine:
        new = made(old)
        if new == old:
            raise SoAlready
        return new

    with suppress(SoAlready):
        await shelf.change_machine("m", unless_so)


def kept(app: App, _ledger: Ledger) -> User:
    """A machine is created, and its revision published, once, however often whoever is interrupted begins again."""
    text = json.dumps(DEFINITION)

    async def user() -> tuple[int, int, bool]:
        shelf = Shelf(app.runtime)
        digest = await shelf.keep_definition(text)
        revision = Revision(digest=digest, role_arn="role", at=7)
        await shelf.add_machine(StoredMachine(name="m", revision=revision, created_at=7))
        for number in range(3):
            await change(shelf, lambda old, n=number: replace(old, tags={**old.tags, str(n): "kept"}))
            await change(shelf, lambda old: publish(old, "", 7))
        machine = await shelf.machine("m")
        assert machine is not None
        return machine.published, len(machine.tags), await shelf.definition(machine.revision.digest) == text

    return user


WORKED = Scenario("tasks of an activity", worked, histories=Histories.FREE, check=handed_once)
KEPT = Scenario("a created machine", kept)
BOTH = pytest.mark.parametrize("each", [WORKED, KEPT], ids=str)


@BOTH
def test_a_crash_at_any_write_changes_nothing(each: Scenario, stage: Stage) -> None:
    stage.crash(each)


@BOTH
def test_a_zombie_at_any_write_changes_nothing(each: Scenario, patient_stage: Stage) -> None:
    assert patient_stage.pause(patient_stage.on(each)).points > 0


@BOTH
def test_a_process_that_hears_too_late_from_any_write_on_changes_nothing(each: Scenario, patient_stage: Stage) -> None:
    assert lag_at_every_write(patient_stage.on(each)).points > 0
