"""Where the user's code is: the line that asks for something, and the line where a body waits."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

import holdfast

_NOT_THE_USERS: Final = (str(Path(holdfast.__file__).parent), str(Path(asyncio.__file__).parent))
"""The folders whose frames say nothing to the user."""


def calling_place() -> str:
    """The line of the user's code that called us, as ``file:line``; empty if there is none."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - inspect.currentframe is the same, and more to look up
    while frame is not None:
        if _is_the_users(frame.f_code):
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def waiting_place(coroutine: Any) -> str:
    """The innermost line of the user's code at which a coroutine waits, as ``file:line``; empty if it has ended."""
    place = ""
    while coroutine is not None:
        frame = getattr(coroutine, "cr_frame", None) or getattr(coroutine, "ag_frame", None)
        if frame is not None and _is_the_users(frame.f_code):
            place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
        coroutine = getattr(coroutine, "cr_await", None) or getattr(coroutine, "ag_await", None)
    return place


def _is_the_users(code: CodeType) -> bool:
    return not code.co_filename.startswith(_NOT_THE_USERS)
