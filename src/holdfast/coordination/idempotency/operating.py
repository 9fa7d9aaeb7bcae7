"""What an operator does: read the record of a key, and delete it."""

from __future__ import annotations

from holdfast.coordination.idempotency.record import RUNNING, Place, expired, stands
from holdfast.errors import InvalidState, Refused
from holdfast.items import Delete, Item, RevisionIs, Write
from holdfast.opened import Opened
from holdfast.persist import write_for_caller


async def look(opened: Opened, place: Place) -> Item | None:
    """The item of a key as it stands now; ``None`` if there is none, or its window is over."""
    there = await opened.home.store.get(place.partition, place.sort)
    return None if there is None or expired(there, opened.clock.now_ms()) else there


async def forget(opened: Opened, place: Place) -> bool:
    """Delete a key's record, so that its next use is its first; false if there is none.

    Raises ``InvalidState`` while an attempt runs under it.
    """
    there = await look(opened, place)
    if there is None:
        return False
    if there.status == RUNNING and stands(opened, there, opened.clock.now_ms()):
        raise InvalidState(f"an attempt runs under key {place.sort}; wait until it has ended, or its lease has lapsed")
    gone: Write = Delete(place.partition, place.sort, RevisionIs(there.revision))
    try:
        await write_for_caller(opened.home.store, gone, ours=lambda item: item is None)
    except Refused:
        raise InvalidState(f"key {place.sort} changed while it was to be deleted; read it again") from None
    return True
