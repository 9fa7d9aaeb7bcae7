"""What a journal holds for a body that has not got it yet, and what of it comes next."""

from __future__ import annotations

from collections.abc import Container, Sequence
from heapq import heappop, heappush

from holdfast.kernel.entries import Cancelled, Delivery, Done, Failed, Received


class Backlog:
    """Recorded entries in the order of the journal, waiting for the body to want them.

    ``strict``: each must be wanted exactly in its turn. Otherwise the earliest wanted one comes next.
    """

    __slots__ = ("_deliverable", "_delivered", "_entries", "_positions", "strict")

    def __init__(self, entries: Sequence[Delivery], *, strict: bool) -> None:
        self.strict = strict
        self._entries = entries
        self._positions: dict[str, int] = {}
        self._deliverable: list[int] = []
        self._delivered = 0
        for position, entry in enumerate(entries):
            if isinstance(entry, (Done, Failed)):
                self._positions[entry.op] = position
            else:
                self._deliverable.append(position)

    @property
    def exhausted(self) -> bool:
        """Whether every entry was delivered."""
        return self._delivered == len(self._entries)

    @property
    def first(self) -> Delivery:
        """The entry whose turn it is, wanted or not, where the order is strict."""
        return self._entries[self._delivered]

    def of(self, op: str) -> Delivery | None:
        """The recorded outcome of an operation."""
        position = self._positions.get(op)
        return None if position is None else self._entries[position]

    def want(self, op: str) -> None:
        """The body waits for this operation, whose outcome is recorded."""
        heappush(self._deliverable, self._positions[op])

    def take(self, wanted: Container[str]) -> Delivery | None:
        """The entry that comes next, counted as delivered; ``None`` if the body waits for none, or for another one."""
        entry = self._entries[self._delivered] if self.strict else self._earliest(wanted)
        if entry is None or not _is_wanted(entry, wanted):
            return None
        self._delivered += 1
        return entry

    def _earliest(self, wanted: Container[str]) -> Delivery | None:
        while self._deliverable:
            entry = self._entries[heappop(self._deliverable)]
            if _is_wanted(entry, wanted):
                return entry
        return None


def _is_wanted(entry: Delivery, wanted: Container[str]) -> bool:
    return isinstance(entry, (Received, Cancelled)) or entry.op in wanted
