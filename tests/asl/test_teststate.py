"""TestState: one state by itself, mocked, inspected, retried and caught."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from holdfast.asl import teststate
from holdfast.asl.definition import Task
from holdfast.asl.errors import StatesError
from holdfast.asl.teststate import Refused, StateOutcome

LAMBDA = "arn:aws:states:::lambda:invoke"
PAY: dict[str, Any] = {
    "Type": "Task",
    "Resource": LAMBDA,
    "InputPath": "$.order",
    "Parameters": {"FunctionName": "pay", "Payload": {"id.$": "$.id"}},
    "ResultSelector": {"paid.$": "$.Payload.ok"},
    "ResultPath": "$.payment",
    "Next": "Ship",
    "Retry": [{"ErrorEquals": ["Busy"], "IntervalSeconds": 3, "MaxAttempts": 2}],
    "Catch": [{"ErrorEquals": ["Declined"], "Next": "Cancel", "ResultPath": "$.why"}],
}
BRANCHES = [{"StartAt": name, "States": {name: {"Type": "Pass", "End": True}}} for name in "AB"]
MAP = {
    "Type": "Map",
    "ItemsPath": "$.items",
    "ItemSelector": {"n.$": "$$.Map.Item.Value"},
    "ToleratedFailureCount": 1,
    "ItemProcessor": {"StartAt": "I", "States": {"I": {"Type": "Pass", "End": True}}},
    "End": True,
}
ORDER = {"order": {"id": 7}}


def outcome_of(definition: dict[str, Any], **options: Any) -> StateOutcome:
    return asyncio.run(teststate.test_state(definition, **options))


def answered(definition: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return asyncio.run(teststate.answer({"definition": json.dumps(definition), **fields}))


def refusal(definition: dict[str, Any], **options: Any) -> tuple[str, str]:
    with pytest.raises(Refused) as refused:
        outcome_of(definition, **options)
    return refused.value.aws_code, str(refused.value)


def test_a_mocked_task_shows_each_stage_of_its_data() -> None:
    outcome = outcome_of(PAY, input=ORDER, mock={"result": {"Payload": {"ok": True}}})
    assert (outcome.status, outcome.next_state) == ("SUCCEEDED", "Ship")
    assert outcome.output == {**ORDER, "payment": {"paid": True}}
    assert outcome.inspection == {
        "input": ORDER,
        "afterInputPath": {"id": 7},
        "afterParameters": {"FunctionName": "pay", "Payload": {"id": 7}},
        "result": {"Payload": {"ok": True}},
        "afterResultSelector": {"paid": True},
        "afterResultPath": {**ORDER, "payment": {"paid": True}},
    }


def test_an_error_is_retried_while_attempts_are_left() -> None:
    mock = {"errorOutput": {"error": "Busy", "cause": "too many"}}
    first, second, third = (
        outcome_of(PAY, input=ORDER, mock=mock, configuration={"retrierRetryCount": count}) for count in range(3)
    )
    assert (first.status, first.error, first.cause) == ("RETRIABLE", "Busy", "too many")
    assert first.inspection["errorDetails"] == {"retryIndex": 0, "retryBackoffIntervalSeconds": 3}
    assert second.inspection["errorDetails"] == {"retryIndex": 0, "retryBackoffIntervalSeconds": 6}
    assert (third.status, "errorDetails" in third.inspection) == ("FAILED", False)


def test_an_error_is_caught() -> None:
    outcome = outcome_of(PAY, input=ORDER, mock={"errorOutput": {"error": "Declined", "cause": "no money"}})
    assert (outcome.status, outcome.next_state) == ("CAUGHT_ERROR", "Cancel")
    assert outcome.output == {**ORDER, "why": {"Error": "Declined", "Cause": "no money"}}
    assert outcome.inspection["errorDetails"] == {"catchIndex": 0}


def test_a_task_without_a_mock_is_done_by_a_call() -> None:
    async def perform(state: Task, given: Any) -> Any:
        assert state.resource == LAMBDA
        return {"Payload": {"ok": given["Payload"]["id"] == 7}}

    async def declined(_state: Task, _given: Any) -> Any:
        raise StatesError("Declined", "no money")

    assert outcome_of(PAY, input=ORDER, perform=perform).output["payment"] == {"paid": True}
    assert outcome_of(PAY, input=ORDER, perform=declined).status == "CAUGHT_ERROR"
    assert refusal(PAY, input=ORDER)[1].startswith("state 'StateName' is a Task that nothing does here: give it a mock")
    with pytest.raises(Refused, match="RoleArn must be specified when testing a Task state"):
        answered(PAY, input=json.dumps(ORDER))


def test_a_state_is_found_by_its_name_wherever_it_is() -> None:
    machine = {"StartAt": "P", "States": {"P": {"Type": "Parallel", "Branches": BRANCHES, "End": True}}}
    assert outcome_of(machine, state="B", input=[1]).output == [1]
    assert refusal(machine, state="C") == ("ValidationException", "State not found in definition")


def test_variables_and_the_context_are_seen() -> None:
    state = {
        "Type": "Pass",
        "QueryLanguage": "JSONata",
        "End": True,
        "Output": "{% $n + $states.context.State.RetryCount %}",
    }
    outcome = outcome_of(state, variables={"n": 2}, context={"State": {"RetryCount": 3}})
    assert (outcome.output, outcome.inspection) == (5, {"input": {}, "variables": {"n": 2}})


def test_what_a_state_assigns_is_among_the_variables() -> None:
    state = {"Type": "Pass", "Assign": {"total.$": "$.price"}, "End": True}
    assert outcome_of(state, input={"price": 9}, variables={"n": 2}).inspection["variables"] == {"n": 2, "total": 9}


def test_a_choice_says_where_it_goes() -> None:
    state = {
        "Type": "Choice",
        "Choices": [{"Variable": "$.n", "NumericGreaterThan": 1, "Next": "Many"}],
        "Default": "Few",
    }
    assert [outcome_of(state, input={"n": n}).next_state for n in (1, 2)] == ["Few", "Many"]


def test_a_wait_does_not_wait() -> None:
    assert outcome_of({"Type": "Wait", "Seconds": 99_999_999, "Next": "S"}, input={"a": 1}).output == {"a": 1}


def test_a_fail_state_fails() -> None:
    outcome = outcome_of({"Type": "Fail", "Error": "E", "CausePath": "$.why"}, input={"why": "so"})
    assert (outcome.status, outcome.error, outcome.cause) == ("FAILED", "E", "so")


def test_a_failing_expression_is_the_error_of_the_state() -> None:
    outcome = outcome_of({"Type": "Pass", "QueryLanguage": "JSONata", "Output": "{% $states.input.x %}", "End": True})
    assert (outcome.status, outcome.error) == ("FAILED", "States.QueryEvaluationError")


def test_a_mocked_map_shows_what_its_iterations_get() -> None:
    outcome = outcome_of(MAP, input={"items": [1, 2]}, mock={"result": ["a", "b"]})
    assert outcome.output == ["a", "b"]
    assert outcome.inspection["afterItemSelector"] == [{"n": 1}, {"n": 2}]
    assert (outcome.inspection["maxConcurrency"], outcome.inspection["toleratedFailureCount"]) == (0, 1)


@pytest.mark.parametrize(("failed", "status"), [(0, "SUCCEEDED"), (1, "SUCCEEDED"), (2, "FAILED")])
def test_a_map_tolerates_failures(failed: int, status: str) -> None:
    options = {"mock": {"result": [1, 2]}, "configuration": {"mapIterationFailureCount": failed}}
    assert outcome_of(MAP, input={"items": [1, 2]}, **options).status == status


def test_a_map_reads_what_its_reader_is_said_to_find() -> None:
    reading = {**MAP, "ItemReader": {"Resource": "arn:aws:states:::s3:getObject"}}
    outcome = outcome_of(reading, mock={"result": [0]}, configuration={"mapItemReaderData": "[5]"})
    assert outcome.inspection["afterItemSelector"] == [{"n": 5}]


@pytest.mark.parametrize(
    ("definition", "options", "message"),
    [
        (
            {"Type": "Succeed"},
            {"mock": {"result": 1}},
            "State type 'Succeed' is not supported when a mock is specified",
        ),
        (PAY, {"mock": {}}, "A test mock should have only one of the following fields: [result, errorOutput]."),
        (MAP, {"mock": {"result": {}}}, "Mocked result must be an array."),
        (
            {"Type": "Parallel", "Branches": BRANCHES, "End": True},
            {"mock": {"result": [1]}},
            "Mocked result must contain the same number of items as number of Parallel branches.",
        ),
        (
            MAP,
            {"configuration": {"mapIterationFailureCount": 1}},
            "TestState does not support MapIterationFailureCount when a mock is not specified.",
        ),
        (
            MAP,
            {"input": {"items": [1]}, "mock": {"result": [1]}, "configuration": {"mapIterationFailureCount": 2}},
            "Map iteration failure count must be less than or equal to the number of Map iterations",
        ),
        (
            PAY,
            {"mock": {"result": {"StatusCode": "200"}}},
            "Mock result schema validation error: Field 'StatusCode' must be a number",
        ),
        (
            {**PAY, "Resource": "arn:aws:states:::aws-sdk:kms:encrypt"},
            {"mock": {"result": {"CiphertextBlob": ""}}},
            "Mock result schema validation error: Field 'CiphertextBlob' is smaller than the minimum length",
        ),
        (
            {**PAY, "Resource": "arn:aws:states:::aws-sdk:lambda:getFunction"},
            {"mock": {"result": {"Configuration": {"PackageType": "Tape"}}}},
            "Mock result schema validation error: Field 'PackageType' is not an expected value",
        ),
        (
            {**MAP, "ItemReader": {"Resource": "arn:aws:states:::s3:getObject"}},
            {"mock": {"result": [1]}},
            "ItemReader data must be specified when testing a Map state with ItemReader specified.",
        ),
        (
            {"Type": "Pass", "End": True},
            {"context": {"Execution": {"Id": 1}}},
            "Invalid Context object provided: Execution.Id must be a string",
        ),
        (
            {"Type": "Pass", "End": True},
            {"context": {"Map": {}}},
            "Invalid Context object provided: 'Map' field is not supported when mocking a Context object",
        ),
        (
            {"Type": "Pass", "End": True},
            {"variables": [1]},
            "Invalid variables: they must be an object",
        ),
    ],
)
def test_what_aws_refuses(definition: dict[str, Any], options: dict[str, Any], message: str) -> None:
    assert refusal(definition, **options) == ("ValidationException", message)


def test_a_map_needs_a_mock() -> None:
    code, message = refusal(MAP)
    assert code == "InvalidDefinition"
    assert message.startswith("TestState API does not support Map or Parallel states.")


def test_an_invalid_state_is_refused_as_a_machine_would_be() -> None:
    code, message = refusal({"Type": "Pass"})
    assert code == "InvalidDefinition"
    assert message == (
        "Invalid State Machine Definition: 'SCHEMA_VALIDATION_FAILED: This object should have only one of the "
        "following fields: [Next, End] at /'"
    )


def test_a_mock_is_not_compared_with_the_api_if_it_is_told_so() -> None:
    mock = {"result": {"StatusCode": "200", "Payload": {"ok": 1}}, "fieldValidationMode": "NONE"}
    assert outcome_of(PAY, input=ORDER, mock=mock).status == "SUCCEEDED"


def test_a_required_field_of_the_api_may_be_left_out_only_if_what_is_there_is_checked() -> None:
    start = {"Type": "Task", "Resource": "arn:aws:states:::states:startExecution", "End": True}
    mock = {"result": {"ExecutionArn": "arn"}}
    assert refusal(start, mock=mock)[1] == "Mock result schema validation error: Required field 'StartDate' is missing"
    assert outcome_of(start, mock={**mock, "fieldValidationMode": "PRESENT"}).status == "SUCCEEDED"


@pytest.mark.parametrize(
    ("result", "status"), [({"Status": "SUCCEEDED"}, "SUCCEEDED"), ({"Status": "FINE"}, None)], ids=["known", "unknown"]
)
def test_a_mock_of_a_job_is_what_its_service_says_at_its_end(result: Any, status: str | None) -> None:
    start = {"Type": "Task", "Resource": "arn:aws:states:::states:startExecution.sync", "End": True}
    mock = {"result": result, "fieldValidationMode": "PRESENT"}
    if status is None:
        assert refusal(start, mock=mock)[1].endswith("Field 'Status' is not an expected value")
    else:
        assert outcome_of(start, mock=mock).status == status


def test_batches_are_shown_with_their_items_as_text() -> None:
    batching = {**MAP, "ItemBatcher": {"MaxItemsPerBatch": 2}}
    outcome = outcome_of(batching, input={"items": [1, 2, 3]}, mock={"result": [0, 0]})
    assert outcome.inspection["afterItemBatcher"] == [{"Items": ['{"n":1}', '{"n":2}']}, {"Items": ['{"n":3}']}]


def test_the_answer_in_the_form_of_aws_has_json_texts() -> None:
    state = {"Type": "Pass", "Result": [1], "Next": "S"}
    assert answered(state) == {"status": "SUCCEEDED", "output": "[1]", "nextState": "S"}
    assert answered(state, inspectionLevel="DEBUG")["inspectionData"] == {
        "input": "{}",
        "result": "[1]",
        "afterResultSelector": "[1]",
        "afterResultPath": "[1]",
    }


def test_a_request_of_another_form_is_refused() -> None:
    with pytest.raises(Refused, match="inspectionLevel"):
        answered({"Type": "Succeed"}, inspectionLevel="LOUD")


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"input": json.dumps("x" * 262_143)}, "InvalidExecutionInput"),
        ({"mock": {"result": json.dumps("x" * 262_143)}}, "ValidationException"),
    ],
)
def test_a_request_has_no_more_data_than_a_state_of_aws(fields: dict[str, Any], code: str) -> None:
    with pytest.raises(Refused, match="262144 bytes") as refused:
        answered({"Type": "Pass", "End": True}, **fields)
    assert refused.value.aws_code == code
