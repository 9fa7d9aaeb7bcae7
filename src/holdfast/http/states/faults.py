"""The errors of Step Functions' API: its names, its texts, status 400.

The names and when they come: AWS Step Functions API Reference, "Actions", each action's "Errors".
"""

from __future__ import annotations

from typing import Any, Final

from holdfast.http.messages import Response, json_response
from holdfast.http.problems import Problem
from holdfast.texts import masked

AMZ_JSON: Final = "application/x-amz-json-1.0"


class Fault(Problem):
    """An error that a caller of the API is told. ``code`` is its name there."""

    def __init__(self, code: str, message: str, status: int = 400, **more: Any) -> None:
        super().__init__(status, code, message, **more)

    def told(self, *headers: tuple[str, str]) -> Response:
        """The error as SDKs read it."""
        told = {"__type": self.code, "message": masked(self.detail), **self.more}
        return json_response(self.status, told, ("x-amzn-errortype", self.code), *headers, kind=AMZ_JSON)


def invalid_arn(arn: str) -> Fault:
    """The text is no ARN of what the request is about."""
    return Fault("InvalidArn", f"Invalid Arn: 'Invalid ARN format: {arn}'")


def invalid_name(name: str) -> Fault:
    """The name has characters, or a length, that names must not have."""
    return Fault("InvalidName", f"Invalid Name: '{name}'")


def invalid_request(message: str) -> Fault:
    """The request does not satisfy a constraint of its own."""
    return Fault("ValidationException", message)


def unsatisfied(value: object, field: str, constraint: str) -> Fault:
    """A field has a value that it must not have."""
    shown = "null" if value is None else f"'{value}'"
    violated = f"Value {shown} at '{field}' failed to satisfy constraint: Member must {constraint}"
    return invalid_request(f"1 validation error detected: {violated}")


def conflict(message: str) -> Fault:
    """What the request asks for does not fit what is there."""
    return Fault("ConflictException", message)


def no_machine(arn: str) -> Fault:
    """There is no such machine, or no such version of it."""
    return Fault("StateMachineDoesNotExist", f"State Machine Does Not Exist: '{arn}'")


def no_execution(arn: str) -> Fault:
    """There is no such execution."""
    return Fault("ExecutionDoesNotExist", f"Execution Does Not Exist: '{arn}'")


def no_activity(arn: str) -> Fault:
    """There is no such activity."""
    return Fault("ActivityDoesNotExist", f"Activity Does Not Exist: '{arn}'")


def no_resource(arn: str) -> Fault:
    """There is nothing of this name that could have tags, or be an alias or a map run."""
    return Fault("ResourceNotFound", f"Resource not found: '{arn}'", resourceName=arn)


def invalid_token() -> Fault:
    """A ``nextToken`` that was not answered here, or a task token that is none."""
    return Fault("InvalidToken", "Invalid Token: 'Invalid token'")
