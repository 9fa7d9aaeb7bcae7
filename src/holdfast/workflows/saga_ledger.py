"""The steps that sagas cover: what is under way, what has happened, and what is being undone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextvars import Context
from dataclasses import dataclass
from typing import Any, Protocol

from holdfast.errors import StepFailed, StepInterrupted, StepTimeout
from holdfast.replay.tasks import named


class Block(Protocol):
    """One saga block, as the ledger of its nest sees it."""

    @property
    def around(self) -> Iterator[Block]:
        """This block and those around it, innermost first."""
        ...

    @property
    def may_undo(self) -> bool:
        """Whether what belongs to it may still be undone, by itself or by a block around it."""
        ...

    def note_end_of(self, undo: Undo) -> None:
        """An undo that this block began has ended."""
        ...


@dataclass(slots=True, eq=False)
class Covered:
    """A step inside a block, by the operation that performs it, and how it is undone once that has an outcome.

    ``given_up``: the body does not wait for it any more.
    """

    block: Block
    id: str
    operation: asyncio.Future[Any]
    undo_name: str
    undo: Callable[[Any], Coroutine[Any, Any, Any]]
    ambiguous: bool
    given_up: bool = False

    @property
    def has_happened(self) -> bool:
        """Whether there is something to undo, or may be."""
        if self.operation.cancelled():
            return False
        error = self.operation.exception()
        return error is None or (self.ambiguous and _may_have_happened(error))

    def begin_undo(self, context: Context) -> asyncio.Task[Any]:
        """Undo it in a task of its own."""
        result = None if self.operation.exception() is not None else self.operation.result()
        return asyncio.get_running_loop().create_task(named(self.undo(result), self.undo_name), context=context)


def _may_have_happened(error: BaseException) -> bool:
    return isinstance(error, (StepTimeout, StepInterrupted, StepFailed, OSError))


@dataclass(frozen=True, slots=True)
class Undo:
    """An undo under way, and the block that has begun it."""

    block: Block
    step: Covered
    task: asyncio.Task[Any]


class Ledger:
    """What the blocks of one nest have under way, steps and undos, and what they have done, latest last."""

    __slots__ = ("done", "steps", "undos")

    def __init__(self) -> None:
        self.steps: dict[Covered, None] = {}
        self.undos: list[Undo] = []
        self.done: list[Covered] = []

    def note(self, step: Covered) -> None:
        """A step is under way."""
        self.steps[step] = None
        step.operation.add_done_callback(lambda _: self._end(step))

    def note_undo(self, undo: Undo) -> None:
        """An undo is under way; what it undoes is not done any more."""
        self.done.remove(undo.step)
        self.undos.append(undo)
        undo.task.add_done_callback(lambda _: self._sort_out())

    def _end(self, step: Covered) -> None:
        if step not in self.steps:
            return
        del self.steps[step]
        if step.has_happened:
            self.done.append(step)

    def _sort_out(self) -> None:
        """Record what has ended. Call it before reading the ledger: callbacks run a bit later."""
        for step in [each for each in self.steps if each.operation.done()]:
            self._end(step)
        for undo in [each for each in self.undos if each.task.done()]:
            self.undos.remove(undo)
            undo.block.note_end_of(undo)

    def under_way(self, block: Block) -> asyncio.Future[Any] | None:
        """Something that the block must wait for, if there is anything."""
        self._sort_out()
        undos = (undo.task for undo in self.undos if block in undo.block.around)
        steps = (step.operation for step in self.steps if block in step.block.around)
        return next(undos, None) or next(steps, None)

    def done_in(self, block: Block) -> list[Covered]:
        """What is to be undone if the block fails, latest last."""
        return [step for step in self.done if block in step.block.around]

    def latest_in(self, block: Block) -> Covered | None:
        """What is to be undone next if the block fails."""
        return next((step for step in reversed(self.done) if block in step.block.around), None)

    def drop_given_up(self) -> None:
        """Stop the steps that are no longer awaited, where no block is left that could undo them."""
        for step in tuple(self.steps):
            if step.given_up and not step.block.may_undo:
                step.operation.cancel()
