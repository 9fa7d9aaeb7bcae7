"""The protocol behind a function URL: a synchronous start is done by the invocation itself."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from tests.http.states.test_executions import definition, task
from tests.http.states.test_machines import ROLE, arn
from tests.http.test_lambda_events import function_url

import holdfast as hf

TOKEN = "7" * 64
TOKENS = hf.BearerTokens({"till": TOKEN}, signatures=True)


def asked(action: str, token: str = TOKEN, **fields: Any) -> dict[str, Any]:
    headers = {"authorization": f"Bearer {token}", "x-amz-target": f"AWSStepFunctions.{action}"}
    return function_url("POST", "/", iam=False, rawQueryString="", headers=headers, cookies=[], body=json.dumps(fields))


def read(answer: dict[str, Any]) -> Any:
    body = answer["body"]
    return json.loads(base64.b64decode(body) if answer["isBase64Encoded"] else body)


def test_a_deployed_function_creates_a_machine_and_runs_it() -> None:
    app = hf.App("shop", home="memory://")

    @app.step
    async def charge(order: dict[str, int]) -> str:
        return f"paid {order['cents']}"

    app.state_machines()
    handler = app.lambda_handler(http=TOKENS, asl=True)
    text = definition(Charge=task("charge"))
    created = handler(asked("CreateStateMachine", name="m", definition=text, roleArn=ROLE, type="EXPRESS"))
    assert read(created)["stateMachineArn"] == arn("m")
    told = handler(asked("StartSyncExecution", stateMachineArn=arn("m"), input='{"cents": 5}'))
    assert (told["statusCode"], read(told)["output"]) == (200, '"paid 5"')
    nobody = handler(asked("ListStateMachines", token="8" * 64))
    assert (nobody["statusCode"], read(nobody)["__type"]) == (401, "UnrecognizedClientException")
    handler.close()


def test_without_callers_that_are_known_a_function_does_not_speak_it() -> None:
    with pytest.raises(hf.ConfigurationError, match="needs callers that are known"):
        hf.App("shop", home="memory://").lambda_handler(asl=True)
