"""Tasks that call services of AWS by botocore, whose answers these tests make up: nothing leaves the process."""

from __future__ import annotations

import io
import json

import botocore.session
import pytest
from botocore.response import StreamingBody
from botocore.stub import ANY, Stubber

import holdfast as hf
from holdfast.asl.amazon import Amazon
from holdfast.asl.work import Services

FUNCTION = "arn:aws:lambda:us-east-1:000000000000:function:charge"


@pytest.fixture
def aws(monkeypatch):
    """``aws(service)``: a stub of the service's client, which the next machine calls."""
    stubs: dict[str, Stubber] = {}

    def stub(service: str) -> Stubber:
        session = botocore.session.get_session()
        session.set_credentials("anybody", "nothing")
        client = session.create_client(service, region_name="us-east-1")
        stubs[service] = Stubber(client)
        stubs[service].activate()
        return stubs[service]

    monkeypatch.setattr("holdfast.asl.work.Amazon", lambda: Amazon(lambda service: stubs[service].client))
    yield stub
    for each in stubs.values():
        each.assert_no_pending_responses()


async def output_of(app, resource, given):
    task = {"Type": "Task", "Resource": resource, "End": True}
    machine = app.state_machine("m", {"StartAt": "Call", "States": {"Call": task}}, aws=True)
    async with app.worker():
        return await (await machine.start(given, id="e"))


def body(value) -> StreamingBody:
    data = json.dumps(value).encode()
    return StreamingBody(io.BytesIO(data), len(data))


async def test_a_function_gets_the_input_and_answers_the_output(memory_world, aws):
    asked = {"FunctionName": FUNCTION, "Payload": b'{"id":7}'}
    aws("lambda").add_response("invoke", {"StatusCode": 200, "Payload": body({"paid": True})}, asked)
    assert await output_of(memory_world.app(), FUNCTION, {"id": 7}) == {"paid": True}


async def test_the_error_of_a_function_is_that_of_the_state(memory_world, aws):
    failure = {"errorType": "CardDeclined", "errorMessage": "no funds"}
    answer = {"StatusCode": 200, "FunctionError": "Unhandled", "Payload": body(failure)}
    aws("lambda").add_response("invoke", answer, {"FunctionName": FUNCTION, "Payload": ANY})
    with pytest.raises(hf.ExecutionFailed) as told:
        await output_of(memory_world.app(), FUNCTION, {})
    assert told.value.__cause__.error == "CardDeclined"
    assert json.loads(told.value.__cause__.cause) == failure


async def test_an_optimised_integration_takes_json_for_a_message(memory_world, aws):
    asked = {"QueueUrl": "https://queue.example/q", "MessageBody": '{"order":7}'}
    aws("sqs").add_response("send_message", {"MessageId": "m-1", "MD5OfMessageBody": "x"}, asked)
    given = {"QueueUrl": "https://queue.example/q", "MessageBody": {"order": 7}}
    told = await output_of(memory_world.app(), "arn:aws:states:::sqs:sendMessage", given)
    assert told == {"MessageId": "m-1", "MD5OfMessageBody": "x"}


async def test_names_of_the_sdk_begin_with_a_capital_both_ways(memory_world, aws):
    asked = {"stateMachineArn": "arn:aws:states:us-east-1:000000000000:stateMachine:m", "input": '{"a":1}'}
    answer = {"executionArn": "arn:aws:states:us-east-1:000000000000:execution:m:e", "startDate": 1}
    aws("stepfunctions").add_response("start_execution", answer, asked)
    given = {"StateMachineArn": asked["stateMachineArn"], "Input": {"a": 1}}
    told = await output_of(memory_world.app(), "arn:aws:states:::aws-sdk:sfn:startExecution", given)
    assert told["ExecutionArn"] == answer["executionArn"] and "StartDate" in told


@pytest.mark.parametrize(
    ("resource", "error"),
    [
        ("arn:aws:states:::aws-sdk:dynamodb:getItem", "DynamoDb.ResourceNotFoundException"),
        ("arn:aws:states:::dynamodb:getItem", "DynamoDB.ResourceNotFoundException"),
    ],
)
async def test_the_error_of_a_service_is_named_as_step_functions_does(memory_world, aws, resource, error):
    aws("dynamodb").add_client_error("get_item", "ResourceNotFoundException", "no table", 400)
    with pytest.raises(hf.ExecutionFailed) as told:
        await output_of(memory_world.app(), resource, {"TableName": "t", "Key": {"id": {"S": "7"}}})
    assert told.value.__cause__.error == error
    assert told.value.__cause__.cause.startswith("no table (Service: ")


def test_without_aws_nothing_is_called_that_is_not_mapped(memory_world):
    app = memory_world.app()
    task = {"Type": "Task", "Resource": "arn:aws:states:::sqs:sendMessage", "End": True}
    with pytest.raises(hf.ConfigurationError, match="nothing is mapped"):
        app.state_machine("m", {"StartAt": "Call", "States": {"Call": task}})


def test_what_waits_for_a_job_is_not_offered(memory_world):
    assert Amazon().target("arn:aws:states:::batch:submitJob.sync") is None
    assert Services(memory_world.app(), {}, aws=True).offers("arn:aws:states:::batch:submitJob.sync") is False
