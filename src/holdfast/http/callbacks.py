"""Routes of callbacks: a caller needs only the token to answer, and an operator none."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from holdfast.commands.callback import CALLBACK_FAILED, AnswerCallback, Complete, Fail, Heartbeat
from holdfast.http.api import Call
from holdfast.http.messages import Response, empty_response, json_response


async def verify(call: Call) -> None:
    """Refuse a token that is not genuine, before the body is read."""
    await call.callback().verify()


async def complete(call: Call) -> Response:
    """Complete the callback with a value: the body, any JSON."""
    call.query()
    await call.perform(Complete(call.names["token"], call.value()))
    return empty_response()


class Failure(Struct, frozen=True, forbid_unknown_fields=True):
    """The failure that the other side reports."""

    message: str
    type: str = CALLBACK_FAILED


async def fail(call: Call) -> Response:
    """Fail the callback: the workflow gets ``StepFailed`` with this type and message."""
    call.query()
    failure = call.fields(Failure)
    await call.perform(Fail(call.names["token"], failure.message, failure.type))
    return empty_response()


async def heartbeat(call: Call) -> Response:
    """Report that the work continues."""
    call.query()
    await call.perform(Heartbeat(call.names["token"]))
    return empty_response()


class Answer(Struct, frozen=True, forbid_unknown_fields=True):
    """The answer of an operator: a value, or an error."""

    value: Any = None
    error: str | None = None
    type: str = CALLBACK_FAILED


async def answer(call: Call) -> Response:
    """Answer a callback that an execution waits for, by its operation."""
    call.query()
    workflow, id, operation = call.names["workflow"], call.names["id"], call.names["operation"]
    given = call.fields(Answer)
    await call.perform(AnswerCallback(workflow, id, operation, given.value, given.error, given.type))
    told = {"workflow": workflow, "id": id, "operation": operation, "action": "answer"}
    return json_response(200, told)
