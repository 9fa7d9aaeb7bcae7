"""Mapping as executions of the old format have recorded it: in lanes, whose numbers are in the names of operations.

Their journals go on only with the same lanes, under the rules of then: an exceeded tolerance answers the batch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

from holdfast.errors import ControlFlow
from holdfast.workflows.operations.batch import Batch, Completion, Rules

A = TypeVar("A")
R = TypeVar("R")


async def map_by_lanes(
    function: Callable[[A], Awaitable[R]], values: list[A], concurrency: int, rules: Rules
) -> Batch[R]:
    """The batch of a map that an execution of the old format asks for."""
    percent = rules.tolerated_failure_percent
    tolerance = max(rules.tolerated_failures or 0, 0 if percent is None else len(values) * percent / 100)
    batch = await _Lanes(function, values, concurrency, rules.min_successful, tolerance).all()
    if batch.failures and not rules.tolerated_failures and percent is None and rules.min_successful is None:
        raise batch.failures[0]
    return batch


class _Lanes(Generic[A, R]):
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
