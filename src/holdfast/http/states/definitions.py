"""Checking definitions: what CreateStateMachine refuses, ValidateStateMachineDefinition, and TestState."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from holdfast.asl.stored.records import EXPRESS
from holdfast.asl.teststate import answer
from holdfast.asl.teststate.refusal import Refused
from holdfast.asl.validation import Profile, rejection, response, validate
from holdfast.http.states import asked
from holdfast.http.states.faults import Fault
from holdfast.http.states.service import Answer, Service, bounded

MOST_DIAGNOSTICS: Final = 100


def check_definition(definition: str, type: str) -> None:
    """Raise ``Fault`` for a definition that Step Functions would not take, in its words."""
    told = rejection(validate(definition, Profile(express=type == EXPRESS)))
    if told is not None:
        raise Fault("InvalidDefinition", told)


async def validated(_service: Service, request: asked.ValidateDefinition) -> Answer:
    """What is wrong with a definition, without keeping it."""
    most = bounded(request.max_results, MOST_DIAGNOSTICS) or MOST_DIAGNOSTICS
    found = validate(request.definition, Profile(express=request.type == EXPRESS))
    return response(found, severity=request.severity, most=most)


async def tested(_service: Service, request: asked.TestState) -> Answer:
    """Run one state, with a mock of its work; nothing is called and nothing is kept."""
    fields: dict[str, Any] = msgspec.to_builtins(request)
    try:
        return await answer({name: value for name, value in fields.items() if value is not None})
    except Refused as refused:
        raise Fault(refused.aws_code, str(refused)) from None
