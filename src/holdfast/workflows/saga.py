"""Sagas: steps that know how to undo themselves, undone in reverse when the block fails.

Each undo is a durable step of its own, retried by its own policy. Only errors of the workflow compensate, never those
of the engine. If an undo gives up, the rest is left as it is and the execution ends as ``COMPENSATION_FAILED``, where a
person can see it and, after a repair, ``retry`` it from that undo on.
"""

from __future__ import annotations

import asyncio
from contextvars import ContextVar, Token
from types import CoroutineType, TracebackType
from typing import TYPE_CHECKING, Any

from holdfast.errors import CompensationFailed, ControlFlow, DeterminismError, StepFailed, StepInterrupted, StepTimeout
from holdfast.workflows.scope import activation_for

if TYPE_CHECKING:
    from holdfast.kernel.activation import Operation
    from holdfast.workflows.definition import Undo

current_saga: ContextVar[Saga | None] = ContextVar("holdfast_saga", default=None)


class Saga:
    """What one ``async with hf.saga()`` block has done so far, latest last."""

    def __init__(self) -> None:
        self._done: list[tuple[Undo, Any]] = []
        self._token: Token[Saga | None] | None = None

    async def cover(self, undo: Undo, operation: Operation) -> Any:
        """Wait for a step and remember how to undo it, also if it may have taken effect without our knowing."""
        place = len(self._done)
        try:
            result = await operation
        except (ControlFlow, DeterminismError):
            raise
        except BaseException as error:
            if undo.ambiguous and _may_have_happened(error):
                self._done.insert(place, (undo, None))
            raise
        self._done.append((undo, result))
        return result

    async def __aenter__(self) -> Saga:
        activation_for("hf.saga()")
        self._token = current_saga.set(self)
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        assert self._token is not None
        current_saga.reset(self._token)
        if error is not None and not isinstance(error, (ControlFlow, DeterminismError)):
            await self._compensate(error)
        elif error is None:
            outer = current_saga.get()
            if outer is not None:
                outer._done += self._done

    async def _compensate(self, cause: BaseException) -> None:
        from holdfast.workflows.operations.step import call_step

        activation = activation_for("hf.saga()")
        while self._done:
            undo, result = self._done.pop()
            args = (result,) if undo.step.signature.parameter_count else ()
            try:
                await _uninterrupted(call_step(activation, undo.step, args, {}), undo.step.name)
            except Exception as error:
                raise CompensationFailed(
                    f"{undo.step.name} gave up with {type(error).__name__}: {error}. It was to undo what came before "
                    f"{type(cause).__name__}: {cause}. {len(self._done)} older steps are not undone either. Mend the "
                    "cause, then retry the execution: it goes on with this undo",
                    type(error).__name__,
                    str(error),
                ) from cause


async def _uninterrupted(call: CoroutineType[Any, Any, Any], name: str) -> Any:
    """Await a call to its end, however often somebody cancels us meanwhile: money is on its way back."""
    call.__name__ = name
    task = asyncio.ensure_future(call)
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
