"""Parallel: branches side by side."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, cast

from holdfast.asl import processing
from holdfast.asl.branches import aborting, branch
from holdfast.asl.definition import Parallel
from holdfast.asl.frames import inner
from holdfast.asl.processing import Left
from holdfast.asl.together import together
from holdfast.asl.visit import Visit

if TYPE_CHECKING:
    from holdfast.asl.frames import Frame, Run


async def branched(run: Run, frame: Frame, visit: Visit, place: str) -> Left:
    """How a Parallel is left, once all its branches are. Raises ``StatesError``: the first of a branch."""
    state = cast("Parallel", visit.state)
    effective = processing.effective_input(visit)
    given = processing.arguments(visit, effective)
    frame.trail.note("ParallelStateStarted", name=state.name)
    frames = [
        inner(frame, each, f"{place}[{number}]/", variables=visit.variables)
        for number, each in enumerate(state.branches)
    ]
    with aborting(frames):
        ended = await together([partial(branch, run, each, given) for each in frames], max(1, len(frames)))
    frame.trail.note("ParallelStateSucceeded", name=state.name)
    result: list[Any] = [each.output for each in ended]
    visit.note("result", result)
    return processing.left(visit, effective, result)
