"""How many iterations of a Map may run at a time, and how many may fail."""

from __future__ import annotations

from typing import Any, cast

from msgspec import Struct

from holdfast.asl.definition import Map
from holdfast.asl.errors import RUNTIME, EvaluationError
from holdfast.asl.jsontext import compact, is_number
from holdfast.asl.paths import read_definite
from holdfast.asl.templates import of_type
from holdfast.asl.visit import Visit


class Settings(Struct, frozen=True):
    """``concurrency`` 0 is no limit of the state's own. Without tolerance the first failure is too much."""

    concurrency: int = 0
    tolerated_count: int | None = None
    tolerated_percentage: float | None = None

    def exceeded(self, failed: int, items: int) -> bool:
        """Whether so many failures are too many: more than the count, or than the percentage of all items."""
        if self.tolerated_count is None and self.tolerated_percentage is None:
            return failed > 0
        if self.tolerated_count is not None and failed > self.tolerated_count:
            return True
        return self.tolerated_percentage is not None and failed * 100 > self.tolerated_percentage * items


def settings_of(visit: Visit, effective: Any) -> Settings:
    """The settings of a Map. Raises ``EvaluationError``."""
    state = cast("Map", visit.state)
    concurrency = _integer(visit, effective, "MaxConcurrency", state.max_concurrency, state.max_concurrency_path)
    count = _integer(
        visit, effective, "ToleratedFailureCount", state.tolerated_failure_count, state.tolerated_failure_count_path
    )
    percentage = _percentage(visit, effective, state)
    visit.note("maxConcurrency", concurrency or 0)
    visit.note("toleratedFailureCount", count)
    visit.note("toleratedFailurePercentage", percentage)
    return Settings(concurrency or 0, count, percentage)


def _integer(visit: Visit, effective: Any, field: str, given: int | str | None, path: str | None) -> int | None:
    value = _value(visit, effective, field, given, path)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool):
        raise EvaluationError(
            RUNTIME, f'The {field}Path field refers to value "{compact(value)}" which is not a valid integer: {path}'
        )
    if value < 0:
        raise EvaluationError(RUNTIME, f"The {field} field must be positive: {value}")
    return value


def _percentage(visit: Visit, effective: Any, state: Map) -> float | None:
    given, path = state.tolerated_failure_percentage, state.tolerated_failure_percentage_path
    value = _value(visit, effective, "ToleratedFailurePercentage", given, path)
    if value is None:
        return None
    if not is_number(value):
        raise EvaluationError(
            RUNTIME,
            f'The ToleratedFailurePercentagePath field refers to value "{compact(value)}" which is not a valid float: '
            f"{path}",
        )
    if not 0 <= value <= 100:
        raise EvaluationError(RUNTIME, "ToleratedFailurePercentage must be between 0 and 100.")
    return float(value)


def _value(visit: Visit, effective: Any, field: str, given: Any, path: str | None) -> Any:
    if path is not None:
        return read_definite(path, visit.about(effective))
    return of_type("number", given, visit, field) if isinstance(given, str) else given
