"""Pass and Succeed: data go through."""

from __future__ import annotations

from typing import cast

from msgspec import UNSET

from holdfast.asl import processing
from holdfast.asl.definition import Pass
from holdfast.asl.processing import Left
from holdfast.asl.visit import Visit


def passed(visit: Visit) -> Left:
    """How a Pass or a Succeed is left. Raises ``EvaluationError``."""
    effective = processing.effective_input(visit)
    state = visit.state
    if state.jsonata or not isinstance(state, Pass):
        return processing.left(visit, effective)
    given = processing.arguments(visit, effective)
    result = given if state.result is UNSET else cast("object", state.result)
    visit.note("result", result)
    return processing.left(visit, effective, result)
