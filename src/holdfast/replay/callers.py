"""Which function of asyncio is starting a task: what depends on chance, or on the Python, is told by that."""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import Collection
from types import CodeType, CoroutineType, FrameType
from typing import Any, Final

from holdfast.errors import DeterminismError


# asyncio.as_completed puts what it is given into a set before it starts it, so bare coroutines start in the order of
# their addresses: every second replay would differ. Tasks hash by creation, so they are fine.
def _codes_of_as_completed() -> frozenset[CodeType]:
    iterator = getattr(asyncio.tasks, "_AsCompletedIterator", None)  # what as_completed is from Python 3.13 on
    functions = [asyncio.as_completed] if iterator is None else [iterator.__init__]
    return frozenset(function.__code__ for function in functions)


_AS_COMPLETED: Final = _codes_of_as_completed()
_ENSURE_FUTURE: Final = frozenset(
    function.__code__
    for function in (asyncio.ensure_future, getattr(asyncio.tasks, "_ensure_future", None))
    if function is not None
)
_FRAMES_TO_AS_COMPLETED: Final = 5


def _caller_of(frame: FrameType | None, *, levels: int) -> FrameType | None:
    for _ in range(levels):
        frame = None if frame is None else frame.f_back
    return frame


# Python 3.11's wait_for makes a task of a coroutine, newer ones await it where they are. Journals move to newer
# Pythons, so what it asks for is named alike on all of them.
_WAIT_FOR: CodeType | None = asyncio.wait_for.__code__ if sys.version_info < (3, 12) else None
_FRAMES_TO_WAIT_FOR: Final = 3


def is_for_wait_for() -> bool:
    """Whether ``create_task``, which calls this, works for ``asyncio.wait_for``."""
    if _WAIT_FOR is None:
        return False
    frame = _caller_of(inspect.currentframe(), levels=2)
    for _ in range(_FRAMES_TO_WAIT_FOR):
        if frame is None or frame.f_code not in _ENSURE_FUTURE:
            break
        frame = frame.f_back
    return frame is not None and frame.f_code is _WAIT_FOR


def _close_unstarted(given: Any) -> None:
    for each in given:
        if inspect.iscoroutine(each):
            each.close()  # or Python would complain that it was never awaited


def refuse_unordered_start(coroutine: object) -> None:
    """Raise if ``asyncio.as_completed`` is starting bare coroutines, whose order replay could not repeat.

    Called by ``create_task``, whose caller tells: as_completed always comes through ``ensure_future``.
    """
    frame = _caller_of(inspect.currentframe(), levels=2)
    if frame is None or frame.f_code not in _ENSURE_FUTURE or not isinstance(coroutine, CoroutineType):
        return
    for _ in range(_FRAMES_TO_AS_COMPLETED):
        if frame is None:
            return
        if frame.f_code in _AS_COMPLETED:
            given: Any = frame.f_locals.get("fs", frame.f_locals.get("aws", ()))
            _close_unstarted(given if isinstance(given, Collection) else (coroutine,))
            raise DeterminismError(
                "asyncio.as_completed starts bare coroutines in no fixed order, so a replay would differ; "
                "give it tasks: asyncio.as_completed([asyncio.create_task(c) for c in coroutines])"
            )
        frame = frame.f_back
