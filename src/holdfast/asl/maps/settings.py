"""How many iterations of a Map may run at a time, and how many may fail."""

from __future__ import annotations

import re
from typing import Any, Final, TypeGuard, cast

from holdfast.asl.definition import Map
from holdfast.asl.errors import RUNTIME, StatesError
from holdfast.asl.jsontext import compact, is_number
from holdfast.asl.orders import Tolerance
from holdfast.asl.paths import read_definite
from holdfast.asl.templates import of_type
from holdfast.asl.visit import Visit

_INTEGER: Final = re.compile(r"-?[0-9]{1,18}")
"""``str.isdigit`` accepts more than ``int`` reads, such as "²", and ``int`` more than JSON has, such as "٣"."""


def concurrency_of(visit: Visit, effective: Any) -> int:
    """How many iterations a Map runs at a time; 0 is no limit of its own. Raises ``StatesError``."""
    state = cast("Map", visit.state)
    value = _value(visit, effective, "MaxConcurrency", state.max_concurrency, state.max_concurrency_path) or 0
    if not _is_integer(value):
        raise _no_integer("MaxConcurrency", value, state.max_concurrency_path)
    if value < 0:
        raise StatesError(RUNTIME, f"Expected non-negative integer for MaxConcurrency, got '{value}' instead.")
    visit.note("maxConcurrency", value)
    return int(value)


def tolerance_of(visit: Visit, effective: Any) -> Tolerance:
    """How many iterations of a Map may fail. Raises ``StatesError``."""
    state = cast("Map", visit.state)
    count = _count(visit, effective, state)
    percentage = _percentage(visit, effective, state)
    if count is not None:
        visit.note("toleratedFailureCount", count)
    if percentage is not None:
        visit.note("toleratedFailurePercentage", percentage)
    return Tolerance(count, percentage)


def _count(visit: Visit, effective: Any, state: Map) -> int | None:
    given, path = state.tolerated_failure_count, state.tolerated_failure_count_path
    value = _tolerance(visit, effective, "ToleratedFailureCount", given, path)
    if value is None and path is None:
        return None
    if not _is_integer(value):
        raise _no_integer("ToleratedFailureCount", value, path)
    if value < 0:
        raise StatesError(RUNTIME, "ToleratedFailureCount cannot be negative.")
    return int(value)


def _percentage(visit: Visit, effective: Any, state: Map) -> float | None:
    given, path = state.tolerated_failure_percentage, state.tolerated_failure_percentage_path
    value = _tolerance(visit, effective, "ToleratedFailurePercentage", given, path)
    if value is None and path is None:
        return None
    if not is_number(value):
        told = (
            f'The ToleratedFailurePercentagePath field refers to value "{_shown(value)}" which is not a valid float: '
        )
        raise StatesError(RUNTIME, f"{told}{path}")
    if not 0 <= value <= 100:
        raise StatesError(RUNTIME, "ToleratedFailurePercentage must be between 0 and 100.")
    return float(value)


def _tolerance(visit: Visit, effective: Any, field: str, given: Any, path: str | None) -> Any:
    """The value of a tolerance. An integer may be written as text."""
    value = _value(visit, effective, field, given, path)
    return int(value) if isinstance(value, str) and _INTEGER.fullmatch(value) else value


def _is_integer(value: Any) -> TypeGuard[int]:
    return is_number(value) and (isinstance(value, int) or value.is_integer())


def _no_integer(field: str, value: Any, path: str | None) -> StatesError:
    told = f'The {field}Path field refers to value "{_shown(value)}" which is not a valid integer: {path}'
    return StatesError(RUNTIME, told)


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else compact(value)


def _value(visit: Visit, effective: Any, field: str, given: Any, path: str | None) -> Any:
    if path is not None:
        return read_definite(path, visit.about(effective))
    return of_type("number", given, visit, field) if isinstance(given, str) else given
