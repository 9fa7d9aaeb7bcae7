"""Reading the history of an execution: its journal is replayed, and tells the events again. Nothing is written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from holdfast.asl.events import Event, recorded
from holdfast.asl.redrives import Redrive, joined
from holdfast.paging import items
from holdfast.replay.entries import Entry, Reopened, decode_entries, standing
from holdfast.replay.journal import SEGMENT_PREFIX
from holdfast.workflows.history import Recorded, load
from holdfast.workflows.replay import looked_into

if TYPE_CHECKING:
    from holdfast.kernel.runtime import Runtime
    from holdfast.ports import Store
    from holdfast.workflows.record import ExecutionRecord


class _Place(Struct, frozen=True):
    """Where an earlier run of a machine, or of a Map run, has stopped: how often that was redriven, if it was told."""

    redrives: int = 0


class _Carried(Struct, frozen=True):
    """The part of an execution's input that says where an earlier run has stopped."""

    cursor: _Place | None = None


async def events_of(runtime: Runtime, partition: str) -> tuple[Recorded, list[Event]]:
    """What is recorded of an execution, and the events of its present run, in order. Raises ``NotFound``.

    What the run had come to before a redrive is a part of it. The runs before are gone once an execution has continued
    as new: its events begin with their count.
    """
    store = runtime.home.store
    found = await load(store, partition)
    redrives = await _redrives(store, found.record, partition)
    attempts = [_replayed(runtime, found, each.entries) for each in redrives]
    return found, joined([*attempts, _replayed(runtime, found, found.entries)], redrives)


async def redrives_of(store: Store, partition: str, record: ExecutionRecord) -> tuple[int, int]:
    """How often an execution was redriven, and when last, in milliseconds: 0 if that was in an earlier run."""
    cursor = msgspec.json.decode(bytes(record.input), type=_Carried).cursor
    redrives = await _redrives(store, record, partition)
    return (0 if cursor is None else cursor.redrives) + len(redrives), redrives[-1].at_ms if redrives else 0


async def requests_of(store: Store, partition: str, record: ExecutionRecord) -> list[tuple[str, int]]:
    """The ids of the requests that have redriven an execution's present run, each with its time in milliseconds."""
    return [(each.reopened.request, each.at_ms) for each in await _redrives(store, record, partition)]


async def _redrives(store: Store, record: ExecutionRecord, partition: str) -> list[Redrive]:
    """The redrives of an execution's present run, each with what stood in the journal when it came."""
    prefix = f"{SEGMENT_PREFIX}{record.run:06d}#"
    entries: list[Entry] = []
    async for segment in items(store, partition, prefix=prefix):
        entries += decode_entries(segment.body)
    return [
        Redrive(entry, standing(entries[:place])) for place, entry in enumerate(entries) if isinstance(entry, Reopened)
    ]


def _replayed(runtime: Runtime, found: Recorded, entries: Sequence[Entry]) -> list[Event]:
    workflow = runtime.registry.workflow(found.record.workflow)
    with recorded() as events, looked_into(found, entries, workflow, runtime.registry.errors.rebuild) as body:
        body.begin()
        return list(events)  # before the body leaves memory, which is nothing that has happened
