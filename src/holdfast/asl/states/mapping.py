"""Map: the same states for each item of a collection."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from msgspec.structs import replace

from holdfast.asl import processing
from holdfast.asl.branches import aborting, branch
from holdfast.asl.definition import Map, Processor
from holdfast.asl.errors import EXCEED_TOLERATED_FAILURE_THRESHOLD, StatesError
from holdfast.asl.events import History, Trail
from holdfast.asl.frames import inner
from holdfast.asl.maps.batches import Batcher, batched
from holdfast.asl.maps.items import Item, items_of, selected
from holdfast.asl.maps.readers import items_read
from holdfast.asl.maps.settings import Tolerance, concurrency_of, tolerance_of
from holdfast.asl.maps.writers import Child, written
from holdfast.asl.processing import Left
from holdfast.asl.together import TooMuch, first_failure, together
from holdfast.asl.visit import Visit

if TYPE_CHECKING:
    from holdfast.asl.frames import Frame, Run

INLINE_CONCURRENCY: Final = 40
DISTRIBUTED_CONCURRENCY: Final = 10_000
"""The most iterations at a time of AWS."""

THRESHOLD_EXCEEDED: Final = "The specified tolerated failure threshold was exceeded"


async def mapped(run: Run, frame: Frame, visit: Visit, place: str) -> Left:
    """How a Map is left, once its iterations have ended. Raises ``StatesError``."""
    state = cast("Map", visit.state)
    processor = cast("Processor", state.processor)
    effective = processing.effective_input(visit)
    concurrency = concurrency_of(visit, effective)
    items = [] if state.item_reader is not None else await items_of(visit, effective, objects=run.compat != "aws")
    frame.trail.note("MapStateStarted", name=state.name, length=len(items))
    tolerance = tolerance_of(visit, effective)
    if processor.distributed:
        frame.trail.note("MapRunStarted", name=state.name)
    try:
        if state.item_reader is not None:
            items = await items_read(run, visit, effective)
        result = await _ran(run, frame, visit, place, effective, items, concurrency, tolerance)
    except StatesError as error:
        if processor.distributed:
            frame.trail.note("MapRunFailed", error=error.error, cause=error.cause)
        raise
    if processor.distributed:
        frame.trail.note("MapRunSucceeded")
    frame.trail.note("MapStateSucceeded", name=state.name)
    visit.note("result", result)
    return processing.left(visit, effective, result)


async def _ran(
    run: Run,
    frame: Frame,
    visit: Visit,
    place: str,
    effective: Any,
    items: list[Item],
    concurrency: int,
    tolerance: Tolerance,
) -> Any:
    """The result of the iterations. Raises ``StatesError``."""
    state = cast("Map", visit.state)
    processor = cast("Processor", state.processor)
    inputs = [(item, selected(visit, effective, item)) for item in items]
    if state.item_batcher is not None:
        batcher = Batcher.of(visit, effective, state.item_batcher)
        inputs = [(Item(number, batch), batch) for number, batch in enumerate(batched(inputs, batcher))]
    iterate = partial(_child, state) if processor.distributed else _iteration
    frames = [_frame(frame, visit, processor, f"{place}[{item.index}]/", item) for item, _ in inputs]
    starts = [partial(iterate, run, each, *pair) for each, pair in zip(frames, inputs, strict=True)]
    too_much = _too_much(processor, tolerance, len(starts))
    with aborting(frames):
        ended = await together(starts, _limit(processor, concurrency), too_much)
    if state.result_writer is None:
        return [each.output for each in ended if each.error is None]
    children = [
        Child(_identity(state, frame, item, given), given, each)
        for (item, given), each in zip(inputs, ended, strict=True)
    ]
    return await written(run, visit, effective, children)


async def _iteration(run: Run, frame: Frame, item: Item, given: Any) -> Any:
    frame.trail.note("MapIterationStarted", index=item.index)
    try:
        output = await branch(run, frame, given)
    except asyncio.CancelledError:
        frame.trail.note("MapIterationAborted", index=item.index)
        raise
    except StatesError:
        frame.trail.note("MapIterationFailed", index=item.index)
        raise
    frame.trail.note("MapIterationSucceeded", index=item.index)
    return output


async def _child(state: Map, run: Run, frame: Frame, item: Item, given: Any) -> Any:
    """A child execution of a distributed Map: it has events, an identity and an input of its own."""
    history = History(1, kept=False)
    context = {**frame.context, "Execution": _identity(state, frame, item, given)}
    child = replace(frame, context=context, trail=Trail(history, 1))
    return await run.branch(replace(run, history=history), child, given)


def _identity(state: Map, frame: Frame, item: Item, given: Any) -> dict[str, Any]:
    execution = frame.context["Execution"]
    name = f"{execution['Name']}-{item.index}"
    label = state.label or state.name
    return {**execution, "Id": f"{execution['Id'].rpartition(':')[0]}/{label}:{name}", "Input": given, "Name": name}


def _frame(frame: Frame, visit: Visit, processor: Processor, path: str, item: Item) -> Frame:
    variables: Mapping[str, Any] = {} if processor.distributed else visit.variables
    return inner(frame, processor, path, variables=variables, Map={"Item": item.context})


def _limit(processor: Processor, concurrency: int) -> int:
    most = DISTRIBUTED_CONCURRENCY if processor.distributed else INLINE_CONCURRENCY
    return min(concurrency or most, most)


def _too_much(processor: Processor, tolerance: Tolerance, count: int) -> TooMuch:
    if not processor.distributed:
        return first_failure

    def judged(_place: int, _error: StatesError, failed: int) -> StatesError | None:
        exceeded = tolerance.exceeded(failed, count)
        return StatesError(EXCEED_TOLERATED_FAILURE_THRESHOLD, THRESHOLD_EXCEEDED) if exceeded else None

    return judged
