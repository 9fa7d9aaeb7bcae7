"""Task: work outside of the machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from holdfast.asl import processing
from holdfast.asl.definition import Task
from holdfast.asl.errors import RUNTIME, EvaluationError
from holdfast.asl.jsontext import compact
from holdfast.asl.paths import read_definite
from holdfast.asl.processing import Left
from holdfast.asl.resources import Limits, is_lambda, resource_of
from holdfast.asl.templates import of_type
from holdfast.asl.visit import Visit

if TYPE_CHECKING:
    from holdfast.asl.frames import Frame, Run


async def performed(run: Run, frame: Frame, visit: Visit) -> Left:
    """How a Task is left, once its work is done. Raises ``StatesError``."""
    state = cast("Task", visit.state)
    if resource_of(state.resource).pattern:
        visit = visit.with_context(Task={"Token": run.tasks.token(run, frame, visit)})
    effective = processing.effective_input(visit)
    given = processing.arguments(visit, effective)
    limits = Limits(
        _seconds(visit, effective, "TimeoutSeconds", state.timeout_seconds, state.timeout_seconds_path),
        _seconds(visit, effective, "HeartbeatSeconds", state.heartbeat_seconds, state.heartbeat_seconds_path),
    )
    result = await run.tasks.perform(run, frame, visit, given, limits)
    run.quota.check(result, state.resource if is_lambda(state.resource) else state.name)
    visit.note("result", result)
    return processing.left(visit, effective, result)


def _seconds(visit: Visit, effective: Any, field: str, seconds: int | str | None, path: str | None) -> float | None:
    if path is not None:
        value = read_definite(path, visit.about(effective))
        if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
            raise EvaluationError(
                RUNTIME, f"The {field}Path parameter does not reference a positive integer: {path} == {compact(value)}"
            )
        return float(value)
    if isinstance(seconds, str):
        return float(of_type("number", seconds, visit, field))
    return None if seconds is None else float(seconds)
