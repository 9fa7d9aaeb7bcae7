"""Sagas: steps that know how to undo themselves, undone in reverse when the block fails.

Each undo is a durable step of its own, retried by its own policy. Only errors of the workflow compensate, never those
of the engine. If an undo gives up, the rest is left as it is and the execution ends as ``COMPENSATION_FAILED``, where a
person can see it and, after a repair, ``retry`` it from that undo on.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from contextvars import ContextVar, Token
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Self

from holdfast.errors import CompensationFailed, ControlFlow, DeterminismError, StepFailed, StepInterrupted, StepTimeout
from holdfast.kernel.tasks import named
from holdfast.workflows.scope import activation_for

current_saga: ContextVar[Saga | None] = ContextVar("holdfast_saga", default=None)

Undoing = Callable[[], Coroutine[Any, Any, Any]]
"""The durable call that undoes one finished step."""


@dataclass(frozen=True, slots=True, eq=False)
class Covered:
    """A step under way inside a saga, and how to undo it once it has an outcome."""

    operation: asyncio.Future[Any]
    name: str
    undo: Callable[[Any], Coroutine[Any, Any, Any]]
    ambiguous: bool


class Saga:
    """What one ``async with hf.saga()`` block has done so far, latest last, and what it has under way."""

    def __init__(self) -> None:
        self._done: list[tuple[str, Undoing]] = []
        self._under_way: list[Covered] = []
        self._token: Token[Saga | None] | None = None

    async def cover(self, step: Covered) -> Any:
        """Wait for a step and remember how to undo it.

        Whoever waits may be cancelled, by a failed sibling or from outside; the step is not: it is waited for before
        anything is undone, so that its effect cannot slip through.
        """
        self._under_way.append(step)
        step.operation.add_done_callback(lambda _: self._ended(step))
        return await asyncio.shield(step.operation)

    def _ended(self, step: Covered) -> None:
        self._under_way.remove(step)
        if step.operation.cancelled():
            return
        error = step.operation.exception()
        if error is None:
            self._done.append((step.name, partial(step.undo, step.operation.result())))
        elif step.ambiguous and _may_have_happened(error):
            self._done.append((step.name, partial(step.undo, None)))

    def adopt(self, inner: Saga) -> None:
        """Take over what an inner block has finished: it is ours to undo now."""
        self._done += inner._done

    async def __aenter__(self) -> Self:
        activation_for("hf.saga()")
        self._token = current_saga.set(self)
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        assert self._token is not None
        current_saga.reset(self._token)
        if isinstance(error, (ControlFlow, DeterminismError)):
            return
        if error is not None:
            for step in tuple(self._under_way):
                await _outcome_of(step.operation)
            await self._compensate(error)
            return
        for step in tuple(self._under_way):
            step.operation.cancel()
        if (outer := current_saga.get()) is not None:
            outer.adopt(self)

    async def _compensate(self, cause: BaseException) -> None:
        while self._done:
            name, undo = self._done.pop()
            try:
                task = asyncio.ensure_future(named(undo(), name))
                await _outcome_of(task)
                task.result()
            except Exception as error:  # noqa: BLE001 - whatever the undo gave up with
                raise CompensationFailed(
                    f"{name} gave up with {type(error).__name__}: {error}. It was to undo what came before "
                    f"{type(cause).__name__}: {cause}. {len(self._done)} older steps are not undone either. Mend the "
                    "cause, then retry the execution: it goes on with this undo",
                    type(error).__name__,
                    str(error),
                ) from cause


async def _outcome_of(future: asyncio.Future[Any]) -> None:
    """Wait until it has ended, however often somebody cancels us meanwhile: money is on its way."""
    while not future.done():
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await asyncio.shield(future)


def saga() -> Saga:
    """Undo the finished steps of this block, latest first, if it ends in an error or is cancelled.

    Use it as ``async with hf.saga():``. Steps declare their undo with ``@step.undo``. Sagas nest: what an inner block
    finished is undone by the outer one if that fails later.
    """
    return Saga()


def _may_have_happened(error: BaseException) -> bool:
    return isinstance(error, (StepTimeout, StepInterrupted, StepFailed, OSError))
