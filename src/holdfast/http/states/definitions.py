"""Checking definitions: what CreateStateMachine refuses, and ValidateStateMachineDefinition."""

from __future__ import annotations

from holdfast.asl.validation import Profile, rejection, validate
from holdfast.http.states.faults import Fault


def check_definition(definition: str, type: str) -> None:
    """Raise ``Fault`` for a definition that Step Functions refuses, in its words."""
    if message := rejection(validate(definition, Profile(express=type == "EXPRESS"))):
        raise Fault("InvalidDefinition", message)
