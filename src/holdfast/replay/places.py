"""Where the user's code is: the line that asks for something, where a body waits, or where an error came from."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator, Sequence
from functools import lru_cache
from traceback import walk_tb
from types import CodeType, FrameType
from typing import Any, Final, NamedTuple

import holdfast
from holdfast.texts import told_place

_OURS: Final = holdfast.__path__[0]
_NOT_THE_USERS: Final = (_OURS, asyncio.__path__[0])
"""The folders whose frames say nothing to the user."""

_PYTHONS: Final = asyncio.__path__[0].removesuffix("asyncio")
"""The folder of the standard library. ``sysconfig`` knows it too, and first reads all that Python was built with."""

_INSTALLED: Final = "site-packages"

Place = tuple[CodeType, int]


def calling_place() -> str:
    """The line of the user's code that called us, as ``told_place`` has it; empty if there is none."""
    frame = inspect.currentframe()
    while frame is not None:
        if not frame.f_code.co_filename.startswith(_NOT_THE_USERS):
            return told_place(frame.f_code.co_filename, frame.f_lineno)
        frame = frame.f_back
    return ""


def running_place() -> str:
    """The innermost line of the user's own that is running, as ``file:line``, whichever libraries called us from it."""
    places: list[Place] = []
    frame = inspect.currentframe()
    while frame is not None:
        places.append((frame.f_code, frame.f_lineno))
        frame = frame.f_back
    return _innermost(places[::-1])


def waiting_place(coroutine: Any) -> str:
    """The innermost line of the user's own at which a coroutine waits, as ``file:line``; empty if it has ended.

    It is the line of a library if the coroutine has passed none of the user's.
    """
    held = list(_held_by(coroutine))
    chosen = _chosen([each.code for each in held])
    return "" if chosen is None or (line := held[chosen].line()) is None else told_place(*line)


def user_code_of(coroutine: Any) -> Place | None:
    """The innermost code of the user's own at which a coroutine waits, and the line; ``None`` if there is none."""
    found: _Held | None = None
    for held in _held_by(coroutine):
        if _is_users(held.code.co_filename):
            found = held
    return None if found is None or (line := found.line()) is None else (found.code, line[1])


@lru_cache(maxsize=1_000)
def _is_users(file: str) -> bool:
    return not file.startswith(_OURS) and not _is_of_a_library(file)


def place_of_error(error: BaseException) -> str:
    """The innermost line of the user's own that the error came by."""
    return _innermost([(frame.f_code, line) for frame, line in walk_tb(error.__traceback__)])


def _innermost(places: Sequence[Place]) -> str:
    chosen = _chosen([code for code, _ in places])
    if chosen is None:
        return ""
    code, line = places[chosen]
    return told_place(code.co_filename, line)


def _chosen(codes: Sequence[CodeType]) -> int | None:
    """Which of these, the outermost first, is the innermost of the user's own, else of a library, else of all."""
    theirs = [number for number, code in enumerate(codes) if not code.co_filename.startswith(_OURS)]
    own = [number for number in theirs if not _is_of_a_library(codes[number].co_filename)]
    return next((found[-1] for found in (own, theirs, range(len(codes))) if found), None)


def _is_of_a_library(file: str) -> bool:
    return file.startswith(_PYTHONS) or _INSTALLED in file


def is_of_user(file: str) -> bool:
    """Whether a frame of this file says something to the user: it is neither ours nor asyncio's."""
    return not file.startswith(_NOT_THE_USERS)


class _Held(NamedTuple):
    """A coroutine or generator in a chain of awaits. Python makes the frame of one when it is asked for, and keeps it,
    184 bytes or more, until it ends: so the frame is asked for only if its line is wanted.
    """

    holder: Any
    kind: str

    @property
    def code(self) -> CodeType:
        code: CodeType = getattr(self.holder, f"{self.kind}_code")
        return code

    @property
    def frame(self) -> FrameType | None:
        """``None`` if it has ended."""
        frame: FrameType | None = getattr(self.holder, f"{self.kind}_frame")
        return frame

    def line(self) -> tuple[str, int] | None:
        """Where it waits: the file and the line."""
        return None if (frame := self.frame) is None else (self.code.co_filename, frame.f_lineno)


def _held_by(awaitable: Any) -> Iterator[_Held]:
    """From the outermost to the innermost: coroutines, generators that are awaited, asynchronous generators."""
    while awaitable is not None:
        kind = next((kind for kind in ("cr", "gi", "ag") if hasattr(awaitable, f"{kind}_code")), None)
        if kind is None:
            return
        yield _Held(awaitable, kind)
        awaitable = getattr(awaitable, f"{kind}_yieldfrom" if kind == "gi" else f"{kind}_await", None)


def frames_of_awaitable(awaitable: Any) -> Iterator[FrameType]:
    """Those of coroutines and generators that wait for each other, from the outermost to the innermost."""
    return (frame for held in _held_by(awaitable) if (frame := held.frame) is not None)
