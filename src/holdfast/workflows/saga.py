"""Sagas: steps that know how to undo themselves, undone in reverse when the block fails.

Each undo is a durable step of its own, retried by its own policy. Only errors of the workflow compensate, never those
of the engine. If an undo gives up, the execution ends as ``COMPENSATION_FAILED`` whatever the body makes of it, where a
person can see it and, after a repair, ``retry`` it from that undo on.

Blocks nest, and all blocks of one nest share a ledger. A step belongs to the innermost open block around it; a block
undoes what belongs to it or to a block inside it. So nothing is handed from block to block, and what several of them
undo at the same time is still undone one after the other, latest first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextvars import ContextVar, copy_context
from types import TracebackType
from typing import Any, Final, Literal, Self, get_args

from holdfast.errors import ContinueAsNew, ControlFlow, DeterminismError, InvalidInput
from holdfast.workflows.saga_ledger import Covered, Ledger, Undo
from holdfast.workflows.scope import BodyScope, activation_for
from holdfast.workflows.undo_failed import GaveUp, compensation_failed

current_saga: ContextVar[Saga | None] = ContextVar("holdfast_saga", default=None)

OnUndoFailure = Literal["stop", "continue"]

NO_NEW_RUN: Final = (
    "continue_as_new inside hf.saga() would forget how to undo what the block has done: leave the block first"
)


class Saga:
    """One ``async with hf.saga()`` block: what belongs to it, and what becomes of that if the block fails."""

    def __init__(self, on_undo_failure: OnUndoFailure = "stop") -> None:
        if on_undo_failure not in get_args(OnUndoFailure):
            raise InvalidInput(f'on_undo_failure is "stop" or "continue", not {on_undo_failure!r}')
        self._goes_on = on_undo_failure == "continue"
        self._entered = self._ended_well = self.has_failed = False
        self.outer: Saga | None = None
        self.ledger = Ledger()
        self.gave_up: list[GaveUp] = []

    @property
    def around(self) -> Iterator[Saga]:
        """This block and those around it, innermost first."""
        block: Saga | None = self
        while block is not None:
            yield block
            block = block.outer

    @property
    def is_open(self) -> bool:
        """Whether new steps may belong to it."""
        return not (self._ended_well or self.has_failed)

    @property
    def is_failing(self) -> bool:
        """Whether it is being undone, or has been, itself or with a block around it."""
        return any(block.has_failed for block in self.around)

    @property
    def may_undo(self) -> bool:
        """Whether what belongs to it may still be undone, by itself or by a block around it."""
        return self.is_failing or any(block.is_open for block in self.around)

    # ── The steps in it ─────────────────────────────────────────────────────────────────────────────────────────────

    async def cover(self, step: Covered) -> Any:
        """Wait for a step that belongs to this block, and remember how to undo it.

        The wait may be cancelled, by a failed sibling or from outside; the step is not. Undoing waits for the step, so
        that its effect cannot slip through.
        """
        self.ledger.note(step)
        try:
            return await asyncio.shield(step.operation)
        except asyncio.CancelledError:
            step.given_up = True
            self.ledger.drop_given_up()
            raise

    # ── The block ───────────────────────────────────────────────────────────────────────────────────────────────────

    async def __aenter__(self) -> Self:
        self._activation = activation_for("hf.saga()")
        if self._entered:
            raise InvalidInput("a saga is for one block: call hf.saga() for each of them")
        self._entered = True
        self.outer = current_saga.get()
        if self.outer is not None:
            self.ledger = self.outer.ledger
        current_saga.set(self)
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        current_saga.set(self.outer)
        if error is None:
            self._ended_well = True
            self.ledger.drop_given_up()
        elif isinstance(error, ContinueAsNew):
            refusal = InvalidInput(NO_NEW_RUN)
            await self._compensate(refusal)
            raise refusal from None
        elif not isinstance(error, (ControlFlow, DeterminismError)):
            await self._compensate(error)

    async def _compensate(self, cause: BaseException) -> None:
        """Undo what belongs to this block, until nothing is under way and nothing is done any more.

        A cancellation that comes meanwhile interrupts nothing; it is raised when all is over, and nothing takes its
        place: an execution that was asked to stop stops, whatever its handlers make of other errors.
        """
        self.has_failed = True
        self._cancel_tasks()
        interruption: asyncio.CancelledError | None = None
        try:
            await self._undo_all()
        except asyncio.CancelledError as cancelled:
            interruption = cancelled
        failure = self._failure(cause) if self.gave_up else None
        if isinstance(cause, asyncio.CancelledError):
            return
        if interruption is not None:
            raise interruption from failure or cause
        if failure is not None:
            raise failure from cause

    async def _undo_all(self) -> None:
        try:
            while (under_way := self.ledger.under_way(self) or self._begin_next_undo()) is not None:
                await asyncio.wait({under_way})
        except asyncio.CancelledError:
            await self._undo_all()  # money is on its way
            raise

    def _cancel_tasks(self) -> None:
        """Stop what else was started in the block, as a task group does."""
        for task in tuple(self._activation.loop.live_tasks()):
            block = task.context.get(current_saga)
            if block is not None and self in block.around and task is not asyncio.current_task():
                task.cancel("the saga block that started this task is being undone")

    # ── Undoing ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _begin_next_undo(self) -> asyncio.Future[Any] | None:
        step = self.ledger.latest_in(self)
        if step is None or (self.gave_up and not self._goes_on):
            return None
        outside = copy_context()
        outside.run(current_saga.set, None)  # it belongs to no block: whatever is cancelled with one, this goes on
        undo = step.begin_undo(outside)
        self.ledger.note_undo(Undo(self, step, undo))
        return undo

    def note_end_of(self, undo: Undo) -> None:
        """An undo that this block began has ended: those around it must know if it gave up."""
        task = undo.task
        error = asyncio.CancelledError("it was cancelled") if task.cancelled() else task.exception()
        if error is not None:
            for block in self.around:
                block.gave_up.append(GaveUp(undo.step.undo_name, undo.step.id, error))

    def _failure(self, cause: BaseException) -> BaseException:
        """The error of the undos that gave up. The execution ends with it, caught or not (``failed_sagas``)."""
        left = [f"{step.undo_name} of {step.id}" for step in reversed(self.ledger.done_in(self))]
        error = compensation_failed(self.gave_up, left, cause)
        scope: BodyScope = self._activation.context
        failed = {
            each: its_error
            for each, its_error in scope.failed_sagas.items()
            if not (isinstance(each, Saga) and self in each.around)  # this error names theirs too
        }
        scope.failed_sagas = {**failed, self: error}
        return error


def saga(*, on_undo_failure: OnUndoFailure = "stop") -> Saga:
    """Undo the finished steps of this block, latest first, if it ends in an error or is cancelled.

    Use it as ``async with hf.saga():``. Steps declare their undo with ``@step.undo``. Sagas nest: what an inner block
    finished is undone by the outer one if that fails later. From then on no step with an undo starts in the block any
    more, tasks that were started in it are cancelled, and what is under way is waited for and undone too.

    If an undo gives up, ``CompensationFailed`` is raised, and the execution ends as ``COMPENSATION_FAILED`` even if it
    is caught. ``on_undo_failure`` says what becomes of the older steps: with ``"stop"`` they stay as they are until the
    execution is retried, because an undo may rely on the later ones having happened; with ``"continue"`` they are
    undone nevertheless.
    """
    return Saga(on_undo_failure)


async def covering(step: str) -> Saga | None:
    """The block that a step which is about to start belongs to, if there is one.

    Raises ``CancelledError`` if a block around is being undone: what began now might never be undone.
    """
    innermost = current_saga.get()
    if innermost is None:
        return None
    if innermost.is_failing:
        await asyncio.sleep(0)  # a body that asks again and again shall not keep its loop to itself
        raise asyncio.CancelledError(f"step {step!r} did not start: the saga block around it is being undone")
    return next((block for block in innermost.around if block.is_open), None)


def refuse_new_run() -> None:
    """Raise ``InvalidInput`` if a block is open here: a new run would not know how to undo what it has done."""
    innermost = current_saga.get()
    if innermost is not None and any(block.is_open for block in innermost.around):
        raise InvalidInput(NO_NEW_RUN)
