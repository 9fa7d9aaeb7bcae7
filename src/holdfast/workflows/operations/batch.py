"""What became of the items of a map, and the rules for when enough is enough."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, TypeVar, cast

from msgspec import Struct

from holdfast.errors import InvalidInput

R = TypeVar("R")


class Completion(StrEnum):
    """Why a map ended."""

    ALL_COMPLETED = "all completed"
    MIN_SUCCESSFUL_REACHED = "min successful reached"
    FAILURE_TOLERANCE_EXCEEDED = "failure tolerance exceeded"


@dataclass(frozen=True, slots=True)
class Batch(Generic[R]):
    """What became of each item, in input order: a result, an error, or neither if it was not needed any more."""

    results: tuple[R | None, ...]
    errors: tuple[Exception | None, ...]
    finished: tuple[bool, ...]
    completion: Completion

    @property
    def succeeded(self) -> list[R]:
        """The results of the items that ended well, in input order."""
        ended = zip(self.results, self.errors, self.finished, strict=True)
        return [cast("R", result) for result, error, finished in ended if finished and error is None]

    @property
    def failures(self) -> list[Exception]:
        """The errors of the others that ended, in input order."""
        return [error for error in self.errors if error is not None]


class Rules(Struct, frozen=True, kw_only=True):
    """When a map of ``items`` items ends before its last one. ``None`` is a rule that was not given."""

    items: int
    min_successful: int | None
    tolerated_failures: int | None
    tolerated_failure_percent: float | None

    @property
    def are_given(self) -> bool:
        """Whether the caller has given any: with none the first failure is the map's own."""
        return (self.min_successful, self.tolerated_failures, self.tolerated_failure_percent) != (None, None, None)

    @property
    def tolerance(self) -> float:
        """How many items may fail: the given tolerance, but no more than leave ``min_successful`` within reach."""
        spare = self.items - (self.items if self.min_successful is None else self.min_successful)
        given = self._given_tolerance()
        if given is None:
            return spare
        return given if self.min_successful is None else min(spare, given)

    def _given_tolerance(self) -> float | None:
        if self.tolerated_failure_percent is None:
            return self.tolerated_failures
        return max(self.tolerated_failures or 0, self.items * self.tolerated_failure_percent / 100)

    def judge(self, succeeded: int, failed: int) -> Completion | None:
        """Why the map ends now, given how many items succeeded and failed; ``None`` if it continues."""
        if failed > self.tolerance:
            return Completion.FAILURE_TOLERANCE_EXCEEDED
        if self.min_successful is not None and succeeded >= self.min_successful:
            return Completion.MIN_SUCCESSFUL_REACHED
        return Completion.ALL_COMPLETED if succeeded + failed == self.items else None


def checked(rules: Rules, concurrency: int) -> Rules:
    """The rules, if they make sense. Raises ``InvalidInput``."""
    enough, failures, percent = rules.min_successful, rules.tolerated_failures, rules.tolerated_failure_percent
    numbers: tuple[Any, ...] = (concurrency, enough, failures, percent)
    if not all(number is None or isinstance(number, int | float) for number in numbers):
        raise InvalidInput(f"the rules of a map are numbers, not {numbers}")
    if concurrency < 1:
        raise InvalidInput(f"concurrency is at least 1, not {concurrency}")
    if enough is not None and not 0 <= enough <= rules.items:
        raise InvalidInput(f"min_successful lies between 0 and {rules.items}, the number of items, not {enough}")
    if failures is not None and failures < 0:
        raise InvalidInput(f"tolerated_failures is a count: at least 0, not {failures}")
    if percent is not None and not 0 <= percent <= 100:
        raise InvalidInput(f"tolerated_failure_percent lies between 0 and 100, not {percent}")
    return rules
