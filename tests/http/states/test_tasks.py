"""Task tokens, activities and nested machines by boto3: who does the work is elsewhere, and answers once."""

from __future__ import annotations

import asyncio
import json

import pytest
from tests.http.states.test_executions import FUNCTION, definition, ended, execution, start, task
from tests.http.states.test_machines import NO_VALUES, PASS, ROLE, arn, refused

TIMED_OUT = ("TaskTimedOut", "Task Timed Out: 'Provided task does not exist anymore'")
INVALID = ("InvalidToken", "Invalid Token: 'Invalid token'")


@pytest.fixture
def served(app):
    """An app whose machines may call nothing but what Step Functions itself offers."""
    app.state_machines(tasks={})
    return app


def asking(**more) -> str:
    return definition(
        Ask=task(
            "ask",
            Resource="arn:aws:states:::lambda:invoke.waitForTaskToken",
            Parameters={"token.$": "$$.Task.Token"},
            **more,
        )
    )


@pytest.fixture
def mapped(app):
    """Machines whose ``lambda:invoke`` hands its token out."""
    found = []

    @app.step
    async def ask(given: dict) -> dict:
        found.append(given["token"])
        return {"asked": True}

    app.state_machines(tasks={"lambda:invoke": ask})
    return found


async def asked(boto, mapped, eventually, machine="m", name="e", **more):
    await boto.create_state_machine(name=machine, definition=asking(**more), roleArn=ROLE)
    await start(boto, machine, name)
    await eventually(lambda: mapped)
    return mapped[0]


async def test_who_has_the_token_ends_the_task(mapped, serving, eventually):
    async with serving() as boto:
        token = await asked(boto, mapped, eventually)
        await boto.send_task_heartbeat(taskToken=token)
        await boto.send_task_success(taskToken=token, output='{"order": 17, "a": [1, 2.5, null]}')
        told = await ended(boto, "m", "e")
        history = await boto.get_execution_history(executionArn=execution("m", "e"))
    assert (told["status"], told["output"]) == ("SUCCEEDED", '{"order":17,"a":[1,2.5,null]}')
    events = history["events"]
    assert [each["type"] for each in events] == [
        "ExecutionStarted",
        "TaskStateEntered",
        "TaskScheduled",
        "TaskStarted",
        "TaskSubmitted",
        "TaskSucceeded",
        "TaskStateExited",
        "ExecutionSucceeded",
    ]
    scheduled = events[2]["taskScheduledEventDetails"]
    assert (scheduled["resourceType"], scheduled["resource"]) == ("lambda", "invoke.waitForTaskToken")
    assert json.loads(events[4]["taskSubmittedEventDetails"]["output"]) == {"asked": True}
    assert events[5]["taskSucceededEventDetails"]["resourceType"] == "lambda"


async def test_a_failure_is_an_error_that_the_machine_can_catch(mapped, serving, eventually):
    async with serving() as boto:
        token = await asked(boto, mapped, eventually)
        await boto.send_task_failure(taskToken=token, error="CardDeclined", cause="no funds")
        told = await ended(boto, "m", "e")
    assert (told["status"], told["error"], told["cause"]) == ("FAILED", "CardDeclined", "no funds")


async def test_an_answer_counts_once(mapped, serving, eventually):
    async with serving() as boto:
        token = await asked(boto, mapped, eventually)
        answers = (boto.send_task_success(taskToken=token, output=json.dumps(n)) for n in range(4))
        told = await asyncio.gather(*answers, return_exceptions=True)
        assert sum(each == {} for each in told) == 1
        ended_as = await ended(boto, "m", "e")
        assert ended_as["output"] == str(told.index({}))
        assert await refused(boto.send_task_failure(taskToken=token, error="Late")) == TIMED_OUT
        assert await refused(boto.send_task_heartbeat(taskToken=token)) == TIMED_OUT
        repeat = await boto.send_task_success(taskToken=token, output=ended_as["output"])
    assert repeat == {}, "a repeat of the answer that was taken is no error"


async def test_a_late_answer_is_told_so_and_a_forged_token_is_none(mapped, serving, eventually):
    async with serving() as boto:
        token = await asked(boto, mapped, eventually, TimeoutSeconds=1)
        told = await ended(boto, "m", "e")
        assert (told["status"], told["error"]) == ("FAILED", "States.Timeout")
        assert await refused(boto.send_task_success(taskToken=token, output="1")) == TIMED_OUT
        for forged in ("nothing", token[:-4] + "0000", token.replace(".", "")):
            assert await refused(boto.send_task_success(taskToken=forged, output="1")) == INVALID
        no_json = await refused(boto.send_task_success(taskToken=token, output="{"))
    assert no_json[0] == "InvalidOutput"


@pytest.mark.parametrize("output", NO_VALUES, ids=["nan", "beyond", "half a pair", "deep"])
async def test_an_output_that_is_no_strict_json_is_refused_and_the_task_waits_on(output, mapped, serving, eventually):
    async with serving() as boto:
        token = await asked(boto, mapped, eventually)
        assert (await refused(boto.send_task_success(taskToken=token, output=output)))[0] == "InvalidOutput"
        await boto.send_task_success(taskToken=token, output="17")
        assert (await ended(boto, "m", "e"))["output"] == "17"


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (300_000, ("InvalidOutput", "Invalid Output: 'it is over 262144 bytes'")),
        (5_000_000, ("ValidationException", "the body is over 4194304 bytes")),
    ],
)
async def test_an_output_that_is_too_large_is_refused_in_the_words_of_the_protocol(size, expected, served, serving):
    async with serving() as boto:
        assert await refused(boto.send_task_success(taskToken="t", output=f'"{"x" * size}"')) == expected


@pytest.mark.parametrize("input", NO_VALUES, ids=["nan", "beyond", "half a pair", "deep"])
async def test_an_input_that_is_no_strict_json_is_refused(input, served, serving):
    async with serving() as boto:
        for type in ("STANDARD", "EXPRESS"):
            created = await boto.create_state_machine(name=type, definition=PASS, roleArn=ROLE, type=type)
            call = boto.start_execution if type == "STANDARD" else boto.start_sync_execution
            given = call(stateMachineArn=created["stateMachineArn"], name="e", input=input)
            assert (await refused(given))[0] == "InvalidExecutionInput"


ENDINGS = {"stopped": {}, "failed": {}, "late": {"TimeoutSeconds": 1}, "silent": {"HeartbeatSeconds": 1}}


@pytest.mark.parametrize("ending", ENDINGS)
async def test_a_redrive_attempts_a_task_with_a_token_again_with_another_token(ending, mapped, serving, eventually):
    async with serving() as boto:
        first = await asked(boto, mapped, eventually, **ENDINGS[ending])
        if ending == "stopped":
            await boto.stop_execution(executionArn=execution("m", "e"))
        elif ending == "failed":
            await boto.send_task_failure(taskToken=first, error="Declined", cause="no funds")
        await ended(boto, "m", "e")
        for count in (1, 2):
            await boto.redrive_execution(executionArn=execution("m", "e"))
            await eventually(lambda: len(mapped) == count + 1)  # noqa: B023 - it is called at once
            if count == 1:
                await boto.stop_execution(executionArn=execution("m", "e"))
                await ended(boto, "m", "e")
        assert len(set(mapped)) == 3
        for old in mapped[:2]:
            assert await refused(boto.send_task_success(taskToken=old, output="1")) == TIMED_OUT
        await boto.send_task_success(taskToken=mapped[2], output="17")
        told = await ended(boto, "m", "e")
        assert (told["status"], told["output"], told["redriveCount"]) == ("SUCCEEDED", "17", 2)
        history = (await boto.get_execution_history(executionArn=execution("m", "e")))["events"]
    redriven = [place for place, event in enumerate(history) if event["type"] == "ExecutionRedriven"]
    begun = ["TaskScheduled", "TaskStarted", "TaskSubmitted"]
    for place, ending in zip(redriven, (["ExecutionAborted"], ["TaskSucceeded", "TaskStateExited"]), strict=True):
        following = history[place + 1 : place + 4 + len(ending)]
        assert [event["type"] for event in following] == begun + ending, "it is begun once in each attempt"
        assert following[0]["previousEventId"] == 2, "behind the event by which the state was entered"


async def test_a_redrive_puts_a_new_task_of_an_activity(served, serving):
    async with serving() as boto:
        activity = (await boto.create_activity(name="work"))["activityArn"]
        work = {"Type": "Task", "Resource": activity, "End": True}
        both = {"Type": "Parallel", "End": True, "Branches": [json.loads(definition(**{name: work})) for name in "AB"]}
        await boto.create_state_machine(name="m", definition=definition(Both=both), roleArn=ROLE)
        await start(boto, "m", "e", {"a": 1})
        first, second = [await boto.get_activity_task(activityArn=activity) for _ in range(2)]
        await boto.send_task_success(taskToken=first["taskToken"], output='"kept"')
        await boto.stop_execution(executionArn=execution("m", "e"))
        await ended(boto, "m", "e")
        await boto.redrive_execution(executionArn=execution("m", "e"))
        again = await boto.get_activity_task(activityArn=activity)
        assert again["taskToken"] != second["taskToken"]
        assert await refused(boto.send_task_success(taskToken=second["taskToken"], output="1")) == TIMED_OUT
        await boto.send_task_success(taskToken=again["taskToken"], output='"new"')
        assert sorted(json.loads((await ended(boto, "m", "e"))["output"])) == ["kept", "new"]
        history = (await boto.get_execution_history(executionArn=execution("m", "e")))["events"]
    types = [event["type"] for event in history]
    assert types.count("ActivityScheduled") == types.count("ActivityStarted") == 3


async def test_a_task_that_is_silent_fails_and_can_be_caught_by_name(mapped, serving, eventually):
    caught = [{"ErrorEquals": ["States.HeartbeatTimeout"], "Next": "Silent"}]
    text = json.loads(asking(HeartbeatSeconds=1, TimeoutSeconds=1000, Catch=caught))
    text["States"]["Silent"] = {"Type": "Pass", "Result": "silent", "End": True}
    async with serving() as boto:
        await boto.create_state_machine(name="m", definition=json.dumps(text), roleArn=ROLE)
        await start(boto, "m", "e")
        assert (await ended(boto, "m", "e"))["output"] == '"silent"'


async def test_each_attempt_has_a_token_of_its_own(mapped, serving, eventually):
    retry = [{"ErrorEquals": ["Again"], "IntervalSeconds": 1, "MaxAttempts": 2}]
    async with serving() as boto:
        first = await asked(boto, mapped, eventually, Retry=retry)
        await boto.send_task_failure(taskToken=first, error="Again")
        await eventually(lambda: len(mapped) > 1)
        assert await refused(boto.send_task_success(taskToken=first, output="1")) == TIMED_OUT
        await boto.send_task_success(taskToken=mapped[1], output="2")
        assert (await ended(boto, "m", "e"))["output"] == "2"


# ── Activities ──────────────────────────────────────────────────────────────────────────────────────────────────────

WORK = "arn:aws:states:us-east-1:000000000000:activity:work"


async def test_a_worker_gets_a_task_of_an_activity_and_ends_it(served, serving):
    async with serving() as boto:
        assert (await boto.create_activity(name="work"))["activityArn"] == WORK
        work = definition(Work={"Type": "Task", "Resource": WORK, "End": True})
        await boto.create_state_machine(name="m", definition=work, roleArn=ROLE)
        await start(boto, "m", "e", {"n": 7})
        got = await boto.get_activity_task(activityArn=WORK, workerName="ann")
        assert got["input"] == '{"n":7}'
        await boto.send_task_success(taskToken=got["taskToken"], output='"done"')
        told = await ended(boto, "m", "e")
        history = await boto.get_execution_history(executionArn=execution("m", "e"))
    assert told["output"] == '"done"'
    assert [each["type"] for each in history["events"]][2:5] == [
        "ActivityScheduled",
        "ActivityStarted",
        "ActivitySucceeded",
    ]


async def test_a_task_goes_to_one_worker(served, serving):
    async with serving() as boto:
        await boto.create_activity(name="work")
        work = definition(Work={"Type": "Task", "Resource": WORK, "End": True})
        await boto.create_state_machine(name="m", definition=work, roleArn=ROLE)
        for number in range(4):
            await start(boto, "m", f"e{number}", {"n": number})
        got = await asyncio.gather(*(boto.get_activity_task(activityArn=WORK) for _ in range(4)))
        assert sorted(json.loads(each["input"])["n"] for each in got) == [0, 1, 2, 3]
        for each in got:
            await boto.send_task_success(taskToken=each["taskToken"], output=each["input"])
        for number in range(4):
            assert json.loads((await ended(boto, "m", f"e{number}"))["output"]) == {"n": number}


async def test_a_task_of_an_execution_that_was_stopped_is_not_handed_out(served, serving, eventually):
    async with serving() as boto:
        await boto.create_activity(name="work")
        work = definition(Work={"Type": "Task", "Resource": WORK, "End": True})
        await boto.create_state_machine(name="m", definition=work, roleArn=ROLE)
        await start(boto, "m", "stopped", {"n": 1})

        async def is_scheduled():
            history = await boto.get_execution_history(executionArn=execution("m", "stopped"))
            return any(each["type"] == "ActivityScheduled" for each in history["events"])

        await eventually(is_scheduled)
        await boto.stop_execution(executionArn=execution("m", "stopped"))
        await start(boto, "m", "goes-on", {"n": 2})
        got = await boto.get_activity_task(activityArn=WORK)
    assert got["input"] == '{"n":2}'


async def test_an_activity_that_is_not_there_fails_the_machine(served, serving):
    async with serving() as boto:
        work = definition(Work={"Type": "Task", "Resource": WORK, "End": True})
        await boto.create_state_machine(name="m", definition=work, roleArn=ROLE)
        await start(boto, "m", "e")
        told = await ended(boto, "m", "e")
        nobody = await refused(boto.get_activity_task(activityArn=WORK))
    assert told["error"] == "States.Runtime"
    assert told["cause"] == (
        f"An error occurred while executing the state 'Work' (entered at the event id #2). The activity {WORK} does "
        "not exist."
    )
    assert nobody[0] == "ActivityDoesNotExist"


# ── Machines that start machines ────────────────────────────────────────────────────────────────────────────────────


def starting(pattern: str, machine: str = "inner", **more) -> str:
    return definition(
        Start={
            "Type": "Task",
            "Resource": f"arn:aws:states:::states:startExecution{pattern}",
            "Parameters": {"StateMachineArn": arn(machine), "Input": {"n.$": "$.n"}, "Name": "inner-1"},
            "End": True,
        }
        | more
    )


@pytest.mark.parametrize("pattern", ["", ".sync", ".sync:2"])
async def test_a_machine_starts_another_one(served, serving, pattern):
    async with serving() as boto:
        await boto.create_state_machine(name="inner", definition=PASS, roleArn=ROLE)
        await boto.create_state_machine(name="outer", definition=starting(pattern), roleArn=ROLE)
        await start(boto, "outer", "e", {"n": 7})
        told = await ended(boto, "outer", "e")
        inner = await ended(boto, "inner", "inner-1")
    assert (told["status"], inner["status"], inner["output"]) == ("SUCCEEDED", "SUCCEEDED", '{"n":7}')
    output = json.loads(told["output"])
    assert output["ExecutionArn"] == execution("inner", "inner-1")
    assert output.get("Output") == {"": None, ".sync": '{"n":7}', ".sync:2": {"n": 7}}[pattern]


async def test_a_failed_inner_machine_fails_the_task_with_how_it_is_described(served, serving):
    async with serving() as boto:
        bad = definition(Bad={"Type": "Fail", "Error": "NoStock", "Cause": "sold out"})
        await boto.create_state_machine(name="inner", definition=bad, roleArn=ROLE)
        await boto.create_state_machine(name="outer", definition=starting(".sync:2"), roleArn=ROLE)
        await start(boto, "outer", "e", {"n": 7})
        told = await ended(boto, "outer", "e")
    cause = json.loads(told["cause"])
    assert told["error"] == "States.TaskFailed"
    assert (cause["Status"], cause["Error"], cause["Cause"]) == ("FAILED", "NoStock", "sold out")


async def test_a_machine_that_is_not_there_fails_the_task(served, serving):
    async with serving() as boto:
        await boto.create_state_machine(name="outer", definition=starting("", machine="nobody"), roleArn=ROLE)
        await start(boto, "outer", "e", {"n": 7})
        told = await ended(boto, "outer", "e")
    assert (told["error"], told["cause"]) == (
        "StepFunctions.StateMachineDoesNotExistException",
        f"State Machine Does Not Exist: '{arn('nobody')}'",
    )


async def test_a_stopped_machine_stops_those_it_waits_for(served, serving, eventually):
    async with serving() as boto:
        waits = definition(Pause={"Type": "Wait", "Seconds": 3600, "End": True})
        await boto.create_state_machine(name="inner", definition=waits, roleArn=ROLE)
        await boto.create_state_machine(name="outer", definition=starting(".sync"), roleArn=ROLE)
        await start(boto, "outer", "e", {"n": 7})

        async def runs():
            listed = await boto.list_executions(stateMachineArn=arn("inner"))
            return bool(listed["executions"])

        await eventually(runs)
        await boto.stop_execution(executionArn=execution("outer", "e"))
        assert (await ended(boto, "inner", "inner-1"))["status"] == "ABORTED"


# ── What CHECKS answers ─────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_definition_is_validated_without_being_kept(served, serving):
    async with serving() as boto:
        good = await boto.validate_state_machine_definition(definition=PASS)
        bad = await boto.validate_state_machine_definition(definition="{}")
        refusal = await refused(boto.create_state_machine(name="m", definition="{}", roleArn=ROLE))
        assert (await boto.list_state_machines())["stateMachines"] == []
    assert (good["result"], good["diagnostics"]) == ("OK", [])
    assert (bad["result"], bad["diagnostics"][0]["code"]) == ("FAIL", "SCHEMA_VALIDATION_FAILED")
    assert refusal[0] == "InvalidDefinition" and "States" in refusal[1]


async def test_a_state_is_tested_with_a_mock(served, serving):
    state = json.dumps({"Type": "Task", "Resource": f"{FUNCTION}:charge", "Next": "Ship", "ResultPath": "$.paid"})
    async with serving() as boto:
        told = await boto.test_state(definition=state, input='{"id": 1}', mock={"result": "true"})
    assert (told["status"], told["nextState"], json.loads(told["output"])) == (
        "SUCCEEDED",
        "Ship",
        {"id": 1, "paid": True},
    )
