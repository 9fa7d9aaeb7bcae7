"""Mapping over a collection: a task for each item, bounded concurrency, results in input order."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from holdfast.errors import BatchFailed, InvalidInput
from holdfast.functions import told
from holdfast.workflows.operations.batch import Batch, Completion, Rules, checked
from holdfast.workflows.operations.lanes import map_by_lanes
from holdfast.workflows.scope import activation_for, refused_in_queries

if TYPE_CHECKING:
    from holdfast.replay.activation import Activation
    from holdfast.replay.tasks import DurableTask

A = TypeVar("A")
R = TypeVar("R")


@refused_in_queries
async def map(  # noqa: A001 - read as hf.map, never imported bare
    function: Callable[[A], Awaitable[R]],
    items: Iterable[A],
    *,
    concurrency: int = 64,
    min_successful: int | None = None,
    tolerated_failures: int | None = None,
    tolerated_failure_percent: float | None = None,
    partial: bool = False,
) -> Batch[R]:
    """Call a step, a workflow or any body code for each item, at most ``concurrency`` at a time.

    What an item asks for is named by the item's place, so ``concurrency`` may change between releases (G13).

    Ends early when ``min_successful`` items have ended well, or when more have failed than ``tolerated_failures`` or
    ``tolerated_failure_percent`` of all items (the larger counts) allow, or than leave ``min_successful`` within
    reach; what still runs is then cancelled. With no rule given the first failure is raised; too many failures raise
    ``BatchFailed``, whose ``batch`` says what became of each item. With ``partial`` the batch is answered whatever
    happened: look at its ``completion`` and ``failures``.
    """
    activation = activation_for("hf.map")
    values = list(items)
    if not callable(function):
        raise InvalidInput(f"hf.map calls a step, a workflow or an async def for each item, not {told(function)}")
    rules = Rules(
        items=len(values),
        min_successful=min_successful,
        tolerated_failures=tolerated_failures,
        tolerated_failure_percent=tolerated_failure_percent,
    )
    checked(rules, concurrency)
    if not activation.names_by_item:
        return await map_by_lanes(function, values, concurrency, rules)
    batch = await _Map(activation, function, values, concurrency, rules).all()
    if not partial and batch.completion is Completion.FAILURE_TOLERANCE_EXCEEDED:
        raise _too_many(batch, rules)
    return batch


def _too_many(batch: Batch[Any], rules: Rules) -> Exception:
    first = batch.failures[0]
    if not rules.are_given:
        return first
    error = BatchFailed(
        f"{len(batch.failures)} of {rules.items} items of a map failed, where {rules.tolerance:g} may. The first: "
        f"{type(first).__name__}: {first}. The error's `batch` has the others; hf.map(..., partial=True) answers it",
        batch,
    )
    error.__cause__ = first
    return error


class _Map(Generic[A, R]):
    """One map under way. Each item runs in a task of its own, at a path that its place alone decides."""

    def __init__(
        self,
        activation: Activation,
        function: Callable[[A], Awaitable[R]],
        values: list[A],
        concurrency: int,
        rules: Rules,
    ) -> None:
        self._activation = activation
        self._function = function
        self._values = values
        self._concurrency = concurrency
        self._rules = rules
        self._path = activation.loop.current_path("map") + "/"
        self._context = copy_context()
        self._over: asyncio.Future[Completion] = activation.loop.create_future()
        self._running: dict[int, DurableTask] = {}
        self._next = 0
        self._out_of_turn: set[int] = set()
        self._results: list[Any] = [None] * len(values)
        self._errors: list[Exception | None] = [None] * len(values)
        self._finished = [False] * len(values)
        self._succeeded = self._failed = 0

    async def all(self) -> Batch[R]:
        early = self._rules.judge(0, 0)
        if early is not None:
            return self._batch(early)
        self._activation.prompters += (self._prompt,)
        try:
            self._fill()
            completion = await self._over
        finally:
            self._activation.prompters = tuple(ask for ask in self._activation.prompters if ask != self._prompt)
            for task in self._running.values():
                task.cancel()
            await asyncio.gather(*self._running.values(), return_exceptions=True)
        return self._batch(completion)

    def _fill(self) -> None:
        while len(self._running) < self._concurrency and self._next < len(self._values):
            place, self._next = self._next, self._next + 1
            if place not in self._out_of_turn:
                self._start(place)

    def _prompt(self, op: str) -> bool:
        """Start the item whose operation is recorded next, if its turn has not come: ``concurrency`` was larger."""
        place, inside, _ = op.removeprefix(self._path).partition("/")
        if not (inside and op.startswith(self._path) and place.isdecimal()):
            return False
        if not self._next <= int(place) < len(self._values) or int(place) in self._out_of_turn or self._over.done():
            return False
        self._out_of_turn.add(int(place))
        self._start(int(place))
        return True

    def _start(self, place: int) -> None:
        task = self._activation.loop.start_task(
            self._item(self._values[place]), path=f"{self._path}{place}/", context=self._context.copy()
        )
        self._running[place] = task
        task.add_done_callback(partial(self._ended, place))

    async def _item(self, value: A) -> R:
        call: Any = self._function(value)
        if not hasattr(call, "__await__"):
            raise InvalidInput(
                f"hf.map awaits what the function answers for each item, and it answered {type(call).__name__}: give "
                "it a step, a workflow or an async def"
            )
        result: R = await call
        return result

    def _ended(self, place: int, task: asyncio.Future[R]) -> None:
        del self._running[place]
        error = None if task.cancelled() else task.exception()
        if task.cancelled():
            self._over.cancel()
            return
        if error is not None and not isinstance(error, Exception):
            if not self._over.done():
                self._over.set_exception(error)
            return
        self._finished[place] = True
        if error is None:
            self._results[place] = task.result()
            self._succeeded += 1
        else:
            self._errors[place] = error
            self._failed += 1
        if self._over.done():
            return
        completion = self._rules.judge(self._succeeded, self._failed)
        if completion is not None:
            self._over.set_result(completion)
        else:
            self._fill()

    def _batch(self, completion: Completion) -> Batch[R]:
        return Batch(tuple(self._results), tuple(self._errors), tuple(self._finished), completion)
