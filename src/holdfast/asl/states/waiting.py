"""Wait: the machine goes on later. A wait is a durable timer; it costs no write of its own."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, cast

from holdfast.asl import processing
from holdfast.asl.definition import Wait
from holdfast.asl.errors import QUERY_EVALUATION_ERROR, RUNTIME, EvaluationError
from holdfast.asl.jsontext import compact, is_number
from holdfast.asl.paths import read_definite
from holdfast.asl.processing import Left
from holdfast.asl.templates import evaluated
from holdfast.asl.timestamps import parse_timestamp
from holdfast.asl.visit import Visit

if TYPE_CHECKING:
    from holdfast.asl.frames import Run

LONGEST_SECONDS: Final = 2**31 - 1
"""The longest wait of AWS: about 68 years."""

LONGEST_TIMER_SECONDS: Final = 3_650 * 86_400.0
"""What one timer of ours can wait; a longer wait is several."""


async def waited(run: Run, visit: Visit) -> Left:
    """How a Wait is left, once its time has come. Raises ``EvaluationError``."""
    effective = processing.effective_input(visit)
    seconds = seconds_of(visit, effective)
    await pause(run, seconds)
    return processing.left(visit, effective)


async def pause(run: Run, seconds: float) -> None:
    """Wait durably; not at all if there is nothing to wait for."""
    while seconds > 0:
        run.pace.operations += 1
        await asyncio.sleep(min(seconds, LONGEST_TIMER_SECONDS))
        seconds -= LONGEST_TIMER_SECONDS


def seconds_of(visit: Visit, effective: Any) -> float:
    """How long a Wait waits from now on. Raises ``EvaluationError``."""
    state = cast("Wait", visit.state)
    if state.jsonata:
        return _by_jsonata(state, visit)
    if state.seconds is not None:
        return float(state.seconds)
    if state.seconds_path is not None:
        return _by_seconds_path(state.seconds_path, visit, effective)
    if state.timestamp_path is not None:
        path = state.timestamp_path
        value = _referenced("TimestampPath", path, visit, effective)
        moment = parse_timestamp(value) if isinstance(value, str) else None
        if moment is None:
            shown = value if isinstance(value, str) else compact(value)
            raise EvaluationError(
                RUNTIME,
                "The TimestampPath parameter does not reference a valid ISO-8601 extended offset date-time format "
                f"string: {path} == {shown}",
            )
        return _until(moment, visit)
    return _until_text(str(state.timestamp), visit, RUNTIME)


def _referenced(field: str, path: str, visit: Visit, effective: Any) -> Any:
    try:
        return read_definite(path, visit.about(effective))
    except EvaluationError as missing:
        told = f"The {field} parameter does not reference an input value: {path}"
        raise EvaluationError(RUNTIME, told) from missing


def _by_seconds_path(path: str, visit: Visit, effective: Any) -> float:
    value = _referenced("SecondsPath", path, visit, effective)
    shown = value if isinstance(value, str) else compact(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise EvaluationError(RUNTIME, f"The SecondsPath parameter cannot be parsed as a long value: {path} == {shown}")
    if value < 0:
        raise EvaluationError(RUNTIME, f"The SecondsPath parameter references a negative value: {path} == {shown}")
    return _bounded(value)


def _by_jsonata(state: Wait, visit: Visit) -> float:
    if state.seconds is None:
        value = evaluated(state.timestamp, visit, "Timestamp")
        return _until_text(value if isinstance(value, str) else compact(value), visit, QUERY_EVALUATION_ERROR)
    value = evaluated(state.seconds, visit, "Seconds")
    if not is_number(value) or value < 0 or value != int(value):
        raise EvaluationError(
            QUERY_EVALUATION_ERROR,
            f"The Seconds parameter does not evaluate to a positive integer: {compact(value)}",
        )
    return _bounded(value)


def _until_text(text: str, visit: Visit, error: str) -> float:
    moment = parse_timestamp(text)
    if moment is None:
        raise EvaluationError(
            error,
            "The Timestamp parameter is not a valid ISO-8601 extended offset date-time format string: " + text,
        )
    return _until(moment, visit)


def _until(moment: datetime, visit: Visit) -> float:
    return _bounded((moment - datetime.fromtimestamp(visit.now_ms / 1000, UTC)).total_seconds())


def _bounded(seconds: float) -> float:
    if seconds > LONGEST_SECONDS:
        raise EvaluationError(RUNTIME, "Wait state delay is too long.")
    return max(0.0, float(seconds))
