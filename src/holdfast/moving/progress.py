"""The progress of a move."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import Struct

EVERY: Final = 1000
"""The progress is reported each time after this many items."""


class Step(Struct, frozen=True):
    """The present activity, and how many items are done, of how many if that is known."""

    doing: str
    items: int
    of: int | None = None


Tell = Callable[[Step], object]


class Progress:
    """Reports the progress of one part of a move."""

    def __init__(self, tell: Tell, doing: str, of: int | None = None) -> None:
        self._tell = tell
        self._doing = doing
        self._of = of

    def note(self, items: int) -> None:
        """The number done by now."""
        if items % EVERY == 0:
            self._tell(Step(self._doing, items, self._of))


def untold(_step: Step) -> None:
    """Report nothing."""
