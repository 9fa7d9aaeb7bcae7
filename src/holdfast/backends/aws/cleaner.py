"""The clean-up of a home a little at a time: a function is called for it every hour, and has minutes for it.

Once a day a pass through the table begins. A call that runs out of time notes in the table how far it has come, and the
next one goes on there. Two calls at once, or one that dies, do no harm: what is deleted twice was over both times.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct

from holdfast.backends.aws.cleaning import Hands, Position, clean
from holdfast.clock import MS_PER_MINUTE, Clock
from holdfast.items import Item, Put
from holdfast.ports import SALT_PARTITION, Store

CLEANED_SORT: Final = "clean-up"
"""The sort key of the note, next to the salt of the home."""

PASS_EVERY_MS: Final = 23 * 60 * MS_PER_MINUTE
"""A pass begins so long after the one before has begun: a call that comes a little early still begins it."""


class Note(Struct, frozen=True):
    """When the last pass began (milliseconds), and where it goes on; nowhere if it has ended."""

    began_ms: int = 0
    position: Position = ()


class DynamoCleaner:
    """Cleans the table and the bucket. See ``Cleaner``."""

    def __init__(self, hands: Hands, store: Store, clock: Clock) -> None:
        self._hands = hands
        self._store = store
        self._clock = clock

    async def clean(self, until: float) -> int:
        """See ``Cleaner.clean``."""
        there = await self._store.get(SALT_PARTITION, CLEANED_SORT)
        note = _read(there)
        if not note.position:
            if 0 <= self._clock.now_ms() - note.began_ms < PASS_EVERY_MS:
                return 0
            note = Note(self._clock.now_ms())
        cleaned = await clean(self._hands, self._clock, position=note.position, until=until)
        noted = Note(note.began_ms, cleaned.position)
        await self._store.write(Put(Item(SALT_PARTITION, CLEANED_SORT, body=msgspec.json.encode(noted))))
        return cleaned.heads + cleaned.items + cleaned.blobs


def _read(there: Item | None) -> Note:
    """The note; none if another release wrote one that this cannot read: then a pass begins."""
    if there is None:
        return Note()
    try:
        return msgspec.json.decode(there.body, type=Note)
    except msgspec.DecodeError:
        return Note()
