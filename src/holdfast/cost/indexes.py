"""Which heads the indexes of a table would hold in a trial, and what their entries cost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import UNSET, Struct

from holdfast.backends.aws.layout import is_streamed, listed_part
from holdfast.backends.aws.settings import STREAMED_MS, Settings
from holdfast.backends.aws.units import MOVED_UNITS, entry_units
from holdfast.items import HEAD, Item, Put, Update, Write, place

KEPT_UNITS: Final = 2
"""What the stream brings into the index: a write of the head, and one of the entry."""


class Streamed(Struct, frozen=True):
    """A head that the stream covers, since then (milliseconds), and when it is due."""

    since: int
    due_at: int


class Indexes:
    """The entries of heads under the settings of a home: of what is due, and for listings.

    Where the stream covers what is due now, what is still to be done a minute later enters the index.
    """

    def __init__(self, settings: Settings, now: Callable[[], int]) -> None:
        self._settings = settings
        self._now = now
        self._due: dict[str, int] = {}
        self._streamed: dict[str, Streamed] = {}

    def units(self, write: Write, before: Item | None, after: Item | None) -> int:
        """The write units that a write costs besides its item."""
        partition, sort = place(write)
        if sort != HEAD:
            return 0
        units = self._listed(write, before, after)
        if isinstance(write, Update) and write.due_at is UNSET:
            return units
        units += self._kept(partition)
        there, then = self._due.pop(partition, None), None if after is None else after.due_at
        now = self._now()
        if then is not None and is_streamed(then, self._settings.streamed_until(now)):
            self._streamed[partition], then = Streamed(now, then), None
        if then is not None:
            self._due[partition] = then
        return units + entry_units(there, then)

    def _kept(self, partition: str) -> int:
        """What the stream has written for a head meanwhile."""
        streamed = self._streamed.pop(partition, None)
        if streamed is None or self._now() - streamed.since < STREAMED_MS:
            return 0
        self._due[partition] = streamed.due_at
        return KEPT_UNITS

    def _listed(self, write: Write, before: Item | None, after: Item | None) -> int:
        """An entry is written with its head. One that replaces a head has another time of creation."""
        if self._settings.listing != "index" or listed_part(place(write)[0]) is None:
            return 0
        if isinstance(write, Put):
            return 1 if before is None else MOVED_UNITS
        return 1 if after is None and before is not None else 0
