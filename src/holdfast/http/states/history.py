"""GetExecutionHistory: the events of AWS, from a replay of the journal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from holdfast.asl.arns import EXPRESS, STATE_MACHINE
from holdfast.asl.ending import ABORTED
from holdfast.asl.events import Event
from holdfast.asl.jsontext import compact
from holdfast.asl.reading import events_of
from holdfast.asl.resources import resource_of
from holdfast.http.states import asked
from holdfast.http.states.faults import invalid_arn
from holdfast.http.states.names import execution_arn
from holdfast.http.states.service import Answer, Service, seconds
from holdfast.http.states.standing import Standing, of_head, standing_of

DATA: Final = ("input", "output", "parameters", "assignedVariables")
"""Details that are payloads: JSON as text, which ``includeExecutionData=False`` leaves out."""

_FIELDS: Final = {
    "StateEntered": "stateEnteredEventDetails",
    "StateExited": "stateExitedEventDetails",
}


async def get(service: Service, request: asked.GetHistory) -> Answer:
    """The events of an execution, a page at a time."""
    arn = execution_arn(request.execution_arn)
    if arn.kind == EXPRESS:
        raise invalid_arn(arn.text)
    standing = await standing_of(service, arn)
    runtime, partition = service.call.app.runtime(), standing.head.partition
    recorded, events = await events_of(runtime, partition)
    standing = of_head(service, recorded.head)
    told = [_told(each, standing, request) for each in _with_resources((*events, *_end(standing, events)))]
    if request.reverse_order:
        told.reverse()
    return service.sliced("events", told, request)


def _end(standing: Standing, events: Sequence[Event]) -> Iterator[Event]:
    """The event of an end that the body does not tell: that it was stopped, or that its time was over."""
    error, cause = standing.failure
    last = events[-1].id if events else 0
    at = (standing.record.ended_at or 0) / 1000
    types = {ABORTED: "ExecutionAborted", "TIMED_OUT": "ExecutionTimedOut"}
    if standing.status in types:
        yield Event(last + 1, last, at, types[standing.status], {"error": error, "cause": cause})


def _with_resources(events: Sequence[Event]) -> Iterator[Event]:
    """The events, with the resource on each event of a task, as AWS has it: only the first of them tells it here."""
    scheduled: dict[int, str] = {}
    for event in events:
        if event.type == "TaskScheduled":
            scheduled[event.id] = str(event.details["resource"])
        elif event.before in scheduled and event.type.startswith("Task") and "State" not in event.type:
            scheduled[event.id] = scheduled[event.before]
        resource = scheduled.get(event.id)
        yield event if resource is None else replace(event, details={**event.details, **_named(resource)})


def _named(resource: str) -> dict[str, str]:
    """A resource as histories tell it.

    >>> _named("arn:aws:states:::sqs:sendMessage.waitForTaskToken")
    {'resourceType': 'sqs', 'resource': 'sendMessage.waitForTaskToken'}
    """
    parts = resource_of(resource)
    if not parts.call:
        return {"resource": resource}
    kind, _, name = parts.call.rpartition(":")
    return {"resourceType": kind, "resource": f"{name}.{parts.pattern}" if parts.pattern else name}


def _told(event: Event, standing: Standing, request: asked.GetHistory) -> Answer:
    details = dict(event.details)
    if event.type == "ExecutionStarted":
        about = standing.about
        details["roleArn"] = about.role_arn
        if about.version:
            details["stateMachineVersionArn"] = about.account.arn(STATE_MACHINE, about.machine, about.version)
        if about.alias:
            details["stateMachineAliasArn"] = about.account.arn(STATE_MACHINE, about.machine, about.alias)
    told: Answer = {
        "id": event.id,
        "previousEventId": event.before,
        "timestamp": seconds(round(event.at * 1000)),
        "type": event.type,
    }
    if details:
        told[details_field(event.type)] = _details(event.type, details, with_data=request.include_execution_data)
    return told


def details_field(type: str) -> str:
    """The field of an event's details.

    >>> details_field("PassStateEntered"), details_field("LambdaFunctionFailed")
    ('stateEnteredEventDetails', 'lambdaFunctionFailedEventDetails')
    """
    for end, field in _FIELDS.items():
        if type.endswith(end):
            return field
    return f"{type[0].lower()}{type[1:]}EventDetails"


def _details(type: str, details: Mapping[str, Any], *, with_data: bool) -> Answer:
    told: Answer = {}
    for name, value in details.items():
        if value is None and name in ("error", "cause"):
            continue
        if name not in DATA:
            told[name] = value
        elif with_data:
            told |= _payload(type, name, value)
    return told


def _payload(type: str, name: str, value: Any) -> Answer:
    if name == "assignedVariables":
        texts = {each: _text(given) for each, given in value.items()}
        return {name: texts, "assignedVariablesDetails": {"truncated": False}}
    if name == "parameters" and not type.startswith("TaskScheduled"):
        return {"input": _text(value), "inputDetails": {"truncated": False}}  # what a function is scheduled with
    if name == "parameters":
        return {name: _text(value)}
    return {name: _text(value), f"{name}Details": {"truncated": False}}


_text: Final[Callable[[Any], str]] = compact
