"""What a request may hold: what is refused is told in the words of AWS, and under its names."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.http.states.conftest import REGION

import holdfast as hf
from holdfast.http.api import Options
from holdfast.http.messages import Loopback
from holdfast.http.respond import respond

ARN = f"arn:aws:states:{REGION}:000000000000:"
DEFINITION = '{"StartAt": "P", "States": {"P": {"Type": "Pass", "End": true}}}'
NULL = "failed to satisfy constraint: Member must not be null"


async def asked(app: hf.App, action: str, body: Any) -> tuple[int, str, str]:
    """The status of the answer, and of an error its name and its message."""
    request = hf.Request(
        method="POST",
        path="/",
        query="",
        headers=(("host", "127.0.0.1"), ("x-amz-target", f"AWSStepFunctions.{action}")),
        body=body if isinstance(body, bytes) else json.dumps(body).encode(),
        source=Loopback(),
    )
    async with app:
        answered = await respond(app, request, Options(asl=True, authenticate=lambda _request: "tester"))
    told = json.loads(answered.body)
    return answered.status, told.get("__type", ""), told.get("message", "")


@pytest.mark.parametrize(
    ("action", "body", "name", "message"),
    [
        ("DescribeStateMachine", {}, "ValidationException", f"Value null at 'stateMachineArn' {NULL}"),
        ("DescribeStateMachine", {"stateMachineArn": None}, "ValidationException", f"'stateMachineArn' {NULL}"),
        ("CreateStateMachine", {"name": "m"}, "ValidationException", f"Value null at 'definition' {NULL}"),
        ("DescribeStateMachine", {"stateMachineArn": 5}, "SerializationException", "stateMachineArn: expected str"),
        ("ListStateMachines", {"maxResults": "5"}, "SerializationException", "maxResults: expected int, got str"),
        ("ListStateMachines", b"{", "SerializationException", "the request: "),
        ("ListStateMachines", b"[]", "SerializationException", "expected object, got array"),
        ("ListStateMachines", b'{"nextToken": "\xff"}', "SerializationException", ""),
        ("ListStateMachines", {"maxResults": -1}, "ValidationException", "have value greater than or equal to 0"),
        ("ListStateMachines", {"maxResults": 1001}, "ValidationException", "have value less than or equal to 1000"),
        (
            "ValidateStateMachineDefinition",
            {"definition": DEFINITION, "maxResults": 101},
            "ValidationException",
            "'101' at 'maxResults' failed to satisfy constraint: Member must have value less than or equal to 100",
        ),
        (
            "ValidateStateMachineDefinition",
            {"definition": DEFINITION, "type": "FAST"},
            "ValidationException",
            "'FAST' at 'type' failed to satisfy constraint: Member must satisfy enum value set: [STANDARD, EXPRESS]",
        ),
        (
            "DescribeExecution",
            {"executionArn": f"{ARN}execution:m:e", "includedData": "SOME"},
            "ValidationException",
            "Value 'SOME' at 'includedData' failed to satisfy constraint: Member must satisfy enum value set",
        ),
        (
            "ListExecutions",
            {"stateMachineArn": f"{ARN}stateMachine:m", "statusFilter": "SOME"},
            "ValidationException",
            "Value 'SOME' at 'statusFilter' failed to satisfy constraint: Member must satisfy enum value set",
        ),
        ("DescribeStateMachine", {"stateMachineArn": f"{ARN}stateMachine:a\0b"}, "InvalidArn", "Invalid ARN format"),
        ("DescribeStateMachine", {"stateMachineArn": f"{ARN}stateMachine:a#b"}, "InvalidArn", "Invalid ARN format"),
        ("DescribeActivity", {"activityArn": f"{ARN}activity:{'a' * 600}"}, "InvalidArn", "Invalid ARN format"),
        ("ListTagsForResource", {"resourceArn": f"{ARN}stateMachine:a\x85b"}, "InvalidArn", "Invalid ARN format"),
    ],
)
async def test_what_a_request_must_not_hold(app: hf.App, action: str, body: Any, name: str, message: str) -> None:
    status, code, told = await asked(app, action, body)
    assert (status, code) == (400, name), told
    assert message in told


async def test_null_is_what_is_not_given(app: hf.App) -> None:
    made = {"name": "m", "definition": DEFINITION, "roleArn": "arn:aws:iam::000000000000:role/r"}
    tags = [{"key": "a", "value": None}]
    assert (await asked(app, "CreateStateMachine", made | {"type": None, "publish": None, "tags": tags}))[0] == 200
    assert (await asked(app, "ListStateMachines", {"maxResults": None, "nextToken": None}))[0] == 200


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("", "b", "Value '' at 'tags.1.member.key' failed to satisfy constraint: Member must have length"),
        (
            "k" * 129,
            "b",
            "'tags.1.member.key' failed to satisfy constraint: Member must have length less than",
        ),
        ("k", "b" * 257, "at 'tags.1.member.value' failed to satisfy constraint: Member must have length less than"),
    ],
)
async def test_tags_have_bounds(app: hf.App, key: str, value: str, message: str) -> None:
    made = {"name": "m", "definition": DEFINITION, "roleArn": "r", "tags": [{"key": key, "value": value}]}
    status, code, told = await asked(app, "CreateStateMachine", made)
    assert (status, code) == (400, "ValidationException")
    assert message in told
