"""How far a move is, for whoever waits for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import Struct

EVERY: Final = 1000
"""After so many items it is told."""


class Step(Struct, frozen=True):
    """What is being done, and how many items have been dealt with, of so many if that is known."""

    doing: str
    items: int
    of: int | None = None


Tell = Callable[[Step], object]


class Progress:
    """Tells of one part of a move."""

    def __init__(self, tell: Tell, doing: str, of: int | None = None) -> None:
        self._tell = tell
        self._doing = doing
        self._of = of

    def note(self, items: int) -> None:
        """So many by now."""
        if items % EVERY == 0:
            self._tell(Step(self._doing, items, self._of))


def untold(_step: Step) -> None:
    """Nobody waits."""
