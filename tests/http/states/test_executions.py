"""Executions by boto3: start, describe, history, stop, redrive; by AWS's rules and with its errors."""

from __future__ import annotations

import asyncio
import json

import pytest
from tests.http.states.test_machines import PASS, ROLE, arn, refused
from tests.http.states.test_versions import to

import holdfast as hf

FUNCTION = "arn:aws:lambda:us-east-1:000000000000:function"


def definition(**states) -> str:
    return json.dumps({"StartAt": next(iter(states)), "States": states})


def task(name: str, **more) -> dict:
    return {"Type": "Task", "Resource": f"{FUNCTION}:{name}", "End": True} | more


def execution(*names: str) -> str:
    return ":".join(("arn:aws:states:us-east-1:000000000000:execution", *names))


@pytest.fixture
def machines(app):
    """What machines may call here: what they did is in ``done``, and what is in ``broken`` fails."""
    done, broken = [], set()

    @app.step
    async def charge(order: dict) -> dict:
        if "charge" in broken:
            raise hf.asl.Error("CardDeclined", "no funds")
        done.append(("charge", order["id"]))
        return {"paid": order["id"]}

    @app.step
    async def ship(order: dict) -> str:
        if "ship" in broken:
            raise hf.asl.Error("NoTruck", "none is free")
        done.append(("ship", order["id"]))
        return "shipped"

    app.state_machines()
    app.done, app.broken = done, broken
    return app


async def start(boto, machine, name, input=None, **more):
    given = json.dumps({} if input is None else input)
    return await boto.start_execution(stateMachineArn=arn(machine), name=name, input=given, **more)


async def ended(boto, machine, name):
    async with asyncio.timeout(100):
        while True:
            told = await boto.describe_execution(executionArn=execution(machine, name))
            if told["status"] != "RUNNING":
                return told


CHECKOUT = definition(
    Charge={"Type": "Task", "Resource": f"{FUNCTION}:charge", "ResultPath": "$.payment", "Next": "Ship"},
    Ship=task("ship", ResultPath="$.shipping"),
)


async def test_an_execution_is_started_described_and_has_a_history(machines, serving):
    async with serving() as boto:
        await boto.create_state_machine(name="checkout", definition=CHECKOUT, roleArn=ROLE)
        started = await start(boto, "checkout", "o-17", {"id": "o-17"})
        assert started["executionArn"] == execution("checkout", "o-17")
        told = await ended(boto, "checkout", "o-17")
        output = {"id": "o-17", "payment": {"paid": "o-17"}, "shipping": "shipped"}
        assert (told["status"], json.loads(told["output"])) == ("SUCCEEDED", output)
        assert (told["input"], told["startDate"], told["redriveCount"]) == ('{"id": "o-17"}', started["startDate"], 0)
        assert told["redriveStatus"] == "NOT_REDRIVABLE"
        history = await boto.get_execution_history(executionArn=execution("checkout", "o-17"))
    events = history["events"]
    assert [each["type"] for each in events] == [
        "ExecutionStarted",
        "TaskStateEntered",
        "LambdaFunctionScheduled",
        "LambdaFunctionStarted",
        "LambdaFunctionSucceeded",
        "TaskStateExited",
        "TaskStateEntered",
        "LambdaFunctionScheduled",
        "LambdaFunctionStarted",
        "LambdaFunctionSucceeded",
        "TaskStateExited",
        "ExecutionSucceeded",
    ]
    assert [each["id"] for each in events] == list(range(1, 13))
    assert [each["previousEventId"] for each in events] == list(range(12))
    assert events[0]["executionStartedEventDetails"]["roleArn"] == ROLE
    assert json.loads(events[2]["lambdaFunctionScheduledEventDetails"]["input"]) == {"id": "o-17"}
    assert json.loads(events[-1]["executionSucceededEventDetails"]["output"]) == output
    assert machines.done == [("charge", "o-17"), ("ship", "o-17")]


async def test_a_history_is_read_backwards_in_pages_and_without_data(machines, serving):
    async with serving() as boto:
        await boto.create_state_machine(name="m", definition=PASS, roleArn=ROLE)
        await start(boto, "m", "e", {"secret": 1})
        await ended(boto, "m", "e")
        name = {"executionArn": execution("m", "e")}
        forwards = (await boto.get_execution_history(**name))["events"]
        first = await boto.get_execution_history(**name, reverseOrder=True, maxResults=3)
        second = await boto.get_execution_history(**name, reverseOrder=True, maxResults=3, nextToken=first["nextToken"])
        bare = await boto.get_execution_history(**name, includeExecutionData=False)
        larger = await boto.get_execution_history(**name, reverseOrder=True, nextToken=first["nextToken"])
        assert larger["events"] == second["events"], "the next page may have another size"
        await start(boto, "m", "other")
        for question in (name, {"executionArn": execution("m", "other"), "reverseOrder": True}):
            other = boto.get_execution_history(**question, nextToken=first["nextToken"])
            assert (await refused(other))[0] == "InvalidToken"
    assert first["events"] + second["events"] == forwards[::-1]
    assert len(first["events"]) == 3 and "nextToken" not in second
    assert "secret" not in str(bare) and "secret" in str(forwards)
    assert bare["events"][1]["stateEnteredEventDetails"] == {"name": "Done"}


async def test_the_same_name_and_input_while_it_runs_is_the_same_execution(machines, serving):
    async with serving() as boto:
        await boto.create_state_machine(
            name="m", definition=definition(Pause={"Type": "Wait", "Seconds": 3600, "End": True}), roleArn=ROLE
        )
        first = await start(boto, "m", "e", {"a": 1})
        assert await start(boto, "m", "e", {"a": 1}) == first
        already = ("ExecutionAlreadyExists", f"Execution Already Exists: '{execution('m', 'e')}'")
        assert await refused(start(boto, "m", "e", {"a": 2})) == already
        await boto.update_state_machine(stateMachineArn=arn("m"), definition=PASS)
        assert await start(boto, "m", "e", {"a": 1}) == first, "the definition is no part of the name"
        await boto.stop_execution(executionArn=execution("m", "e"))
        await ended(boto, "m", "e")
        assert await refused(start(boto, "m", "e", {"a": 1})) == already


async def test_an_execution_keeps_the_definition_it_began_with(machines, serving):
    waits = definition(
        Pause={"Type": "Wait", "SecondsPath": "$.seconds", "Next": "Done"},
        Done={"Type": "Pass", "Result": "old", "End": True},
    )
    async with serving() as boto:
        await boto.create_state_machine(name="m", definition=waits, roleArn=ROLE)
        await start(boto, "m", "e", {"seconds": 1})
        await boto.update_state_machine(stateMachineArn=arn("m"), definition=PASS)
        told = await boto.describe_state_machine_for_execution(executionArn=execution("m", "e"))
        assert told["definition"] == waits
        await boto.delete_state_machine(stateMachineArn=arn("m"))
        assert (await ended(boto, "m", "e"))["output"] == '"old"'


async def test_a_failed_execution_tells_its_error_and_is_redriven_from_there(machines, serving):
    machines.broken.add("ship")
    async with serving() as boto:
        await boto.create_state_machine(name="checkout", definition=CHECKOUT, roleArn=ROLE)
        await start(boto, "checkout", "o", {"id": "o"})
        failed = await ended(boto, "checkout", "o")
        assert (failed["status"], failed["error"], failed["cause"]) == ("FAILED", "NoTruck", "none is free")
        assert failed["redriveStatus"] == "REDRIVABLE"
        machines.broken.clear()
        await boto.redrive_execution(executionArn=execution("checkout", "o"))
        told = await ended(boto, "checkout", "o")
        assert (told["status"], told["redriveCount"]) == ("SUCCEEDED", 1)
        assert machines.done == [("charge", "o"), ("ship", "o")], "what was done is not done again"
        again = await refused(boto.redrive_execution(executionArn=execution("checkout", "o")))
        history = await boto.get_execution_history(executionArn=execution("checkout", "o"))
    assert again[0] == "ExecutionNotRedrivable"
    types = [each["type"] for each in history["events"]]
    failed = types.index("ExecutionFailed")
    assert types[failed - 1 : failed + 4] == [
        "LambdaFunctionFailed",
        "ExecutionFailed",
        "ExecutionRedriven",
        "LambdaFunctionScheduled",
        "LambdaFunctionStarted",
    ]
    assert history["events"][failed + 1]["executionRedrivenEventDetails"] == {"redriveCount": 1}
    assert history["events"][failed + 2]["lambdaFunctionScheduledEventDetails"]["resource"] == f"{FUNCTION}:ship"
    assert [each["id"] for each in history["events"]] == list(range(1, len(types) + 1))


async def test_a_stopped_execution_is_aborted_with_its_error_and_cause(machines, serving):
    async with serving() as boto:
        await boto.create_state_machine(
            name="m", definition=definition(Pause={"Type": "Wait", "Seconds": 3600, "End": True}), roleArn=ROLE
        )
        await start(boto, "m", "e")
        await boto.stop_execution(executionArn=execution("m", "e"), error="Enough", cause="a person said so")
        told = await ended(boto, "m", "e")
        assert (told["status"], told["error"], told["cause"]) == ("ABORTED", "Enough", "a person said so")
        history = await boto.get_execution_history(executionArn=execution("m", "e"))
        again = await boto.stop_execution(executionArn=execution("m", "e"))
    assert [each["type"] for each in history["events"]] == ["ExecutionStarted", "WaitStateEntered", "ExecutionAborted"]
    assert history["events"][-1]["executionAbortedEventDetails"] == {"error": "Enough", "cause": "a person said so"}
    assert again["stopDate"] == told["stopDate"]


LONG = {"plain": "x" * 32_768, "wide": "🙂" * 32_768, "quoted": '"' * 32_768, "control": "\x01" * 32_768}


@pytest.mark.parametrize("cause", LONG.values(), ids=LONG)
async def test_a_long_cause_is_cut_and_its_error_is_kept(cause, machines, serving):
    error = cause[:256]
    async with serving() as boto:
        stopping = definition(Pause={"Type": "Wait", "Seconds": 3600, "End": True})
        failing = definition(Fail={"Type": "Fail", "Error": error * 4, "Cause": cause})
        await boto.create_state_machine(name="stopping", definition=stopping, roleArn=ROLE)
        await boto.create_state_machine(name="failing", definition=failing, roleArn=ROLE)
        await start(boto, "stopping", "e")
        await start(boto, "failing", "e")
        await boto.stop_execution(executionArn=execution("stopping", "e"), error=error, cause=cause)
        for name, status in {"stopping": "ABORTED", "failing": "FAILED"}.items():
            told = await ended(boto, name, "e")
            assert (told["status"], told["error"]) == (status, error)
            assert told["cause"].endswith("… (cut)")
            assert cause.startswith(told["cause"].removesuffix("… (cut)"))


async def test_a_redrive_with_the_same_client_token_is_one_redrive(machines, serving):
    machines.broken.add("ship")
    async with serving() as boto:
        await boto.create_state_machine(name="checkout", definition=CHECKOUT, roleArn=ROLE)
        await start(boto, "checkout", "o", {"id": "o"})
        await start(boto, "checkout", "never", {"id": "never"})
        await ended(boto, "checkout", "o")
        await ended(boto, "checkout", "never")
        calls = (boto.redrive_execution(executionArn=execution("checkout", "o"), clientToken="t-1") for _ in range(3))
        answers = await asyncio.gather(*calls)
        await ended(boto, "checkout", "o")
        answers.append(await boto.redrive_execution(executionArn=execution("checkout", "o"), clientToken="t-1"))
        assert len({each["redriveDate"] for each in answers}) == 1
        assert (await ended(boto, "checkout", "o"))["redriveCount"] == 1
        await boto.redrive_execution(executionArn=execution("checkout", "o"), clientToken="t-2")
        assert (await ended(boto, "checkout", "o"))["redriveCount"] == 2
        found = {}
        for chosen in ("REDRIVEN", "NOT_REDRIVEN"):
            listed = await boto.list_executions(stateMachineArn=arn("checkout"), redriveFilter=chosen)
            found[chosen] = [each["name"] for each in listed["executions"]]
    assert found == {"REDRIVEN": ["o"], "NOT_REDRIVEN": ["never"]}


async def test_an_alias_leads_to_a_version_and_the_execution_tells_both(machines, serving):
    async with serving() as boto:
        await boto.create_state_machine(name="orders", definition=PASS, roleArn=ROLE, publish=True)
        other = definition(Done={"Type": "Pass", "Result": "second", "End": True})
        await boto.update_state_machine(stateMachineArn=arn("orders"), definition=other, publish=True)
        await boto.create_state_machine_alias(name="live", routingConfiguration=to(0, 100))
        await boto.start_execution(stateMachineArn=arn("orders", "live"), name="a")
        await boto.start_execution(stateMachineArn=arn("orders", "1"), name="b")
        by_alias, by_version = await ended(boto, "orders", "a"), await ended(boto, "orders", "b")
        listed = await boto.list_executions(stateMachineArn=arn("orders", "live"))
        of_one = await boto.list_executions(stateMachineArn=arn("orders", "1"))
    assert by_alias["output"] == '"second"'
    assert (by_alias["stateMachineAliasArn"], by_alias["stateMachineVersionArn"]) == (
        arn("orders", "live"),
        arn("orders", "2"),
    )
    assert (by_version["stateMachineVersionArn"], "stateMachineAliasArn" in by_version) == (arn("orders", "1"), False)
    assert [each["name"] for each in listed["executions"]] == ["a"]
    assert [each["name"] for each in of_one["executions"]] == ["b"]


async def test_executions_are_listed_by_machine_and_status(machines, serving):
    machines.broken.add("charge")
    async with serving() as boto:
        await boto.create_state_machine(name="m", definition=definition(Charge=task("charge")), roleArn=ROLE)
        await boto.create_state_machine(name="m2", definition=PASS, roleArn=ROLE)
        await start(boto, "m", "bad", {"id": 1})
        await ended(boto, "m", "bad")
        machines.broken.clear()
        for name in "abc":
            await start(boto, "m", name, {"id": 1})
            await ended(boto, "m", name)
        await start(boto, "m2", "other")
        found = [
            each["name"] for each in (await boto.list_executions(stateMachineArn=arn("m"), maxResults=10))["executions"]
        ]
        failed = await boto.list_executions(stateMachineArn=arn("m"), statusFilter="FAILED")
        nobody = await refused(boto.list_executions(stateMachineArn=arn("nobody")))
    assert sorted(found) == ["a", "b", "bad", "c"]
    assert [each["name"] for each in failed["executions"]] == ["bad"]
    assert nobody[0] == "StateMachineDoesNotExist"


async def test_an_express_machine_answers_when_it_has_ended(machines, serving):
    async with serving() as boto:
        await boto.create_state_machine(
            name="x", definition=definition(Charge=task("charge")), roleArn=ROLE, type="EXPRESS"
        )
        told = await boto.start_sync_execution(stateMachineArn=arn("x"), name="e", input='{"id": 7}')
        again = await boto.start_sync_execution(stateMachineArn=arn("x"), name="e", input='{"id": 7}')
        machines.broken.add("charge")
        failed = await boto.start_sync_execution(stateMachineArn=arn("x"), input='{"id": 7}')
        standard = boto.create_state_machine(name="s", definition=PASS, roleArn=ROLE)
        await standard
        wrong = await refused(boto.start_sync_execution(stateMachineArn=arn("s")))
        unlisted = await refused(boto.list_executions(stateMachineArn=arn("x")))
    assert (told["status"], told["output"]) == ("SUCCEEDED", '{"paid":7}')
    assert told["executionArn"] != again["executionArn"] and ":express:x:e:" in told["executionArn"]
    assert told["billingDetails"]["billedDurationInMilliseconds"] % 100 == 0
    assert (failed["status"], failed["error"], failed["cause"]) == ("FAILED", "CardDeclined", "no funds")
    assert wrong[0] == unlisted[0] == "StateMachineTypeNotSupported"


async def test_what_is_not_there_and_what_is_no_input_is_refused(machines, serving):
    async with serving() as boto:
        await boto.create_state_machine(name="m", definition=PASS, roleArn=ROLE)
        nobody = execution("m", "nobody")
        does_not_exist = ("ExecutionDoesNotExist", f"Execution Does Not Exist: '{nobody}'")
        assert await refused(boto.describe_execution(executionArn=nobody)) == does_not_exist
        assert await refused(boto.get_execution_history(executionArn=nobody)) == does_not_exist
        assert await refused(boto.stop_execution(executionArn=nobody)) == does_not_exist
        assert await refused(boto.redrive_execution(executionArn=nobody)) == does_not_exist
        no_machine = await refused(boto.start_execution(stateMachineArn=arn("nobody")))
        no_json = await refused(boto.start_execution(stateMachineArn=arn("m"), input="{"))
        no_name = await refused(boto.start_execution(stateMachineArn=arn("m"), name="a b"))
    assert no_machine[0] == "StateMachineDoesNotExist"
    assert no_json[0] == "InvalidExecutionInput"
    assert no_name[0] == "InvalidName"


async def test_a_task_that_nobody_has_mapped_is_not_called(machines, serving):
    async with serving() as boto:
        definitions = {name: definition(Work=task(name)) for name in ("os.system", "subprocess:run", "eval")}
        for number, text in enumerate(definitions.values()):
            await boto.create_state_machine(name=f"m{number}", definition=text, roleArn=ROLE)
            await start(boto, f"m{number}", "e", {"id": 1})
            told = await ended(boto, f"m{number}", "e")
            assert (told["status"], told["error"]) == ("FAILED", "States.Runtime")
    assert machines.done == []


async def test_steps_that_are_declared_later_are_called_and_transactions_are_not(app, serving):
    app.state_machines()

    @app.step
    async def late(given: dict) -> str:
        return "called"

    @app.transaction
    def moved(cursor: hf.SqlCursor, given: dict) -> str:
        return "never"

    async with serving() as boto:
        for name, told in (("late", "SUCCEEDED"), ("moved", "FAILED")):
            await boto.create_state_machine(name=name, definition=definition(Work=task(name)), roleArn=ROLE)
            await start(boto, name, "e")
            assert (await ended(boto, name, "e"))["status"] == told
