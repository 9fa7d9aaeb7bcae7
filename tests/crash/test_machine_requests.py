"""Requests of Step Functions' protocol, with a crash, an outage or a lost answer at each write: the client sends again.

Whatever a request was about is so once: a machine is created, an execution started, answered, stopped, redriven.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final

import pytest
from tests.crash.stage import Stage

import holdfast as hf
from holdfast.app import App
from holdfast.errors import StoreUnavailable
from holdfast.http.api import Options
from holdfast.http.messages import Loopback
from holdfast.http.respond import respond
from holdfast.testing import Ledger, Scenario
from holdfast.testing.simulation import Histories
from holdfast.testing.world import User

LOOK_SECONDS: Final = 0.5
ROLE: Final = "arn:aws:iam::000000000000:role/role"
TOKEN: Final = {"token.$": "$$.Task.Token", "name.$": "$$.Execution.Name"}
ASK: Final = {
    "Type": "Task",
    "Resource": "arn:aws:states:::sqs:sendMessage.waitForTaskToken",
    "Parameters": TOKEN,
    "End": True,
}
DOWN: Final = {"Type": "Task", "Resource": "arn:aws:states:::lambda:invoke", "End": True}
OVER: Final = frozenset({"SUCCEEDED", "FAILED", "ABORTED"})


class Client:
    """Sends requests until they are answered. A process that dies loses its client: the next one begins again."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def ask(self, action: str, **fields: Any) -> dict[str, Any]:
        """The answer to a request, or the code of the fault as ``fault``."""
        headers = (("host", "127.0.0.1"), ("x-amz-target", f"AWSStepFunctions.{action}"))
        headers = (*headers, ("content-type", "application/x-amz-json-1.0"))
        body = json.dumps(fields).encode()
        request = hf.Request(method="POST", path="/", query="", headers=headers, body=body, source=Loopback())
        while True:
            try:
                answered = await respond(self._app, request, Options(asl=True))
            except StoreUnavailable:
                await asyncio.sleep(LOOK_SECONDS)
                continue
            if answered.status == 200:
                return dict(json.loads(answered.body))
            if answered.status < 500:
                return {"fault": json.loads(answered.body)["__type"].rpartition("#")[2]}
            await asyncio.sleep(LOOK_SECONDS)

    async def create(self, name: str, state: dict[str, Any]) -> str:
        """A machine of one state."""
        definition = json.dumps({"StartAt": "One", "States": {"One": state}})
        made = await self.ask("CreateStateMachine", name=name, definition=definition, roleArn=ROLE)
        return str(made["stateMachineArn"])

    async def start(self, machine: str, name: str) -> str:
        """An execution, which is started once: one that has ended is not started again."""
        started = await self.ask("StartExecution", stateMachineArn=machine, name=name, input='{"n":1}')
        assert started.get("fault") in (None, "ExecutionAlreadyExists")
        return machine.replace(":stateMachine:", ":execution:") + f":{name}"

    async def over(self, execution: str, *states: str) -> dict[str, Any]:
        """What is told of an execution once it is in one of these states."""
        while (told := await self.ask("DescribeExecution", executionArn=execution))["status"] not in (states or OVER):
            await asyncio.sleep(LOOK_SECONDS)
        return told


def answered(app: App, ledger: Ledger) -> User:
    """Two tokens, one answered well and one with an error; each answer is sent twice."""
    tokens: dict[str, str] = ledger.notes.setdefault("tokens", {})

    async def send(given: Any) -> None:
        tokens[given["name"]] = given["token"]

    app.state_machines(tasks={"sqs:sendMessage": send})

    async def user() -> Any:
        client = Client(app)
        machine = await client.create("asking", ASK)
        told = []
        for name, action, fields in (
            ("well", "SendTaskSuccess", {"output": '{"paid":true}'}),
            ("badly", "SendTaskFailure", {"error": "Declined", "cause": "no money"}),
        ):
            execution = await client.start(machine, name)
            while name not in tokens:
                await asyncio.sleep(LOOK_SECONDS)
            for _ in range(2):
                assert await client.ask(action, taskToken=tokens[name], **fields) == {}
            ended = await client.over(execution)
            told.append((ended["status"], ended.get("output"), ended.get("error")))
        return told

    return user


def stopped(app: App, ledger: Ledger) -> User:
    """An execution that is stopped, by a request that is sent twice."""
    del ledger
    app.state_machines(tasks={})

    async def user() -> Any:
        client = Client(app)
        execution = await client.start(
            await client.create("waiting", {"Type": "Wait", "Seconds": 9_000, "End": True}), "w"
        )
        for _ in range(2):
            asked = await client.ask("StopExecution", executionArn=execution, error="Enough", cause="of it")
            assert "stopDate" in asked
        ended = await client.over(execution)
        return ended["status"], ended["error"], ended["cause"]

    return user


def redriven(app: App, ledger: Ledger) -> User:
    """An execution that failed, and is redriven once, however often it is asked for."""

    async def invoke(_given: Any) -> str:
        if not ledger.notes.get("mended"):
            raise hf.asl.Error("Down", "not yet")
        return ledger.effect("done")

    app.state_machines(tasks={"lambda:invoke": invoke})

    async def user() -> Any:
        client = Client(app)
        execution = await client.start(await client.create("failing", DOWN), "f")
        if not ledger.notes.get("mended"):
            await client.over(execution)
            ledger.notes["mended"] = True
        for _ in range(2):
            asked = await client.ask("RedriveExecution", executionArn=execution, clientToken="once")
            assert asked.get("fault") is None, asked
        ended = await client.over(execution, "SUCCEEDED")
        return ended["status"], ended["redriveCount"]

    return user


ANSWERED = Scenario("tokens answered by requests", answered, histories=Histories.FREE)
STOPPED = Scenario("a stop by request", stopped, histories=Histories.FREE)
REDRIVEN = Scenario("a redrive by request", redriven, histories=Histories.FREE)


@pytest.mark.parametrize("each", [ANSWERED, STOPPED, REDRIVEN], ids=str)
def test_a_crash_at_any_write_changes_nothing(each: Scenario, stage: Stage) -> None:
    stage.crash(each)
