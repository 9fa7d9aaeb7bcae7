"""Which processes worked on an execution: every segment of a journal names its writer."""

from __future__ import annotations

from msgspec import Struct

from holdfast.paging import items
from holdfast.ports import Store
from holdfast.replay.entries import Entry, Reopened, TakenOver, Truncated, decode_entries, standing
from holdfast.replay.journal import SEGMENT_PREFIX


class Handover(Struct, frozen=True):
    """Another process wrote the entries from ``place`` on. ``takeover``: the one before died, hung or was cut off."""

    place: int
    owner: str
    before: str | None
    takeover: bool


async def handovers_of(store: Store, partition: str, run: int) -> list[Handover]:
    """The handovers of one run, in order. What a later retry has dropped from the journal is left out."""
    found: list[Handover] = []
    stands: list[Entry] = []
    last: str | None = None
    async for segment in items(store, partition, prefix=f"{SEGMENT_PREFIX}{run:06d}#"):
        entries = decode_entries(segment.body)
        # A takeover fences the journal with a segment of its own before anything else (G3).
        takeover = all(isinstance(entry, TakenOver) for entry in entries)
        if segment.owner is not None and segment.owner != last:
            if takeover or last is not None:
                found.append(Handover(len(stands), segment.owner, last, takeover))
            last = segment.owner
        for entry in entries:
            if isinstance(entry, (Truncated, Reopened)):
                found = [each for each in found if each.place <= entry.keep]
        stands = standing([*stands, *entries])
    return found
