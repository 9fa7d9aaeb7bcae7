"""The context object of a tested state: the one that the request gives, checked, or one made up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from holdfast.asl.definition import State, Task
from holdfast.asl.definition.states import Working
from holdfast.asl.jsontext import NotJson, read
from holdfast.asl.resources import resource_of
from holdfast.asl.teststate.refusal import Refused
from holdfast.asl.teststate.request import Request
from holdfast.asl.timestamps import iso_milliseconds
from holdfast.asl.validation.kinds import is_object

Check = Callable[[Any], str | None]
"""Says what a value must be, if it is not that."""


def text(value: Any) -> str | None:
    """A string."""
    return None if isinstance(value, str) else "a string"


def number(value: Any) -> str | None:
    """A number."""
    return None if isinstance(value, int | float) and not isinstance(value, bool) else "a number"


def anything(_value: Any) -> str | None:
    """Any value will do."""
    return None


FIELDS: Final[Mapping[str, Mapping[str, Check]]] = {
    "Execution": {
        "Id": text,
        "Input": anything,
        "Name": text,
        "RoleArn": text,
        "StartTime": text,
        "RedriveCount": number,
        "RedriveTime": text,
    },
    "State": {"EnteredTime": text, "Name": text, "RetryCount": number},
    "StateMachine": {"Id": text, "Name": text},
    "Task": {"Token": text},
}
WAITING: Final = ("sync", "waitForTaskToken")


def given_context(written: str, state: State) -> dict[str, Any]:
    """The context that a request gives. Raises ``Refused``."""
    try:
        context = read(written)
    except NotJson as error:
        raise invalid(f"it is not JSON: {error}") from error
    if not is_object(context):
        raise invalid("it must be an object")
    for name, value in context.items():
        if name not in FIELDS:
            raise invalid(f"'{name}' field is not supported when mocking a Context object")
        check_part(name, value)
    if "Task" in context and not waits(state):
        raise invalid(
            "Context object contains 'Task' when state is not a Task state with a '.sync' or '.waitForTaskToken' "
            "service integration pattern"
        )
    return context


def check_part(name: str, value: Any) -> None:
    """Compare one part of the context with what AWS has there."""
    if not is_object(value):
        raise invalid(f"{name} must be an object")
    for field, inner in value.items():
        if field not in FIELDS[name]:
            raise invalid(f"'{name}.{field}' field is not supported when mocking a Context object")
        if expected := FIELDS[name][field](inner):
            raise invalid(f"{name}.{field} must be {expected}")


def invalid(why: str) -> Refused:
    """The refusal of a context."""
    return Refused(f"Invalid Context object provided: {why}")


def waits(state: State) -> bool:
    """Whether a state is a Task that waits for something outside."""
    return isinstance(state, Task) and resource_of(state.resource).pattern.startswith(WAITING)


def made_context(request: Request, state: State, value: Any, now_ms: int, execution: str) -> dict[str, Any]:
    """The context of an execution that has only this state. ``execution`` is its name."""
    now = iso_milliseconds(now_ms)
    machine = f"{execution}-machine"
    own: dict[str, Any] = {"EnteredTime": now, "Name": "StateName"}
    if isinstance(state, Working):
        own["RetryCount"] = request.state_configuration.retrier_retry_count
    context: dict[str, Any] = {
        "Execution": {
            "Id": f"arn:aws:states:us-east-1:123456789012:express:{machine}:{execution}",
            "Input": value,
            "Name": execution,
            "RoleArn": request.role_arn,
            "StartTime": now,
        },
        "State": own,
        "StateMachine": {"Id": f"arn:aws:states:us-east-1:123456789012:stateMachine:{machine}", "Name": machine},
    }
    return {**context, "Task": {"Token": f"{execution}-token"}} if waits(state) else context
