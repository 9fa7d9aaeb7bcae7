"""Events of a history: numbered always, kept only for who reads them."""

from __future__ import annotations

import asyncio

import holdfast as hf
from holdfast.asl.events import History, Trail, recorded
from holdfast.asl.reading import events_of
from holdfast.workflows.history import load
from holdfast.workflows.replay import looked_into


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
