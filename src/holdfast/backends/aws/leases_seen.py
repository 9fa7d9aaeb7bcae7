"""What is known of leased heads in the index, so that not every look reads every head that another process works on.

A head stays in the index while a process works on it, and its entry does not show that. So it is read once. From then
on a few heads of each owner are read for all of them: as long as these show that the owner renews its leases, the
others are left out. If they do not, the owner may be dead, and all are read. A head whose entry has moved is read at
once; and each is read again from time to time, more and more seldom, whatever the others show.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from holdfast.bounded import Bounded
from holdfast.items import Item

SAMPLES: Final = 2
"""How many heads of an owner are read for all of them."""

LEAST_SECONDS: Final = 10.0
MOST_SECONDS: Final = 300.0
"""A head is read again after as long as it has been known, but no sooner and no later than this."""

MOST_REMEMBERED: Final = 100_000


class Entry(Struct, frozen=True):
    """A head in one part of the index."""

    when: int
    partition: str


class Seen(Struct):
    """A head that was leased when it was last read. Times are in seconds."""

    when: int
    owner: str
    first_at: float
    read_at: float


class LeasesSeen:
    """The leased heads that this process has read."""

    def __init__(self) -> None:
        self._seen = Bounded[str, Seen](MOST_REMEMBERED)

    def divide(self, entries: Iterable[Entry], now: float) -> tuple[list[str], dict[str, list[str]]]:
        """The heads to read, and those that need not be read if their owner is alive, by owner."""
        wanted: list[str] = []
        resting: dict[str, list[str]] = {}
        samples: dict[str, int] = {}
        for entry in entries:
            seen = self._seen.get(entry.partition)
            if seen is None or seen.when != entry.when or now - seen.read_at >= _pause(seen):
                wanted.append(entry.partition)
            elif samples.setdefault(seen.owner, 0) < SAMPLES:
                samples[seen.owner] += 1
                wanted.append(entry.partition)
            else:
                resting.setdefault(seen.owner, []).append(entry.partition)
        return wanted, resting

    def note(self, names: Sequence[str], heads: dict[str, Item], now: float) -> None:
        """These heads were read; those that were found are as given."""
        for name in names:
            head, seen = heads.get(name), self._seen.pop(name, None)
            if head is None or head.owner is None or head.due_at is None:
                continue
            is_same = seen is not None and seen.owner == head.owner and seen.when == head.due_at
            first_at = seen.first_at if is_same and seen is not None else now
            self._seen[name] = Seen(head.due_at, head.owner, first_at, now)


def _pause(seen: Seen) -> float:
    return min(max(seen.read_at - seen.first_at, LEAST_SECONDS), MOST_SECONDS)
