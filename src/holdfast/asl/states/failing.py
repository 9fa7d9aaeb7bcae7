"""Fail: the end with an error."""

from __future__ import annotations

from typing import cast

from holdfast.asl import processing
from holdfast.asl.definition import Fail
from holdfast.asl.errors import StatesError
from holdfast.asl.templates import computed, of_type
from holdfast.asl.visit import Visit


def failure(visit: Visit) -> StatesError:
    """The error that a Fail state ends with. Raises ``EvaluationError``."""
    state = cast("Fail", visit.state)
    if state.jsonata:
        return StatesError(_evaluated(state.error, visit, "Error"), _evaluated(state.cause, visit, "Cause"))
    effective = processing.effective_input(visit)
    return StatesError(
        _read(state.error, state.error_path, visit, effective, "ErrorPath"),
        _read(state.cause, state.cause_path, visit, effective, "CausePath"),
    )


def _evaluated(template: str | None, visit: Visit, field: str) -> str | None:
    return None if template is None else cast("str", of_type("string", template, visit, field))


def _read(literal: str | None, path: str | None, visit: Visit, effective: object, field: str) -> str | None:
    if path is None:
        return literal
    return cast("str", computed(field, path, visit.about(effective), visit.randomness))
