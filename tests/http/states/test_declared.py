"""Machines that the app declares in code, by boto3 and in Python: both see the same executions."""

from __future__ import annotations

import json

import pytest
from tests.http.states.conftest import Boto
from tests.http.states.test_executions import FUNCTION, definition, ended, execution, start, task
from tests.http.states.test_machines import PASS, ROLE, arn, refused
from tests.http.states.test_tasks import starting

import holdfast as hf

PAY = {"StartAt": "Pay", "States": {"Pay": task("pay", ResultPath="$.receipt")}}
PAUSE = {"StartAt": "Pause", "States": {"Pause": {"Type": "Wait", "Seconds": 3600, "End": True}}}
INPUT = {"cents": 500}
OUTPUT = {"cents": 500, "receipt": "paid 500"}


@pytest.fixture
def paid():
    """What was paid; while it has ``None`` in it, no card works."""
    return []


@pytest.fixture
def till(app, paid):
    def pay(order):
        if None in paid:
            raise hf.asl.Error("CardDeclined", "no funds")
        paid.append(order["cents"])
        return f"paid {order['cents']}"

    return app.state_machine("till", PAY, tasks={"pay": pay})


# ── Machines ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_declared_machine_is_listed_and_described(till, serving):
    async with serving() as boto:
        listed = await boto.list_state_machines()
        told = await boto.describe_state_machine(stateMachineArn=arn("till"))
        tags = await boto.list_tags_for_resource(resourceArn=arn("till"))
        versions = await boto.list_state_machine_versions(stateMachineArn=arn("till"))
    assert [(each["name"], each["stateMachineArn"]) for each in listed["stateMachines"]] == [("till", arn("till"))]
    assert (told["name"], told["status"], told["type"]) == ("till", "ACTIVE", "STANDARD")
    assert json.loads(told["definition"]) == PAY
    assert (tags["tags"], versions["stateMachineVersions"]) == ([], [])


@pytest.mark.parametrize("size", [1, 2, 3, 10])
async def test_declared_and_created_machines_are_listed_page_by_page_once_each(app, serving, size):
    async with serving() as boto:
        for name in "bdf":
            await boto.create_state_machine(name=name, definition=PASS, roleArn=ROLE)
        for name in "dea":
            app.state_machine(name, PAUSE)
        found, token = [], {}
        while True:
            page = await boto.list_state_machines(maxResults=size, **token)
            assert len(page["stateMachines"]) <= size
            found += [each["name"] for each in page["stateMachines"]]
            if "nextToken" not in page:
                break
            token = {"nextToken": page["nextToken"]}
    assert found == ["a", "d", "e", "b", "f"]


async def test_a_declared_machine_is_changed_in_the_code_only(till, serving):
    to_till = [{"stateMachineVersionArn": arn("till", "1"), "weight": 100}]
    async with serving() as boto:
        for change in (
            boto.update_state_machine(stateMachineArn=arn("till"), definition=PASS),
            boto.delete_state_machine(stateMachineArn=arn("till")),
            boto.publish_state_machine_version(stateMachineArn=arn("till")),
            boto.create_state_machine_alias(name="live", routingConfiguration=to_till),
            boto.tag_resource(resourceArn=arn("till"), tags=[{"key": "team", "value": "a"}]),
            boto.create_state_machine(name="till", definition=json.dumps(PAY), roleArn=ROLE, publish=True),
        ):
            code, message = await refused(change)
            assert (code, "declared in the code" in message) == ("ConflictException", True)
        told = await boto.describe_state_machine(stateMachineArn=arn("till"))
    assert json.loads(told["definition"]) == PAY


async def test_creating_a_declared_machine_is_no_error_if_it_is_the_same(till, serving):
    async with serving() as boto:
        created = await boto.create_state_machine(name="till", definition=json.dumps(PAY, indent=4), roleArn=ROLE)
        assert created["stateMachineArn"] == arn("till")
        exists = ("StateMachineAlreadyExists", f"State Machine Already Exists: '{arn('till')}'")
        other = boto.create_state_machine(name="till", definition=PASS, roleArn=ROLE)
        assert await refused(other) == exists
        express = boto.create_state_machine(name="till", definition=json.dumps(PAY), roleArn=ROLE, type="EXPRESS")
        assert await refused(express) == exists


def test_the_name_of_all_created_machines_cannot_be_declared(app):
    with pytest.raises(hf.ConfigurationError, match="another name"):
        app.state_machine("states", PAUSE)


# ── Executions ──────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_what_a_request_started_is_at_hand_in_python(till, serving):
    async with serving() as boto:
        started = await start(boto, "till", "o-17", INPUT)
        assert started["executionArn"] == execution("till", "o-17")
        assert await till.handle("o-17") == OUTPUT


async def test_what_was_started_in_python_is_told_to_requests(till, serving):
    async with serving() as boto:
        await (await till.start(INPUT, id="o-17"))
        told = await boto.describe_execution(executionArn=execution("till", "o-17"))
        listed = await boto.list_executions(stateMachineArn=arn("till"), statusFilter="SUCCEEDED")
        machine = await boto.describe_state_machine_for_execution(executionArn=execution("till", "o-17"))
        history = await boto.get_execution_history(executionArn=execution("till", "o-17"))
    assert (told["status"], told["name"], told["stateMachineArn"]) == ("SUCCEEDED", "o-17", arn("till"))
    assert (json.loads(told["input"]), json.loads(told["output"])) == (INPUT, OUTPUT)
    assert [each["executionArn"] for each in listed["executions"]] == [execution("till", "o-17")]
    assert (machine["stateMachineArn"], json.loads(machine["definition"])) == (arn("till"), PAY)
    events = history["events"]
    assert (events[0]["type"], events[-1]["type"]) == ("ExecutionStarted", "ExecutionSucceeded")
    assert json.loads(events[-1]["executionSucceededEventDetails"]["output"]) == OUTPUT


async def test_one_name_and_input_is_one_execution_wherever_it_is_started(app, serving):
    pause = app.state_machine("pause", PAUSE)
    async with serving() as boto:
        await pause.start({"a": [1, 2.5]}, id="e")
        asked = {"stateMachineArn": arn("pause"), "name": "e"}
        assert await boto.start_execution(**asked, input=' { "a" : [ 1, 2.5 ] } ') == await boto.start_execution(
            **asked, input='{"a":[1,2.5]}'
        )
        assert (await refused(boto.start_execution(**asked, input="{}")))[0] == "ExecutionAlreadyExists"
        await start(boto, "pause", "f", {"b": "ä"})
        assert (await pause.start({"b": "ä"}, id="f")).id == "f"
        with pytest.raises(hf.IdempotencyMismatch):
            await pause.start({"b": 2}, id="f")
        listed = await boto.list_executions(stateMachineArn=arn("pause"))
        await boto.stop_execution(executionArn=execution("pause", "e"))
        assert (await refused(boto.start_execution(**asked, input='{"a":[1,2.5]}')))[0] == "ExecutionAlreadyExists"
    assert sorted(each["name"] for each in listed["executions"]) == ["e", "f"]


@pytest.mark.parametrize("seconds", [0, 3600], ids=["ended", "running"])
async def test_a_start_is_the_same_after_a_deployment_has_changed_the_definition(world, reaches, seconds):
    def declared(app, **more):
        pause = {"Type": "Wait", "Seconds": seconds, "End": True}
        return app.state_machine("till", {"StartAt": "Pause", "States": {"Pause": pause}, **more})

    first, second = world.app(), world.app()
    old, new = declared(first), declared(second, Comment="changed")
    async with first.worker():
        begun = await old.start(INPUT, id="o-1")
        there = await reaches(begun, "SUSPENDED" if seconds else "COMPLETED")
    async with second.worker():
        boto = Boto(second, authenticate=lambda _request: "tester")
        again = await new.start(INPUT, id="o-1")
        assert (await again.status()).created_at == there.created_at
        if seconds:
            assert (await start(boto, "till", "o-1", INPUT))["executionArn"] == execution("till", "o-1")
        else:
            assert await again == INPUT
        with pytest.raises(hf.IdempotencyMismatch):
            await new.start({"cents": 1}, id="o-1")


@pytest.mark.parametrize("resource", ["", "arn:aws:states:::lambda:invoke.waitForTaskToken"], ids=["task", "token"])
async def test_a_deployment_that_drops_a_task_blocks_and_says_which(resource, world, reaches):
    def machine(app, *states, **tasks):
        chain = {each: task("pay") | ({"Resource": resource} if resource else {}) for each in states}
        pause = {"Type": "Wait", "Seconds": 1, "Next": states[0]}
        return app.state_machine("till", {"StartAt": "Pause", "States": {"Pause": pause, **chain}}, tasks=tasks)

    first, second, third = world.app(), world.app(), world.app()
    key = "lambda:invoke" if resource else "pay"
    old = machine(first, "Pay", **{key: lambda _order: "paid"})
    dropped = second.state_machine("till", PAUSE)
    async with first.worker():
        handle = await old.start(INPUT, id="o-1")
        await reaches(handle, "SUSPENDED")
    async with second.worker():
        blocked = await reaches(dropped.handle("o-1"), "BLOCKED")
        for part in ("state 'Pay'", repr(resource or f"{FUNCTION}:pay"), "Deploy code"):
            assert part in (blocked.blocked or "")
    if not resource:
        again = machine(third, "Pay", **{key: lambda _order: "paid later"})
        async with third.worker():
            assert await again.handle("o-1") == "paid later"


async def test_an_execution_that_was_started_in_python_is_stopped_and_redriven_by_requests(app, till, paid, serving):
    pause = app.state_machine("pause", PAUSE)
    paid.append(None)
    async with serving() as boto:
        handle = await pause.start(id="e")
        await boto.stop_execution(executionArn=execution("pause", "e"), error="Enough")
        with pytest.raises(hf.ExecutionCancelled):
            await handle
        failing = await till.start(INPUT, id="o")
        assert (await ended(boto, "till", "o"))["error"] == "CardDeclined"
        paid.clear()
        await boto.redrive_execution(executionArn=execution("till", "o"))
        assert await failing == OUTPUT
        told = await ended(boto, "till", "o")
    assert (told["status"], told["redriveCount"], paid) == ("SUCCEEDED", 1, [500])


async def test_an_id_of_python_may_have_colons(till, serving):
    async with serving() as boto:
        await (await till.start(INPUT, id="eu:o:17"))
        listed = await boto.list_executions(stateMachineArn=arn("till"))
        told = await boto.describe_execution(executionArn=listed["executions"][0]["executionArn"])
    assert (told["name"], told["executionArn"]) == ("eu:o:17", execution("till", "eu:o:17"))


async def test_no_id_with_colons_leads_to_an_express_execution(app, serving):
    app.state_machines()
    async with serving() as boto:
        await boto.create_state_machine(name="x", definition=PASS, roleArn=ROLE, type="EXPRESS")
        told = await boto.start_sync_execution(stateMachineArn=arn("x"), name="e")
        standard = told["executionArn"].replace(":express:", ":execution:")
        assert (await refused(boto.describe_execution(executionArn=standard)))[0] == "ExecutionDoesNotExist"


async def test_a_declared_express_machine_answers_when_it_has_ended(app, serving):
    context = {"StartAt": "Told", "States": {"Told": {"Type": "Pass", "OutputPath": "$$.Execution", "End": True}}}
    quick = app.state_machine("quick", context, type="EXPRESS")
    async with serving() as boto:
        told = await boto.start_sync_execution(stateMachineArn=arn("quick"), name="e", input='{"n": 1}')
        again = await boto.start_sync_execution(stateMachineArn=arn("quick"), name="e", input='{"n": 1}')
        assert await quick()
    seen = json.loads(told["output"])
    assert (told["status"], told["name"]) == ("SUCCEEDED", "e")
    assert (seen["Id"], seen["Name"]) == (told["executionArn"], "e")
    assert told["executionArn"] != again["executionArn"] and ":express:quick:e:" in told["executionArn"]


async def test_what_a_created_machine_has_done_is_not_done_again_when_it_is_declared(memory_world):
    from tests.http.states.conftest import Boto

    before, paid = memory_world.app(), []
    before.state_machines(tasks={"pay": paid.append})
    async with before.worker():
        boto = Boto(before, authenticate=lambda _request: "tester")
        await boto.create_state_machine(name="till", definition=json.dumps(PAY), roleArn=ROLE)
        await start(boto, "till", "o-17", INPUT)
        await ended(boto, "till", "o-17")
    after = memory_world.app()
    after.state_machines(tasks={"pay": paid.append})
    after.state_machine("till", PAY, tasks={"pay": paid.append})
    async with after.worker():
        boto = Boto(after, authenticate=lambda _request: "tester")
        assert (await refused(start(boto, "till", "o-17", INPUT)))[0] == "ExecutionAlreadyExists"
        assert (await ended(boto, "till", "o-17"))["status"] == "SUCCEEDED"
    assert paid == [INPUT]


# ── Machines that start machines ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("pattern", ["", ".sync", ".sync:2"])
async def test_a_declared_machine_starts_another_one(app, serving, pattern):
    inner = app.state_machine("inner", json.loads(PASS))
    outer = app.state_machine("outer", json.loads(starting(pattern)))
    async with serving() as boto:
        output = await outer({"n": 7})
        assert await inner.handle("inner-1") == {"n": 7}
        told = await ended(boto, "inner", "inner-1")
    assert output["ExecutionArn"] == told["executionArn"] == execution("inner", "inner-1")
    assert output.get("Output") == {"": None, ".sync": '{"n":7}', ".sync:2": {"n": 7}}[pattern]


async def test_a_created_machine_waits_for_a_declared_one_and_stops_it(app, serving, eventually):
    app.state_machine("inner", PAUSE)
    app.state_machines(tasks={})
    async with serving() as boto:
        await boto.create_state_machine(name="outer", definition=starting(".sync"), roleArn=ROLE)
        await start(boto, "outer", "e", {"n": 7})

        async def runs():
            listed = await boto.list_executions(stateMachineArn=arn("inner"))
            return bool(listed["executions"])

        await eventually(runs)
        await boto.stop_execution(executionArn=execution("outer", "e"))
        assert (await ended(boto, "inner", "inner-1"))["status"] == "ABORTED"


async def test_a_nested_machine_keeps_its_own_time(app, serving):
    app.state_machines(tasks={})
    async with serving() as boto:
        slow = json.dumps(PAUSE | {"TimeoutSeconds": 1})
        await boto.create_state_machine(name="inner", definition=slow, roleArn=ROLE)
        await boto.create_state_machine(name="outer", definition=starting(".sync"), roleArn=ROLE)
        await start(boto, "outer", "e", {"n": 7})
        assert json.loads((await ended(boto, "outer", "e"))["cause"])["Status"] == "TIMED_OUT"


async def test_an_input_that_is_no_json_fails_the_task(app, serving):
    app.state_machine("inner", PAUSE)
    text = json.loads(starting(""))
    text["States"]["Start"]["Parameters"]["Input"] = "{"
    outer = app.state_machine("outer", text)
    async with serving() as boto:
        await start(boto, "outer", "e", {"n": 7})
        assert (await ended(boto, "outer", "e"))["error"] == "StepFunctions.InvalidExecutionInputException"
    assert outer.name == "outer"


async def test_a_definition_without_tasks_needs_no_created_machines(app, serving):
    app.state_machine("m", definition(Done={"Type": "Pass", "End": True}))
    async with serving() as boto:
        await start(boto, "m", "e", {"n": 1})
        assert json.loads((await ended(boto, "m", "e"))["output"]) == {"n": 1}
