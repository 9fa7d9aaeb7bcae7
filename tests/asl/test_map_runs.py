"""Distributed Maps: a Map run is an execution, each item is an execution, and the result is that of an inline Map."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.asl.machines import LAMBDA, app_in_virtual_time, ended, passing, states, task

import holdfast as hf
from holdfast.asl.reading import events_of, redrives_of
from holdfast.backends.memory import MemoryData, open_memory_home
from holdfast.ports import Home
from holdfast.testing import PATIENT, VirtualClock, run_virtual
from holdfast.workflows.record import decode_record, partition_of


def distributed(processor: dict[str, Any], *, type: str = "STANDARD", **more: Any) -> dict[str, Any]:
    config = {"ProcessorConfig": {"Mode": "DISTRIBUTED", "ExecutionType": type}}
    whole = {"Type": "Map", "ItemProcessor": processor | config} | more
    return whole if "Next" in more else whole | {"End": True}


class Ran:
    """One execution of a machine ``m``, in virtual time, with what is left of it in the store."""

    def __init__(self, definition: dict[str, Any], input: Any, *, items_of_a_run: int = 1_000, **tasks: Any) -> None:
        self.app = app_in_virtual_time()
        self.machine = self.app.state_machine("m", definition, tasks=tasks)
        self.machine.maps.items_of_a_run = items_of_a_run
        self.input = input
        self.answer = run_virtual(self._main)

    async def _main(self) -> Any:
        async with self.app.worker():
            handle = await self.machine.start(self.input, id="m-1")
            answer = await self.during(handle)
            self.names = [event.name for event in await handle.history()]
            self.runs = await self._heads("m.maps")
            self.items = await self._heads("m.items")
            store = self.app.runtime().home.store
            self.redriven = [await redrives_of(store, each.partition, decode_record(each.body)) for each in self.runs]
            return answer

    async def during(self, handle: hf.Handle[Any]) -> Any:
        return await ended(handle)

    async def _heads(self, workflow: str) -> list[Any]:
        store = self.app.runtime().home.store
        return (await store.scan(partition_of(workflow, ""), limit=1_000)).items


EVEN = states("Even", Even=task("even"))


def even(n: int) -> int:
    if n % 2:
        raise ValueError("odd")
    return n


def test_each_item_is_an_execution_and_the_machine_records_one_operation():
    ran = Ran(states("All", All=distributed(states("Keep", Keep=passing()))), [7, 8, 9])
    assert ran.answer == [7, 8, 9]
    assert ran.names == ["All#0/m.maps#0"]
    assert len(ran.runs) == 1
    assert len(ran.items) == 3
    parents = {decode_record(each.body).parent.partition for each in ran.items}
    assert parents == {ran.runs[0].partition}


def test_an_item_is_told_of_itself():
    told = passing(Parameters={"id.$": "$$.Execution.Id", "name.$": "$$.Execution.Name", "n.$": "$$.Map.Item.Index"})
    (first, second) = Ran(states("All", All=distributed(states("T", T=told), Label="Lab")), ["a", "b"]).answer
    assert first["name"].removesuffix("-0") == second["name"].removesuffix("-1")
    assert first["id"] == f"arn:aws:states:us-east-1:000000000000:execution:m/Lab:{first['name']}"
    assert (first["n"], second["n"]) == (0, 1)


def test_a_second_visit_and_a_second_attempt_are_map_runs_of_their_own():
    retry = {"Retry": [{"ErrorEquals": ["States.ALL"], "MaxAttempts": 1, "IntervalSeconds": 1}]}
    ran = Ran(states("All", All=distributed(EVEN, **retry)), [1], even=even)
    assert ran.answer[0] == "States.ExceedToleratedFailureThreshold"
    assert ran.names == ["All#0/m.maps#0", "All#0/sleep#0", "All#0/m.maps#1"]
    assert len({each.partition for each in ran.runs}) == 2
    assert len(ran.items) == 2


@pytest.mark.parametrize("each", [1, 2, 3, 7])
def test_a_map_run_that_continues_as_new_keeps_results_and_failures(each):
    tolerant = distributed(EVEN, ToleratedFailureCount=3)
    assert Ran(states("All", All=tolerant), list(range(7)), items_of_a_run=each, even=even).answer == [0, 2, 4, 6]
    strict = distributed(EVEN, ToleratedFailureCount=2)
    answer = Ran(states("All", All=strict), list(range(7)), items_of_a_run=each, even=even).answer
    assert answer[0] == "States.ExceedToleratedFailureThreshold"


def test_a_map_run_continues_as_new_no_more_than_twenty_times():
    ran = Ran(states("All", All=distributed(states("Keep", Keep=passing()))), list(range(100)), items_of_a_run=1)
    assert ran.answer == list(range(100))
    assert decode_record(ran.runs[0].body).run == 19
    assert ran.redriven == [(0, 0)]


def test_results_that_are_too_large_together_fail_the_map_by_the_name_of_that():
    ran = Ran(
        states("All", All=distributed(states("Big", Big=task("big")))), list(range(12)), big=lambda _: "x" * 400_000
    )
    assert ran.answer[0] == "States.DataLimitExceeded"


def test_an_express_item_has_five_minutes():
    slow = states("Wait", Wait={"Type": "Wait", "Seconds": 301, "End": True})
    ran = Ran(states("All", All=distributed(slow, type="EXPRESS", ToleratedFailureCount=1)), [1])
    assert ran.answer == []
    assert [each.status for each in ran.items] == ["TIMED_OUT"]
    assert Ran(states("All", All=distributed(slow)), [1]).answer == [1]


class Stopped(Ran):
    async def during(self, handle):
        await asyncio.sleep(5)
        await handle.cancel()
        with pytest.raises(hf.ExecutionCancelled):
            await handle
        await asyncio.sleep(120)


def test_children_stop_with_their_machine():
    slow = states("Wait", Wait={"Type": "Wait", "Seconds": 900, "End": True})
    ran = Stopped(states("All", All=distributed(slow, MaxConcurrency=2)), [1, 2, 3])
    assert [each.status for each in ran.runs] == ["CANCELLED"]
    assert [each.status for each in ran.items] == ["CANCELLED"] * 2


def test_the_first_failure_that_is_too_much_stops_the_other_children():
    wait = {"Type": "Wait", "SecondsPath": "$", "Next": "Even"}
    machine = states("All", All=distributed(states("Wait", Wait=wait, Even=task("even"))))
    ran = Ran(machine, [800, 1], even=even)
    assert ran.answer[0] == "States.ExceedToleratedFailureThreshold"
    assert sorted(each.status for each in ran.items) == ["CANCELLED", "FAILED"]


def test_a_distributed_map_within_another():
    within = states("In", In=distributed(states("Keep", Keep=passing())))
    ran = Ran(states("All", All=distributed(within)), [[1, 2], [3]])
    assert ran.answer == [[1, 2], [3]]
    assert len(ran.runs) == 3


def test_the_result_of_a_writer_tells_when_and_how_each_child_ended():
    stored: dict[str, str] = {}
    put = "arn:aws:states:::s3:putObject"
    writer = {"Resource": put, "Parameters": {"Bucket": "b", "Prefix": "out"}}
    slow = states("Wait", Wait={"Type": "Wait", "Seconds": 10, "Next": "Even"}, Even=task("even"))
    machine = states("All", All=distributed(slow, ResultWriter=writer, ToleratedFailureCount=1, Label="L"))
    ran = Ran(machine, [1, 2], even=even, **{put: lambda given: stored.update({given["Key"]: given["Body"]})})
    folder = ran.answer["ResultWriterDetails"]["Key"].removesuffix("manifest.json")
    (failed,) = json.loads(stored[f"{folder}FAILED_0.json"])
    (well,) = json.loads(stored[f"{folder}SUCCEEDED_0.json"])
    assert (failed["Status"], failed["Error"], failed["Cause"]) == ("FAILED", "ValueError", "odd")
    assert (well["Status"], well["Output"]) == ("SUCCEEDED", "2")
    assert well["StartDate"] < well["StopDate"]
    assert ran.answer["MapRunArn"].startswith("arn:aws:states:us-east-1:000000000000:mapRun:m/L:")


class Redriven(Ran):
    async def during(self, handle):
        self.first = await ended(handle)
        await handle.retry()
        return await ended(handle)


@pytest.mark.parametrize("tolerated", [0, 1])
def test_a_redrive_tries_the_items_again_that_failed_and_no_others(tolerated):
    worked = []

    def work(n):
        worked.append(n)
        if n < 0 and worked.count(n) == 1:
            raise ValueError("not yet")
        return n

    machine = states("All", All=distributed(states("Work", Work=task("work")), ToleratedFailureCount=tolerated))
    ran = Redriven(machine, [1, -2, 3, -4, 5], work=work)
    assert ran.first[0] == "States.ExceedToleratedFailureThreshold"
    assert ran.answer == [1, -2, 3, -4, 5]
    assert all(worked.count(n) == 1 for n in (1, 3, 5))
    assert len(ran.runs) == 1, "it is the same Map run"
    assert [each.status for each in ran.items] == ["COMPLETED"] * 5


class RedrivenTwice(Ran):
    async def during(self, handle):
        for _ in range(2):
            assert (await ended(handle))[0] == "States.ExceedToleratedFailureThreshold"
            await handle.retry()
        answer = await ended(handle)
        _, self.events = await events_of(self.app.runtime(), partition_of("m", "m-1"))
        return answer


def test_a_history_tells_of_each_redrive_of_a_map_run():
    calls = []

    def work(n):
        calls.append(n)
        if len(calls) < 3:
            raise ValueError("not yet")
        return n

    ran = RedrivenTwice(states("All", All=distributed(states("Work", Work=task("work")))), [1], work=work)
    assert ran.answer == [1]
    failure = ["MapRunFailed", "MapStateFailed", "ExecutionFailed", "ExecutionRedriven", "MapRunRedriven"]
    begin = ["ExecutionStarted", "MapStateEntered", "MapStateStarted", "MapRunStarted"]
    end = ["MapRunSucceeded", "MapStateSucceeded", "MapStateExited", "ExecutionSucceeded"]
    assert [event.type for event in ran.events] == [*begin, *failure, *failure, *end]
    started, first, last = (ran.events[place] for place in (3, 8, 13))
    assert first.details == {**started.details, "redriveCount": 1}
    assert last.details == {**started.details, "redriveCount": 2}
    assert ran.events[14].before == last.id


STEPS = st.sampled_from(["pass", "task", "wait", "choice"])


def processor_of(kinds: list[str]) -> dict[str, Any]:
    """States in a row, of these kinds."""
    made: dict[str, Any] = {}
    for place, kind in enumerate([*kinds, "pass"]):
        name, then = f"S{place}", {"Next": f"S{place + 1}"} if place < len(kinds) else {"End": True}
        match kind:
            case "task":
                made[name] = {"Type": "Task", "Resource": f"{LAMBDA}add"} | then
            case "wait":
                made[name] = {"Type": "Wait", "Seconds": 2} | then
            case "choice":
                goes = {"Variable": "$", "NumericLessThan": 2, "Next": "Bad"}
                made[name] = {"Type": "Choice", "Choices": [goes], "Default": then["Next"]}
                made["Bad"] = {"Type": "Fail", "Error": "Small", "Cause": "less than two"}
            case _:
                made[name] = {"Type": "Pass", "Parameters": {"n.$": "$"}, "OutputPath": "$.n"} | then
    return states("S0", **made)


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    kinds=st.lists(STEPS, max_size=3),
    items=st.lists(st.integers(0, 5), max_size=6),
    limit=st.integers(0, 3),
    each=st.integers(1, 4),
)
def test_a_distributed_map_comes_to_what_an_inline_one_comes_to(kinds, items, limit, each):
    processor = processor_of(kinds)
    caught = {"Catch": [{"ErrorEquals": ["States.ALL"], "Next": "Caught", "ResultPath": None}], "Next": "Done"}
    more = {"MaxConcurrency": limit} | caught
    rest = {"Caught": passing(Result="failed"), "Done": passing()}
    inline = states("All", All={"Type": "Map", "ItemProcessor": processor} | more, **rest)
    spread = states("All", All=distributed(processor, **more), **rest)
    add = {"add": lambda n: n + 1}
    assert Ran(spread, items, items_of_a_run=each, **add).answer == Ran(inline, items, **add).answer


# ── Earlier releases, which worked on the items within the execution ────────────────────────────────────────────────


def two_releases(after_seconds: int, under_way: Any = None) -> tuple[str, str | None, list[Any]]:
    """The status of an execution that an earlier release has begun, why it is blocked, and what its task was given.

    The task stays under way for an item that is ``under_way`` when the earlier release ends.
    """
    done: list[Any] = []
    data, clock = MemoryData(), VirtualClock()

    async def opened() -> Home:
        return open_memory_home(data=data)

    async def do(given: Any) -> Any:
        done.append(given)
        if given == under_way and done.count(given) == 1:
            await asyncio.sleep(100_000)
        return given

    wait = {"Type": "Wait", "Seconds": 60}
    each = states("Do", Do=task("do", Next="Rest"), Rest=wait | {"End": True})
    definition = states(
        "Before",
        Before=wait | {"Next": "Each"},
        Each=distributed(each, MaxConcurrency=1, Next="After"),
        After=wait | {"End": True},
    )

    def release() -> tuple[hf.App, hf.asl.StateMachine]:
        app = hf.App("asl", home=opened, clock=clock, limits=PATIENT)
        return app, app.state_machine("m", definition, tasks={"do": do})

    async def main() -> tuple[str, str | None]:
        with mock.patch(
            "holdfast.asl.definition.machine.DISTRIBUTED", "never"
        ):  # so its items are within the execution
            app, machine = release()
            async with app.worker():
                await machine.start([1, 2], id="e")
                await asyncio.sleep(after_seconds)
        app, machine = release()
        async with app.worker():
            await asyncio.sleep(3600)
            status = await machine.handle("e").status()
            return status.status, status.blocked

    status, blocked = run_virtual(main)
    return status, blocked, done


def test_a_map_that_an_earlier_release_has_not_begun_is_a_map_run() -> None:
    assert two_releases(after_seconds=30) == ("COMPLETED", None, [1, 2])


@pytest.mark.parametrize(
    ("after_seconds", "under_way", "done"),
    [(62, 1, [1]), (90, None, [1]), (150, None, [1, 2]), (200, None, [1, 2])],
    ids=["the first item is under way", "an item waits", "two items", "behind the Map"],
)
def test_a_map_that_an_earlier_release_has_begun_blocks_and_no_item_is_worked_on_again(
    after_seconds: int, under_way: Any, done: list[int]
) -> None:
    status, blocked, given = two_releases(after_seconds, under_way)
    assert (status, given) == ("BLOCKED", done)
    assert blocked is not None
    assert blocked.startswith("an earlier release of Holdfast began this distributed Map within the execution itself")
    assert "Each#0[0]/Do#0/do#0" in blocked
