"""Events of a history: numbered always, kept only for who reads them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NoReturn

import pytest
from tests.asl.machines import app_in_virtual_time, states

import holdfast as hf
from holdfast.asl.ending import failure_in
from holdfast.asl.events import Event, History, Trail, recorded
from holdfast.asl.reading import events_of
from holdfast.asl.states import passing, waiting
from holdfast.testing import run_virtual
from holdfast.workflows.history import load
from holdfast.workflows.replay import looked_into

if TYPE_CHECKING:
    from holdfast.asl.frames import Run


async def walk() -> Trail:
    trail = Trail(History())
    trail.note("ExecutionStarted", input={})
    one, other = trail.branch(), trail.branch()
    other.note("PassStateEntered", name="B")
    one.note("PassStateEntered", name="A")
    other.note("PassStateExited", name="B")
    return other


def test_each_event_names_the_one_that_led_to_it():
    with recorded() as events:
        asyncio.run(walk())
    assert [(each.id, each.before, each.type, each.details.get("name")) for each in events] == [
        (1, 0, "ExecutionStarted", None),
        (2, 1, "PassStateEntered", "B"),
        (3, 1, "PassStateEntered", "A"),
        (4, 2, "PassStateExited", "B"),
    ]


def test_numbers_are_the_same_if_nobody_reads():
    assert asyncio.run(walk()).last == 4


def test_a_history_goes_on_where_the_run_before_ended():
    assert Trail(History(17), 15).note("PassStateEntered", name="C") == 18


async def test_a_body_that_is_replayed_tells_its_events_at_their_times(sqlite_world):
    app = sqlite_world.app()

    @app.workflow
    async def machine() -> int:
        trail = Trail(History())
        trail.note("WaitStateEntered", name="Pause")
        await hf.sleep(0.05)
        return trail.note("WaitStateExited", name="Pause")

    async with app.worker():
        handle = await machine.start(id="m")
        assert await handle == 2
        found = await load(app.runtime().home.store, "wf#machine#m")
        with (
            recorded() as events,
            looked_into(found, found.entries, machine, app.registry.errors.rebuild) as activation,
        ):
            activation.begin()
    assert [each.type for each in events] == ["WaitStateEntered", "WaitStateExited"]
    assert round((events[1].at - events[0].at) * 1000) >= 50


async def test_a_service_that_answers_later_has_taken_the_task_first(memory_world):
    app = memory_world.app()
    job = {"Type": "Task", "Resource": "arn:aws:states:::glue:startJobRun.sync", "End": True}
    machine = app.state_machine(
        "m", {"StartAt": "Job", "States": {"Job": job}}, tasks={"glue:startJobRun": lambda given: given}
    )
    async with app.worker():
        await (await machine.start({}, id="e"))
        _, events = await events_of(app.runtime(), "wf#m#e")
    assert [each.type for each in events][2:6] == ["TaskScheduled", "TaskStarted", "TaskSubmitted", "TaskSucceeded"]


class _Unknown(Exception):
    pass


def _raises(*_args: object) -> NoReturn:
    raise _Unknown("why")


def test_a_history_ends_for_any_error_that_ends_the_execution(monkeypatch):
    monkeypatch.setattr(passing, "passed", _raises)
    app = app_in_virtual_time()
    machine = app.state_machine("m", states("P", P={"Type": "Pass", "End": True}))

    async def main() -> tuple[Event, tuple[str | None, str | None]]:
        async with app.worker():
            with pytest.raises(hf.ExecutionFailed):
                await (await machine.start({}, id="e"))
            found, events = await events_of(app.runtime(), "wf#m#e")
        return events[-1], failure_in("FAILED", found.record)

    last, told = run_virtual(main)
    assert (last.type, last.details) == ("ExecutionFailed", {"error": "_Unknown", "cause": "why"})
    assert told == ("_Unknown", "why")


@pytest.mark.parametrize("is_unfit", [True, False])
def test_a_history_has_no_end_where_the_code_does_not_fit_or_the_execution_is_cancelled(monkeypatch, is_unfit):
    async def unfit(run: Run, _visit: object) -> NoReturn:
        raise run.activation.break_off("unfit")

    app = app_in_virtual_time()
    machine = app.state_machine("m", states("W", W={"Type": "Wait", "Seconds": 60, "End": True}))

    async def main() -> list[str]:
        async with app.worker():
            handle = await machine.start({}, id="e")
            if is_unfit:
                await handle
                monkeypatch.setattr(waiting, "waited", unfit)
            else:
                await asyncio.sleep(1)
                await handle.cancel()
                with pytest.raises(hf.ExecutionCancelled):
                    await handle
            _, events = await events_of(app.runtime(), "wf#m#e")
        return [each.type for each in events]

    assert run_virtual(main) == ["ExecutionStarted", "WaitStateEntered"]
