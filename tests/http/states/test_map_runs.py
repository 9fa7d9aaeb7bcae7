"""Map runs by boto3: listed, described, changed while they run; their child executions too."""

from __future__ import annotations

import asyncio
import json
from collections import Counter

import pytest
from tests.http.states.test_executions import definition, ended, execution, start, task
from tests.http.states.test_machines import ROLE, arn, refused

DISTRIBUTED = {"ProcessorConfig": {"Mode": "DISTRIBUTED", "ExecutionType": "STANDARD"}}


def mapping(*, label="Lab", **more) -> dict:
    processor = {"StartAt": "Work", "States": {"Work": task("work")}} | DISTRIBUTED
    return {"Type": "Map", "ItemsPath": "$.items", "ItemProcessor": processor, "Label": label, "End": True} | more


class Work:
    """What an item's task does: it ends at once, fails, or goes on when ``opened``."""

    def __init__(self):
        self.running = self.most = 0
        self.opened = asyncio.Event()
        self.bad = "bad"

    async def __call__(self, given):
        if given == self.bad:
            raise ValueError("broken")
        if given != "slow":
            return given
        self.running += 1
        self.most = max(self.most, self.running)
        await self.opened.wait()
        self.running -= 1
        return given


@pytest.fixture
def work():
    return Work()


@pytest.fixture(params=["declared", "created"])
def begun(request, app, work):
    """Starts a machine ``m`` over items, whoever knows it: the app, or a request."""

    async def worked(given):
        return await work(given)

    async def begin(boto, items, **more):
        text = definition(All=mapping(**more))
        if request.param == "created":
            await boto.create_state_machine(name="m", definition=text, roleArn=ROLE)
        else:
            app.state_machine("m", json.loads(text), tasks={"work": worked})
        await start(boto, "m", "e", {"items": items})

    if request.param == "created":
        app.state_machines(tasks={"work": worked})
    return begin


async def only_run(boto) -> str:
    """The Map run of the execution, once there is one."""
    async with asyncio.timeout(60):
        while not (found := (await boto.list_map_runs(executionArn=execution("m", "e")))["mapRuns"]):
            await asyncio.sleep(0.02)
    (told,) = found
    assert (told["executionArn"], told["stateMachineArn"]) == (execution("m", "e"), arn("m"))
    return told["mapRunArn"]


async def until(boto, map_run, status="RUNNING", **counts):
    """What is told of a Map run, once it has this status and its executions are counted so."""
    async with asyncio.timeout(60):
        while True:
            told = await boto.describe_map_run(mapRunArn=map_run)
            if told["status"] == status and counts.items() <= told["executionCounts"].items():
                return told
            await asyncio.sleep(0.02)


async def test_a_map_run_is_listed_and_described(begun, serving):
    async with serving() as boto:
        await begun(boto, ["a", "b", "bad"], ToleratedFailureCount=1, MaxConcurrency=7)
        assert json.loads((await ended(boto, "m", "e"))["output"]) == ["a", "b"]
        map_run = await only_run(boto)
        told = await boto.describe_map_run(mapRunArn=map_run)
        history = await boto.get_execution_history(executionArn=execution("m", "e"))
    assert map_run.startswith("arn:aws:states:us-east-1:000000000000:mapRun:m/Lab:")
    assert (told["executionArn"], told["status"]) == (execution("m", "e"), "SUCCEEDED")
    assert (told["maxConcurrency"], told["toleratedFailureCount"], told["toleratedFailurePercentage"]) == (7, 1, 0)
    assert told["startDate"] <= told["stopDate"]
    none = ("pending", "running", "timedOut", "aborted", "resultsWritten", "failuresNotRedrivable", "pendingRedrive")
    counts = {"succeeded": 2, "failed": 1, "total": 3} | dict.fromkeys(none, 0)
    assert told["executionCounts"] == told["itemCounts"] == counts
    begins = {each["type"]: each.get("mapRunStartedEventDetails") for each in history["events"]}
    assert begins["MapRunStarted"] == {"mapRunArn": map_run}
    assert "MapRunSucceeded" in begins


async def test_its_children_are_listed_and_described(begun, serving):
    async with serving() as boto:
        await begun(boto, ["a", "bad", "b"], ItemBatcher={"MaxItemsPerBatch": 2}, ToleratedFailurePercentage=100)
        await ended(boto, "m", "e")
        map_run = await only_run(boto)
        first = await boto.list_executions(mapRunArn=map_run, maxResults=1)
        second = await boto.list_executions(mapRunArn=map_run, nextToken=first["nextToken"])
        good = await boto.list_executions(mapRunArn=map_run, statusFilter="SUCCEEDED")
        told = await boto.describe_execution(executionArn=first["executions"][0]["executionArn"])
        history = await boto.get_execution_history(executionArn=told["executionArn"])
        items = (await boto.describe_map_run(mapRunArn=map_run))["itemCounts"]
        machine = await boto.list_executions(stateMachineArn=arn("m"))
    listed = first["executions"] + second["executions"]
    assert [each["itemCount"] for each in sorted(listed, key=lambda each: each["name"])] == [2, 1]
    assert listed == good["executions"]
    assert {each["mapRunArn"] for each in listed} == {map_run} == {told["mapRunArn"]}
    assert told["executionArn"] == f"{execution('m/Lab')}:{told['name']}"
    assert json.loads(told["input"]) == json.loads(told["output"])
    assert history["events"][-1]["type"] == "ExecutionSucceeded"
    assert (items["succeeded"], items["total"]) == (3, 3)
    assert [each["name"] for each in machine["executions"]] == ["e"], "children are not executions of the machine"


async def test_a_map_run_that_runs_is_given_more_room(begun, work, serving):
    async with serving() as boto:
        await begun(boto, ["slow"] * 5, MaxConcurrency=1)
        map_run = await only_run(boto)
        told = await until(boto, map_run, running=1)
        assert (told["status"], told["executionCounts"]["pending"]) == ("RUNNING", 4)
        await boto.update_map_run(mapRunArn=map_run, maxConcurrency=3)
        told = await until(boto, map_run, running=3)
        assert told["maxConcurrency"] == 3
        async with asyncio.timeout(60):
            while work.running < 3:
                await asyncio.sleep(0.02)
        work.opened.set()
        assert (await ended(boto, "m", "e"))["status"] == "SUCCEEDED"
    assert work.most == 3


async def test_a_map_run_fails_at_once_if_it_is_to_tolerate_less_than_has_failed(begun, serving):
    async with serving() as boto:
        await begun(boto, ["bad", "slow"], ToleratedFailureCount=1)
        map_run = await only_run(boto)
        await until(boto, map_run, failed=1, running=1)
        await boto.update_map_run(mapRunArn=map_run, toleratedFailureCount=0)
        assert (await ended(boto, "m", "e"))["error"] == "States.ExceedToleratedFailureThreshold"
        await until(boto, map_run, "FAILED", failed=1, aborted=1)
        assert (await refused(boto.update_map_run(mapRunArn=map_run, maxConcurrency=1)))[0] == "ValidationException"


async def test_a_child_that_is_left_behind_counts_by_how_it_ended_itself(begun, serving):
    async with serving() as boto:
        await begun(boto, ["bad"] * 5 + ["slow"] * 2, MaxConcurrency=6)
        await ended(boto, "m", "e")
        map_run = await only_run(boto)
        counts = (await until(boto, map_run, "FAILED", running=0))["executionCounts"]
        listed = (await boto.list_executions(mapRunArn=map_run))["executions"]
    statuses = [each["status"] for each in listed] + ["pending"] * (7 - len(listed))
    assert {name: counts[name.lower()] for name in set(statuses)} == Counter(statuses)
    assert (counts["failed"] > 1, counts["aborted"] > 0, counts["total"]) == (True, True, 7)


async def test_a_child_that_failed_is_redriven_by_its_map_run_alone(begun, serving):
    async with serving() as boto:
        await begun(boto, ["bad"])
        await ended(boto, "m", "e")
        (child,) = (await boto.list_executions(mapRunArn=await only_run(boto)))["executions"]
        told = await boto.describe_execution(executionArn=child["executionArn"])
        assert (await refused(boto.redrive_execution(executionArn=child["executionArn"])))[
            0
        ] == "ExecutionNotRedrivable"
    assert (told["status"], told["error"], told["redriveStatus"]) == ("FAILED", "ValueError", "REDRIVABLE_BY_MAP_RUN")


async def test_a_redrive_of_the_execution_redrives_the_same_map_run(begun, work, serving):
    async with serving() as boto:
        await begun(boto, ["a", "bad", "b"])
        await ended(boto, "m", "e")
        map_run = await only_run(boto)
        work.bad = "nothing"
        await boto.redrive_execution(executionArn=execution("m", "e"))
        assert json.loads((await ended(boto, "m", "e"))["output"]) == ["a", "bad", "b"]
        assert await only_run(boto) == map_run
        told = await boto.describe_map_run(mapRunArn=map_run)
        events = (await boto.get_execution_history(executionArn=execution("m", "e")))["events"]
    (redriven,) = [each for each in events if each["type"] == "MapRunRedriven"]
    assert redriven["mapRunRedrivenEventDetails"] == {"mapRunArn": map_run, "redriveCount": 1}
    assert (told["status"], told["redriveCount"], told["executionCounts"]["succeeded"]) == ("SUCCEEDED", 1, 3)
    assert told["redriveDate"] >= told["startDate"]


async def test_stopping_the_execution_stops_its_map_run(begun, serving):
    async with serving() as boto:
        await begun(boto, ["slow", "slow"])
        map_run = await only_run(boto)
        await until(boto, map_run, running=2)
        await boto.stop_execution(executionArn=execution("m", "e"))
        await until(boto, map_run, "ABORTED", aborted=2)


async def test_what_is_no_map_run_is_refused(begun, serving):
    async with serving() as boto:
        await begun(boto, [])
        await ended(boto, "m", "e")
        map_run = await only_run(boto)
        nothing = "arn:aws:states:us-east-1:000000000000:mapRun:m/Lab:nothing"
        refusals = [
            await refused(boto.describe_map_run(mapRunArn=nothing)),
            await refused(boto.list_executions(mapRunArn=nothing)),
            await refused(boto.update_map_run(mapRunArn=map_run, toleratedFailurePercentage=101.0)),
        ]
    assert [code for code, _ in refusals] == ["ResourceNotFound", "ResourceNotFound", "ValidationException"]
