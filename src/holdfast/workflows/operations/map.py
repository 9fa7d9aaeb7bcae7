"""Mapping over a collection: bounded concurrency, rules for when enough is enough, results in input order."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, TypeVar, cast

from holdfast.errors import ControlFlow, InvalidInput
from holdfast.workflows.scope import activation_for, refused_in_queries

A = TypeVar("A")
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


@refused_in_queries
async def map(  # noqa: A001 - read as hf.map, never imported bare
    function: Callable[[A], Awaitable[R]],
    items: Iterable[A],
    *,
    concurrency: int = 64,
    min_successful: int | None = None,
    tolerated_failures: int = 0,
    tolerated_failure_percent: float | None = None,
) -> Batch[R]:
    """Call a step, a workflow or any body code for each item, at most ``concurrency`` at a time.

    Ends early when ``min_successful`` items have ended well, or when more have failed than ``tolerated_failures``, or
    than ``tolerated_failure_percent`` of all items if that is given; what still runs is then cancelled. With no
    tolerance given, the first failure is raised; otherwise look at ``completion`` and ``failures``.
    """
    activation_for("hf.map")
    values = list(items)
    numbers: tuple[Any, ...] = (concurrency, min_successful, tolerated_failures, tolerated_failure_percent)
    if not all(number is None or isinstance(number, int | float) for number in numbers):
        raise InvalidInput(f"the rules of a map are numbers, not {numbers}")
    if concurrency < 1:
        raise InvalidInput(f"concurrency is at least 1, not {concurrency}")
    if min_successful is not None and not 0 <= min_successful <= len(values):
        raise InvalidInput(
            f"min_successful lies between 0 and {len(values)}, the number of items, not {min_successful}"
        )
    if tolerated_failures < 0:
        raise InvalidInput(f"tolerated_failures is a count: at least 0, not {tolerated_failures}")
    if tolerated_failure_percent is not None and not 0 <= tolerated_failure_percent <= 100:
        raise InvalidInput(f"tolerated_failure_percent lies between 0 and 100, not {tolerated_failure_percent}")
    tolerance = float(tolerated_failures)
    if tolerated_failure_percent is not None:
        tolerance = max(tolerance, len(values) * tolerated_failure_percent / 100)
    run = _Map(function, values, concurrency, min_successful, tolerance)
    batch = await run.all()
    strict = tolerated_failures == 0 and tolerated_failure_percent is None and min_successful is None
    if strict and batch.failures:
        raise batch.failures[0]
    return batch


class _Map(Generic[A, R]):
    def __init__(
        self,
        function: Callable[[A], Awaitable[R]],
        values: list[A],
        concurrency: int,
        min_successful: int | None,
        tolerance: float,
    ) -> None:
        self._function = function
        self._values = values
        self._concurrency = min(concurrency, len(values))
        self._min_successful = min_successful
        self._tolerance = tolerance
        self._results: list[Any] = [None] * len(values)
        self._errors: list[Exception | None] = [None] * len(values)
        self._finished = [False] * len(values)
        self._next = iter(range(len(values)))
        self._failed = self._succeeded = 0
        self._completion: Completion | None = None

    async def all(self) -> Batch[R]:
        if self._min_successful == 0:
            return self._batch(Completion.MIN_SUCCESSFUL_REACHED)
        lanes = [asyncio.create_task(self._lane()) for _ in range(self._concurrency)]
        try:
            pending = set(lanes)
            while pending and self._completion is None:
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                for lane in done:
                    lane.result()
        finally:
            for lane in lanes:
                lane.cancel()
            await asyncio.gather(*lanes, return_exceptions=True)
        return self._batch(self._completion or Completion.ALL_COMPLETED)

    async def _lane(self) -> None:
        for place in self._next:
            try:
                self._results[place] = await self._function(self._values[place])
            except ControlFlow:
                raise
            except Exception as error:  # noqa: BLE001 - it is the item's own outcome
                self._errors[place] = error
                self._failed += 1
            else:
                self._succeeded += 1
            self._finished[place] = True
            if self._failed > self._tolerance:
                self._completion = Completion.FAILURE_TOLERANCE_EXCEEDED
            elif self._min_successful is not None and self._succeeded >= self._min_successful:
                self._completion = Completion.MIN_SUCCESSFUL_REACHED
            if self._completion is not None:
                return

    def _batch(self, completion: Completion) -> Batch[R]:
        return Batch(tuple(self._results), tuple(self._errors), tuple(self._finished), completion)
