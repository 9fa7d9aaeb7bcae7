"""Where the user's code is: the line that asks for something, where a body waits, or where an error came from."""

from __future__ import annotations

import asyncio
import inspect
import sysconfig
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from traceback import walk_tb
from types import CodeType, FrameType
from typing import Any, Final

import holdfast
from holdfast.texts import told_place

_OURS: Final = str(Path(holdfast.__file__).parent)
_NOT_THE_USERS: Final = (_OURS, str(Path(asyncio.__file__).parent))
"""The folders whose frames say nothing to the user."""

_PYTHONS: Final = sysconfig.get_path("stdlib")
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
    return _innermost([(frame.f_code, frame.f_lineno) for frame in frames_of_awaitable(coroutine)])


def user_code_of(coroutine: Any) -> Place | None:
    """The innermost code of the user's own at which a coroutine waits, and the line; ``None`` if there is none."""
    found: Place | None = None
    for frame in frames_of_awaitable(coroutine):
        if _is_users(frame.f_code.co_filename):
            found = (frame.f_code, frame.f_lineno)
    return found


@lru_cache(maxsize=1_000)
def _is_users(file: str) -> bool:
    return not file.startswith(_OURS) and not _is_of_a_library(file)


def place_of_error(error: BaseException) -> str:
    """The innermost line of the user's own that the error came by."""
    return _innermost([(frame.f_code, line) for frame, line in walk_tb(error.__traceback__)])


def _innermost(places: Sequence[Place]) -> str:
    theirs = [place for place in places if not place[0].co_filename.startswith(_OURS)]
    own = [place for place in theirs if not _is_of_a_library(place[0].co_filename)]
    for found in (own, theirs, places):
        if found:
            code, line = found[-1]
            return told_place(code.co_filename, line)
    return ""


def _is_of_a_library(file: str) -> bool:
    return file.startswith(_PYTHONS) or _INSTALLED in file


def is_of_user(file: str) -> bool:
    """Whether a frame of this file says something to the user: it is neither ours nor asyncio's."""
    return not file.startswith(_NOT_THE_USERS)


def frames_of_awaitable(awaitable: Any) -> Iterator[FrameType]:
    """From the outermost to the innermost: coroutines, generators that are awaited, asynchronous generators."""
    while awaitable is not None:
        for kind in ("cr", "gi", "ag"):
            frame: FrameType | None = getattr(awaitable, f"{kind}_frame", None)
            if frame is not None:
                yield frame
                break
        else:
            return
        awaitable = getattr(awaitable, f"{kind}_yieldfrom" if kind == "gi" else f"{kind}_await", None)
