"""Parallel: branches side by side."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, cast

from holdfast.asl import processing
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
    starts = [
        partial(run.branch, run, inner(frame, branch, f"{place}[{number}]/", variables=visit.variables), given)
        for number, branch in enumerate(state.branches)
    ]
    ended = await together(starts, max(1, len(starts)))
    frame.trail.note("ParallelStateSucceeded", name=state.name)
    result: list[Any] = [each.output for each in ended]
    visit.note("result", result)
    return processing.left(visit, effective, result)
