"""Redrives: the history goes on behind what had failed, and the context object counts them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from tests.asl.machines import app_in_virtual_time, ended, passing, states, task

import holdfast as hf
from holdfast.asl.events import Event
from holdfast.asl.frames import Bounds
from holdfast.asl.reading import events_of
from holdfast.testing import run_virtual

COUNT = "$$.Execution.RedriveCount"


class Broken:
    """A task that fails as often as it is told to."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.given: list[Any] = []

    def __call__(self, given: Any) -> str:
        self.given.append(given)
        if len(self.given) <= self.failures:
            raise hf.asl.Error("Down", "")
        return "done"


def redriven(
    definition: dict[str, Any],
    times: int,
    *,
    bounds: Bounds | None = None,
    before: Callable[[hf.Handle[Any]], Any] | None = None,
    **tasks: Any,
) -> tuple[Any, list[Event]]:
    """What an execution comes to that is redriven so often, and its events. ``before`` is called after the start."""
    app = app_in_virtual_time()
    machine = app.state_machine("m", definition, tasks=tasks)
    machine.bounds = bounds or machine.bounds

    async def main() -> tuple[Any, list[Event]]:
        async with app.worker():
            handle = await machine.start({}, id="e")
            if before is not None:
                await before(handle)
            for _ in range(times):
                with pytest.raises(hf.ExecutionError):
                    await handle
                await asyncio.sleep(60)
                await handle.retry()
            answer = await ended(handle)
            _, events = await events_of(app.runtime(), "wf#m#e")
        return answer, events

    return run_virtual(main)


CHECKOUT = states(
    "First",
    First=passing(Parameters={"first.$": COUNT}, Next="Ship"),
    Ship=task("ship", ResultPath="$.ship", Next="Last"),
    Last=passing(Parameters={"first.$": "$.first", "last.$": COUNT}),
)


def test_a_history_keeps_what_failed_and_goes_on_behind_each_redrive():
    _, events = redriven(CHECKOUT, 2, ship=Broken(2))
    failed = ["LambdaFunctionScheduled", "LambdaFunctionStarted", "LambdaFunctionFailed", "ExecutionFailed"]
    assert [each.type for each in events] == [
        *["ExecutionStarted", "PassStateEntered", "PassStateExited", "TaskStateEntered", *failed],
        *["ExecutionRedriven", *failed],
        *["ExecutionRedriven", *failed[:2], "LambdaFunctionSucceeded"],
        *["TaskStateExited", "PassStateEntered", "PassStateExited", "ExecutionSucceeded"],
    ]
    assert [each.id for each in events] == list(range(1, len(events) + 1))
    assert [each.details["redriveCount"] for each in events if each.type == "ExecutionRedriven"] == [1, 2]
    assert all(each.before < each.id for each in events)
    at = [each.at for each in events if each.type == "ExecutionRedriven"]
    assert round(at[1] - at[0]) == 60
    assert [each.at for each in events] == sorted(each.at for each in events)


def test_what_follows_names_the_event_that_led_to_it():
    _, events = redriven(CHECKOUT, 1, ship=Broken(1))
    by_number = {each.id: each for each in events}
    exited = next(each for each in events if each.type == "TaskStateExited")
    lead = []
    while exited.before:
        exited = by_number[exited.before]
        lead.append(exited.type)
    assert lead == [
        *["LambdaFunctionSucceeded", "LambdaFunctionStarted", "LambdaFunctionScheduled", "TaskStateEntered"],
        *["PassStateExited", "PassStateEntered", "ExecutionStarted"],
    ]


def test_the_context_object_counts_redrives_from_where_each_came():
    answer, _ = redriven(CHECKOUT, 2, ship=Broken(2))
    assert answer == {"first": 0, "last": 2}


def test_jsonata_sees_the_same_count():
    definition = states(
        "Ship",
        Ship=task("ship", Next="Last"),
        Last=passing(Output="{% $states.context.Execution.RedriveCount %}"),
    )
    answer, _ = redriven(definition | {"QueryLanguage": "JSONata"}, 1, ship=Broken(1))
    assert answer == 1


def test_redrives_are_counted_across_runs_and_the_start_stays():
    last = passing(Parameters={"count.$": COUNT, "since.$": "$$.Execution.StartTime", "began.$": "$.began"})
    definition = states(
        "First",
        First=passing(Parameters={"began.$": "$$.Execution.StartTime"}, Next="Ship"),
        Ship=task("ship", ResultPath="$.ship", Next="Again"),
        Again=task("ship", ResultPath="$.ship", Next="Last"),
        Last=last,
    )
    answer, events = redriven(definition, 1, bounds=Bounds(1, 10), ship=Broken(1))
    assert answer["count"] == 1
    assert answer["since"] == answer["began"]
    assert events[0].id > 1, "the run before is gone, and its numbers are not used again"


def test_a_stopped_execution_is_aborted_before_it_is_redriven():
    async def stop(handle: hf.Handle[Any]) -> None:
        await asyncio.sleep(5)
        await handle.cancel("a person said so")

    definition = states("Pause", Pause={"Type": "Wait", "Seconds": 60, "End": True})
    _, events = redriven(definition, 1, before=stop)
    assert [each.type for each in events] == [
        *["ExecutionStarted", "WaitStateEntered", "ExecutionAborted"],
        *["ExecutionRedriven", "WaitStateExited", "ExecutionSucceeded"],
    ]
    assert events[2].details == {"error": None, "cause": "a person said so"}
    assert timedelta(seconds=events[2].at - events[1].at) >= timedelta(seconds=5)


def test_an_execution_whose_time_was_over_says_so_before_its_redrive():
    definition = states("Ship", Ship=task("ship")) | {"TimeoutSeconds": 10}
    calls = []

    async def ship(_given: Any) -> None:
        calls.append(1)
        if len(calls) == 1:
            await asyncio.sleep(60)

    _, events = redriven(definition, 1, ship=ship)
    assert [each.type for each in events][3:6] == ["LambdaFunctionStarted", "ExecutionTimedOut", "ExecutionRedriven"]
    assert events[4].details["error"] == "States.Timeout"


def test_an_attempt_that_fails_again_without_doing_anything_ends_the_history():
    _, events = redriven(states("F", F={"Type": "Fail", "Error": "E", "Cause": "always"}), 2)
    assert [each.type for each in events] == [
        *["ExecutionStarted", "FailStateEntered", "ExecutionFailed"],
        *["ExecutionRedriven", "ExecutionFailed"] * 2,
    ]
    assert [each.id for each in events] == list(range(1, len(events) + 1))
    assert all(each.before < each.id for each in events)
    assert [each.at for each in events] == sorted(each.at for each in events)
