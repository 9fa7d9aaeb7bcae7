"""The inbox: where messages to an entity wait, in the order of each sender (G6)."""

from __future__ import annotations

from typing import Final

from holdfast import ids
from holdfast.clock import Clock

INBOX_PREFIX: Final = "i#"
USED: Final = "used"
"""The status of a message that was applied and stays only so that a repeat of it is refused."""

MARKED: Final = "marked"
"""The status of a message that left a mark outside of the inbox, by which a repeat of it is refused."""

CLOSED: Final = "closed"
"""The status of the mark of what takes no message any more, although none came."""

NEVER_WOKEN: Final = 0
"""The revision of a head that never got a wake-up. Every message sends one in its own write, so there is no message."""

STAMPS_PER_MS: Final = 1_000


class Sender:
    """Names the messages of one process so that they sort in the order they were sent (G6)."""

    __slots__ = ("_clock", "_last", "name")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last = 0
        self.name = ids.new_id()[:12]

    def next_stamp(self) -> int:
        """A stamp behind every earlier one of this sender."""
        self._last = max(self._last + 1, self._clock.now_ms() * STAMPS_PER_MS)
        return self._last

    def next_sort(self) -> str:
        """An inbox place behind every earlier one of this sender."""
        return inbox_sort(self.next_stamp(), self.name)


def inbox_sort(stamp: int, sender: str) -> str:
    """The inbox place of a message: ``stamp`` grows with every message of one sender."""
    return f"{INBOX_PREFIX}{stamp:020d}#{sender}"


def stamp_of(sort: str) -> str:
    """The stamp in the place of a message, as it is written there."""
    return sort.split("#", 2)[1]


def sender_of(sort: str) -> str:
    """The sender in the place of a message."""
    return sort.rpartition("#")[2]
