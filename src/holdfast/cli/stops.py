"""A recorded execution, replayed here up to a stop: where its body stands, or before an operation. Nothing is written.

All that is recorded is in memory, and the home is closed, before the body runs. What the body asks for and has not got
is never done.
"""

from __future__ import annotations

import bdb
import inspect
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from traceback import walk_tb
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from holdfast.errors import ControlFlow
from holdfast.replay.activation import Activation
from holdfast.replay.places import frames_of_awaitable, is_of_user
from holdfast.replay.requests import Raised, Returned
from holdfast.replay.tasks import Handle
from holdfast.workflows.replay import looked_into

if TYPE_CHECKING:
    from holdfast.registrations import Registrations
    from holdfast.replay.requests import Request
    from holdfast.workflows.history import Recorded

TOLD: Final = 20


class Branch(Struct, frozen=True):
    """A task of the body and the frames of the user's code in it, outermost first."""

    name: str
    frames: Sequence[FrameType]


class Stop(Struct, frozen=True):
    """Where a replay has come to. ``unfit``: why the code does not fit what is recorded."""

    told: str
    branches: Sequence[Branch] = ()
    unfit: str = ""
    before: bool = False


class StopHere(ControlFlow):
    """The replay is over: the debugger was left."""


class Stopping(Activation):
    """An activation that tells of each thing its body asks for, before it is noted."""

    __slots__ = ("watch",)
    watch: Callable[[str], None]

    def _register(self, request: Request) -> None:
        if not self.loop.evicting:
            self.watch(request.id)
        super()._register(request)


def replay_to(
    registry: Registrations, recorded: Recorded, before: str | None, look: Callable[[Stop], None]
) -> str | None:
    """Replay an execution, and ``look`` at each stop. Answers what is wrong: the code does not fit, or never asks for
    the operation ``before``. ``look`` may raise ``StopHere`` in the body to end it. Raises ``UnknownName``.
    """
    workflow = registry.workflow(recorded.record.workflow)
    wanted = () if before is None else (before, f"{before}#0")
    asked: list[str] = []

    def watch(id: str) -> None:
        asked.append(id)
        if id in wanted:
            frames = [frame for frame in _callers() if is_of_user(frame.f_code.co_filename)]
            look(Stop(f"before {id}", [Branch("", frames)], before=True))

    with ExitStack() as stack:
        activation: Any = stack.enter_context(
            looked_into(recorded, recorded.entries, workflow, registry.errors.rebuild, Stopping)
        )
        activation.watch = watch
        traced = sys.gettrace()
        try:
            activation.begin()
        finally:
            sys.settrace(traced)  # a debugger goes on line by line in the body, and not in what winds it up
        if isinstance(activation.outcome, Raised) and isinstance(activation.outcome.error, StopHere | bdb.BdbQuit):
            return None
        unfit = "" if activation.broken is None else str(activation.broken)
        if before is None:
            look(_standing(activation, unfit))
        elif not any(id in wanted for id in asked):
            return unfit or f"the body does not ask for {before!r}; it asks for: {_listed(asked)}"
        return unfit or None


def _standing(activation: Activation, unfit: str) -> Stop:
    match activation.outcome:
        case Returned(value):
            return Stop(f"the body has ended and returned {type(value).__name__}", unfit=unfit)
        case Raised(error):
            frames = _users([frame for frame, _ in walk_tb(error.__traceback__)])
            branches = [Branch("", frames)] if frames else []
            return Stop(f"the body has ended and raised {type(error).__name__}", branches, unfit)
        case _:
            pass
    branches = [
        Branch(task.path.rstrip("/"), _users(list(frames_of_awaitable(task.get_coro()))))
        for task in activation.loop.live_tasks()
    ]
    waited = _listed(list(activation.requested)) if activation.requested else "a message"
    return Stop(f"it waits for {waited}", [each for each in branches if each.frames], unfit)


def _users(frames: list[FrameType]) -> list[FrameType]:
    return [frame for frame in frames if is_of_user(frame.f_code.co_filename)] or frames


def _callers() -> list[FrameType]:
    """The frames that have called us, outermost first, up to the body: what drives it says nothing."""
    found: list[FrameType] = []
    frame = inspect.currentframe()
    while frame is not None and frame.f_code is not Handle.run.__code__:
        found.append(frame)
        frame = frame.f_back
    return found[::-1]


def _listed(ids: Sequence[str]) -> str:
    return (", ".join(ids[:TOLD]) + (" and others" if len(ids) > TOLD else "")) or "nothing"
