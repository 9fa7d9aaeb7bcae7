"""Pages that are being read while others write: the place that a read has passed is shown as it was."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Sequence

from holdfast.testing.hostile.dice import Dice
from holdfast.testing.hostile.tables import Item, Place


class PageRead:
    """The read of a page of one partition, or of all, and the items that were written since it began, as they were."""

    def __init__(self, table: str, partition: str | None) -> None:
        self._table = table
        self._partition = partition
        self.past: dict[Place, Item | None] = {}

    def covers(self, place: Place) -> bool:
        """Whether the item may be on the page."""
        return place[0] == self._table and self._partition in {None, place[1]}

    def passed(self, dice: Dice, *, backwards: bool) -> dict[Place, Item | None]:
        """The written items that lie before the place that the read had come to, which is drawn."""
        places = sorted(self.past, reverse=backwards)
        return {place: self.past[place] for place in places[: dice.below("passed", len(places) + 1)]}


class PageReads:
    """The reads under way."""

    def __init__(self) -> None:
        self._under_way: list[PageRead] = []

    @contextlib.contextmanager
    def reading(self, read: PageRead) -> Generator[None]:
        """A page is being read."""
        self._under_way.append(read)
        try:
            yield
        finally:
            self._under_way.remove(read)

    def of(self, place: Place) -> Sequence[PageRead]:
        """The reads that a write of this item may come across. Ask before it is applied."""
        return [read for read in self._under_way if read.covers(place)]


def note(reads: Sequence[PageRead], place: Place, before: Item | None) -> None:
    """An item was written that was ``before``; the earliest counts."""
    for read in reads:
        read.past.setdefault(place, before)
