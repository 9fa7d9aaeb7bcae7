"""Sagas: steps that know how to undo themselves, undone in reverse when the block fails.

Each undo is a durable step of its own, retried by its own policy. Only errors of the workflow compensate, never those
of the engine. If an undo gives up, the rest is left as it is and the execution ends as ``COMPENSATION_FAILED``, where a
person can see it and, after a repair, ``retry`` it from that undo on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import ContextVar, Token
from functools import partial
from types import TracebackType
from typing import Any, Self

from holdfast.errors import CompensationFailed, ControlFlow, DeterminismError, StepFailed, StepInterrupted, StepTimeout
from holdfast.kernel.tasks import named
from holdfast.workflows.scope import activation_for

current_saga: ContextVar[Saga | None] = ContextVar("holdfast_saga", default=None)

Undoing = Callable[[], Coroutine[Any, Any, Any]]
"""The durable call that undoes one finished step."""


class Saga:
    """What one ``async with hf.saga()`` block has done so far, latest last."""

    def __init__(self) -> None:
        self._done: list[tuple[str, Undoing]] = []
        self._token: Token[Saga | None] | None = None

    async def cover(
        self, operation: Awaitable[Any], undo: Callable[[Any], Coroutine[Any, Any, Any]], name: str, *, ambiguous: bool
    ) -> Any:
        """Wait for a step and remember how to undo it; if ``ambiguous``, also when it only may have taken effect."""
        try:
            result = await operation
        except (ControlFlow, DeterminismError):
            raise
        except BaseException as error:
            if ambiguous and _may_have_happened(error):
                self._done.append((name, partial(undo, None)))
            raise
        self._done.append((name, partial(undo, result)))
        return result

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
        if error is None:
            if (outer := current_saga.get()) is not None:
                outer.adopt(self)
        elif not isinstance(error, (ControlFlow, DeterminismError)):
            await self._compensate(error)

    async def _compensate(self, cause: BaseException) -> None:
        while self._done:
            name, undo = self._done.pop()
            try:
                await _uninterrupted(undo(), name)
            except Exception as error:  # noqa: BLE001 - whatever the undo gave up with
                raise CompensationFailed(
                    f"{name} gave up with {type(error).__name__}: {error}. It was to undo what came before "
                    f"{type(cause).__name__}: {cause}. {len(self._done)} older steps are not undone either. Mend the "
                    "cause, then retry the execution: it goes on with this undo",
                    type(error).__name__,
                    str(error),
                ) from cause


async def _uninterrupted(call: Coroutine[Any, Any, Any], name: str) -> Any:
    """Await a call to its end, however often somebody cancels us meanwhile: money is on its way back."""
    task = asyncio.ensure_future(named(call, name))
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            continue
        except Exception:  # noqa: BLE001  it is raised again by task.result()
            break
    return task.result()


def saga() -> Saga:
    """Undo the finished steps of this block, latest first, if it ends in an error or is cancelled.

    Use it as ``async with hf.saga():``. Steps declare their undo with ``@step.undo``. Sagas nest: what an inner block
    finished is undone by the outer one if that fails later.
    """
    return Saga()


def _may_have_happened(error: BaseException) -> bool:
    return isinstance(error, (StepTimeout, StepInterrupted, StepFailed, asyncio.CancelledError, OSError, TimeoutError))
