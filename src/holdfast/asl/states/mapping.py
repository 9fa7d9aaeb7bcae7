"""Map: the same states for each item of a collection."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from msgspec import UNSET

from holdfast import ids
from holdfast.asl import processing
from holdfast.asl.branches import aborting, branch
from holdfast.asl.definition import Map, Processor
from holdfast.asl.ending import told_of
from holdfast.asl.errors import DATA_LIMIT_EXCEEDED, StatesError
from holdfast.asl.frames import inner
from holdfast.asl.maps.batches import Batcher, batched
from holdfast.asl.maps.items import Item, items_of, selected
from holdfast.asl.maps.readers import items_read
from holdfast.asl.maps.settings import concurrency_of, tolerance_of
from holdfast.asl.maps.writers import writer_of
from holdfast.asl.orders import ITEMS_OF_A_RUN, MapOrder, Owner, Part, Tolerance, map_runs_of
from holdfast.asl.processing import Left
from holdfast.asl.together import together
from holdfast.asl.visit import Visit
from holdfast.codec.parameters import INPUT_LIMIT_BYTES
from holdfast.failure import describe

if TYPE_CHECKING:
    from holdfast.asl.frames import Frame, Run
    from holdfast.workflows.scope import BodyScope

INLINE_CONCURRENCY: Final = 40

LEAST_BYTES_OF_A_PART: Final = len('{"input":""},')


async def mapped(run: Run, frame: Frame, visit: Visit, place: str) -> Left:
    """How a Map is left, once its iterations have ended. Raises ``StatesError``."""
    state = cast("Map", visit.state)
    processor = cast("Processor", state.processor)
    effective = processing.effective_input(visit)
    concurrency = concurrency_of(visit, effective)
    items = [] if state.item_reader is not None else await items_of(visit, effective, objects=run.quota.compat != "aws")
    frame.trail.note("MapStateStarted", name=state.name, length=len(items))
    tolerance = tolerance_of(visit, effective)
    map_run = map_run_name(run, place) if processor.distributed else ""
    if processor.distributed:
        _refuse_begun_within(run, place)
        arn = Owner.of(frame.context, state.label or state.name).arn("mapRun", map_run)
        frame.trail.note("MapRunStarted", mapRunArn=arn)
    try:
        if state.item_reader is not None:
            items = await items_read(run, visit, effective)
        inputs = ((item, selected(visit, effective, item)) for item in items)
        if processor.distributed:
            count = len(items) if state.item_batcher is None else 0
            order = _order(run, frame, visit, effective, inputs, count, concurrency, tolerance)
            result = await run.maps.distribute(run, order, map_run)
        else:
            result = await _ran(run, frame, visit, place, list(inputs), concurrency)
    except Exception as error:
        if processor.distributed and run.activation.broken is None:  # else it goes on once there is code that fits
            name, cause = (error.error, error.cause) if isinstance(error, StatesError) else told_of(describe(error))
            frame.trail.note("MapRunFailed", error=name, cause=cause)
        raise
    if processor.distributed:
        frame.trail.note("MapRunSucceeded")
    frame.trail.note("MapStateSucceeded", name=state.name)
    visit.note("result", result)
    return processing.left(visit, effective, result)


def _refuse_begun_within(run: Run, place: str) -> None:
    """Stop at a Map that an earlier release has begun: it worked on the items within this journal, which an item that
    was started as an execution would do again, under another key.
    """
    if (begun := run.activation.past.below(f"{place}[")) is not None:
        raise run.activation.break_off(
            f"an earlier release of Holdfast began this distributed Map within the execution itself ({begun} is "
            "recorded), and this release runs each item as an execution of its own. Let workers of the earlier release "
            "end the execution, or cancel it and start it again"
        )


async def _ran(
    run: Run, frame: Frame, visit: Visit, place: str, inputs: Sequence[tuple[Item, Any]], concurrency: int
) -> list[Any]:
    """The outputs of the iterations of an inline Map. Raises ``StatesError``."""
    processor = cast("Processor", cast("Map", visit.state).processor)
    frames = [_frame(frame, visit, processor, f"{place}[{item.index}]/", item) for item, _ in inputs]
    starts = [partial(_iteration, run, each, *pair) for each, pair in zip(frames, inputs, strict=True)]
    with aborting(frames):
        ended = await together(starts, min(concurrency or INLINE_CONCURRENCY, INLINE_CONCURRENCY))
    return [each.output for each in ended]


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


def _frame(frame: Frame, visit: Visit, processor: Processor, path: str, item: Item) -> Frame:
    return inner(frame, processor, path, variables=visit.variables, Map={"Item": item.context})


def _order(
    run: Run,
    frame: Frame,
    visit: Visit,
    effective: Any,
    inputs: Iterable[tuple[Item, Any]],
    count: int,
    concurrency: int,
    tolerance: Tolerance,
) -> MapOrder:
    """What the Map run of a distributed Map is given. Raises ``StatesError``."""
    state = cast("Map", visit.state)
    processor = cast("Processor", state.processor)
    return MapOrder(
        owner=Owner.of(frame.context, state.label or state.name),
        processor=processor.text,
        express=processor.execution_type == "EXPRESS",
        parts=_together(_parts(state, visit, effective, inputs), count, run.quota.limit_bytes),
        concurrency=concurrency,
        tolerance=tolerance,
        writer=writer_of(visit, effective),
    )


def _together(parts: Iterable[Part], count: int, limit_bytes: int) -> tuple[Part, ...]:
    """All of them, at least ``count``. Raises ``States.DataLimitExceeded`` once they are more than a Map run may get.

    One that continues as new is given them again, as an input of the app.
    """
    most = INPUT_LIMIT_BYTES
    found: list[Part] = []
    size = count * LEAST_BYTES_OF_A_PART
    for part in parts if size <= most else ():
        found.append(part)
        size += len(part.input) + len(part.value) + (LEAST_BYTES_OF_A_PART if len(found) > count else 0)
        if len(found) > ITEMS_OF_A_RUN:
            most = min(most, limit_bytes)
        if size > most:
            break
    if size <= most:
        return tuple(found)
    told = (
        f"the items of the distributed Map take more than {most:,} bytes as JSON, with "
        f"{LEAST_BYTES_OF_A_PART} for each and with what an ItemSelector makes of it"
    )
    raise StatesError(DATA_LIMIT_EXCEEDED, f"{told}. Batch them, or pass references to what is stored elsewhere")


def _parts(state: Map, visit: Visit, effective: Any, inputs: Iterable[tuple[Item, Any]]) -> Iterator[Part]:
    if state.item_batcher is None:
        yield from (Part.of(given, item.value, None if item.key is UNSET else item.key) for item, given in inputs)
        return
    batches = batched(list(inputs), Batcher.of(visit, effective, state.item_batcher))
    for batch in batches:
        yield Part.of(batch, batch, items=len(batch["Items"]))


def map_run_name(run: Run, place: str) -> str:
    """The name of the next Map run of a visit of a state, in ARNs. Those of one execution begin alike.

    It follows from the execution, the state, its visit and the attempt, so that no Map run is started twice (G11).
    """
    scope: BodyScope = run.activation.context
    attempts = run.visits.get(f"{place}!", 0)
    run.visits[f"{place}!"] = attempts + 1
    own = ids.derive(scope.partition, scope.nonce, str(scope.run), place, str(attempts))
    return f"{map_runs_of(scope.partition, scope.nonce)}-{ids.fingerprint(own.encode())}"
