"""Checking definitions: what CreateStateMachine refuses, and ValidateStateMachineDefinition."""

from __future__ import annotations

import json

from holdfast.http.states.faults import Fault


def check_definition(definition: str, type: str) -> None:  # noqa: ARG001 - express machines may do less
    """Raise ``Fault`` for a definition that is not one."""
    try:
        json.loads(definition)
    except ValueError as error:
        raise Fault(
            "InvalidDefinition", f"Invalid State Machine Definition: 'INVALID_JSON_DESCRIPTION: {error}'"
        ) from None
