"""Entities that are being created with our lease in them: until the store has answered, their lease looks abandoned."""

from __future__ import annotations


class Creations:
    """The partitions whose heads this process is creating, and which of them were to be checked meanwhile.

    Without it, a sweep or a wake-up that comes before the store's answer finds a lease of ours without a turn, and
    takes it over. Then the answer starts the entity a second time, from nothing.

    ``kept`` are those that a turn will begin for here. Each has its place among the running ones already: a thousand
    starts at the same moment would all find the one place that is left.
    """

    __slots__ = ("_expected", "_postponed", "kept")

    def __init__(self) -> None:
        self._expected: dict[str, int] = {}
        self._postponed: set[str] = set()
        self.kept: set[str] = set()

    def expect(self, partition: str) -> None:
        """A head is about to be written."""
        self._expected[partition] = self._expected.get(partition, 0) + 1

    def postpones(self, partition: str) -> bool:
        """Whether a check has to wait. ``over`` then says that it is owed."""
        if partition not in self._expected:
            return False
        self._postponed.add(partition)
        return True

    def over(self, partition: str) -> bool:
        """It was written, or was not. True if it is to be checked now."""
        if others := self._expected.pop(partition) - 1:
            self._expected[partition] = others
            return False
        self.kept.discard(partition)
        if partition not in self._postponed:
            return False
        self._postponed.remove(partition)
        return True
