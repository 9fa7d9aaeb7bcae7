"""Reading the history of an execution: its journal is replayed, and tells the events again. Nothing is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.asl.events import Event, recorded
from holdfast.paging import items
from holdfast.replay.entries import Reopened, decode_entries
from holdfast.replay.journal import SEGMENT_PREFIX
from holdfast.workflows.history import Recorded, load
from holdfast.workflows.replay import looked_into

if TYPE_CHECKING:
    from holdfast.kernel.runtime import Runtime
    from holdfast.ports import Store


async def events_of(runtime: Runtime, partition: str) -> tuple[Recorded, list[Event]]:
    """What is recorded of an execution, and the events of its present run, in order. Raises ``NotFound``.

    The runs before are gone once an execution has continued as new: its events begin with their count.
    """
    found = await load(runtime.home.store, partition)
    workflow = runtime.registry.workflow(found.record.workflow)
    with recorded() as events, looked_into(found, found.entries, workflow, runtime.registry.errors.rebuild) as body:
        body.begin()
    return found, events


async def redrives_of(store: Store, partition: str) -> list[Reopened]:
    """How often an execution was retried in its present run, when and by which requests."""
    segments = [item async for item in items(store, partition, prefix=SEGMENT_PREFIX)]
    entries = (entry for segment in segments for entry in decode_entries(segment.body))
    return [entry for entry in entries if isinstance(entry, Reopened)]
