"""Map: the same states for each item of a collection."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from msgspec.structs import replace

from holdfast.asl import processing
from holdfast.asl.definition import Map, Processor
from holdfast.asl.errors import EXCEED_TOLERATED_FAILURE_THRESHOLD, StatesError
from holdfast.asl.events import History, Trail
from holdfast.asl.frames import inner
from holdfast.asl.maps.batches import Batcher, batched
from holdfast.asl.maps.items import Item, items_of, selected
from holdfast.asl.maps.settings import Settings, settings_of
from holdfast.asl.processing import Left
from holdfast.asl.states.together import TooMuch, first_failure, together
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
    settings = settings_of(visit, effective)
    items = await items_of(visit, effective)
    frame.trail.note("MapStateStarted", length=len(items))
    inputs = [(item, selected(visit, effective, item)) for item in items]
    if state.item_batcher is not None:
        batcher = Batcher.of(visit, effective, state.item_batcher)
        inputs = [(Item(number, batch), batch) for number, batch in enumerate(batched(inputs, batcher))]
    distributed = processor.distributed
    iterate = partial(_child, state) if distributed else _iteration
    starts = [
        partial(iterate, run, _frame(frame, visit, processor, f"{place}[{item.index}]/", item), item, given)
        for item, given in inputs
    ]
    if distributed:
        frame.trail.note("MapRunStarted", length=len(starts))
    try:
        ended = await together(starts, _limit(processor, settings), _tolerance(processor, settings, len(starts)))
    except StatesError as error:
        if distributed:
            frame.trail.note("MapRunFailed", error=error.error, cause=error.cause)
        frame.trail.note("MapStateFailed", error=error.error, cause=error.cause)
        raise
    if distributed:
        frame.trail.note("MapRunSucceeded")
    frame.trail.note("MapStateSucceeded", name=state.name)
    result: Any = [each.output for each in ended if each.error is None]
    visit.note("result", result)
    return processing.left(visit, effective, result)


async def _iteration(run: Run, frame: Frame, item: Item, given: Any) -> Any:
    frame.trail.note("MapIterationStarted", index=item.index)
    try:
        output = await run.branch(run, frame, given)
    except StatesError:
        frame.trail.note("MapIterationFailed", index=item.index)
        raise
    frame.trail.note("MapIterationSucceeded", index=item.index)
    return output


async def _child(state: Map, run: Run, frame: Frame, item: Item, given: Any) -> Any:
    """A child execution of a distributed Map: it has events, an identity and an input of its own."""
    execution = frame.context["Execution"]
    name = f"{execution['Name']}-{item.index}"
    label = state.label or state.name
    own = {**execution, "Id": f"{execution['Id'].rpartition(':')[0]}/{label}:{name}", "Input": given, "Name": name}
    history = History(1, kept=False)
    child = replace(frame, context={**frame.context, "Execution": own}, trail=Trail(history, 1))
    return await run.branch(replace(run, history=history), child, given)


def _frame(frame: Frame, visit: Visit, processor: Processor, path: str, item: Item) -> Frame:
    variables: Mapping[str, Any] = {} if processor.distributed else visit.variables
    return inner(frame, processor, path, variables=variables, Map={"Item": item.context})


def _limit(processor: Processor, settings: Settings) -> int:
    most = DISTRIBUTED_CONCURRENCY if processor.distributed else INLINE_CONCURRENCY
    return min(settings.concurrency or most, most)


def _tolerance(processor: Processor, settings: Settings, count: int) -> TooMuch:
    if not processor.distributed:
        return first_failure

    def too_much(_place: int, _error: StatesError, failed: int) -> StatesError | None:
        return (
            StatesError(EXCEED_TOLERATED_FAILURE_THRESHOLD, THRESHOLD_EXCEEDED)
            if settings.exceeded(failed, count)
            else None
        )

    return too_much
