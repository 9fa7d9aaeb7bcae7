"""The pauses between the tries of something that failed: each longer than the one before, up to a longest one."""

from __future__ import annotations

import asyncio
from typing import Final

FIRST_PAUSE_SECONDS: Final = 0.05
LONGEST_PAUSE_SECONDS: Final = 2.0
"""Short compared with a lease: when the store is back, an owner should write its results before others take over."""

GROWTH: Final = 2.0


class Pauses:
    """``seconds`` is how long the next pause lasts.

    >>> pauses = Pauses(1.0, 3.0)
    >>> [pauses.take() for _ in range(4)]
    [1.0, 2.0, 3.0, 3.0]
    """

    __slots__ = ("_first", "_growth", "_longest", "seconds")

    def __init__(
        self, first: float = FIRST_PAUSE_SECONDS, longest: float = LONGEST_PAUSE_SECONDS, growth: float = GROWTH
    ) -> None:
        self._first = self.seconds = first
        self._longest = longest
        self._growth = growth

    def take(self) -> float:
        """The next pause, in seconds, for a caller that waits by itself."""
        pause = self.seconds
        self.seconds = min(pause * self._growth, self._longest)
        return pause

    async def wait(self) -> None:
        """Wait for the next pause."""
        await asyncio.sleep(self.take())

    def begin_again(self) -> None:
        """It went well: the next pause is as short as the first."""
        self.seconds = self._first
