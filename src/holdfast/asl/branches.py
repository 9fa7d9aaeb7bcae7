"""What a history tells of branches and iterations that end before their time."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from holdfast.asl.errors import StatesError

if TYPE_CHECKING:
    from holdfast.asl.frames import Frame, Run


async def branch(run: Run, frame: Frame, given: Any) -> Any:
    """The output of a frame. If it is cancelled, the state that it is in is aborted."""
    try:
        return await run.branch(run, frame, given)
    except asyncio.CancelledError:
        frame.trail.abort()
        raise


@contextmanager
def aborting(frames: Sequence[Frame]) -> Generator[None]:
    """Around frames side by side: if one has failed, the state in which it did is aborted once the others are."""
    try:
        yield
    except StatesError:
        for frame in frames:
            frame.trail.abort()
        raise
