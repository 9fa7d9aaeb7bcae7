"""Changes that an index does not show yet."""

from __future__ import annotations

from collections import deque

from holdfast.testing.hostile.dice import Dice
from holdfast.testing.hostile.rules import IndexLag
from holdfast.testing.hostile.tables import Item, Place

SKEW = 4
"""Lags are short mostly: a draw to the power of this, of the longest."""


class Late:
    """For each item its latest changes, each with the time at which the index shows it, in their order."""

    def __init__(self, rule: IndexLag) -> None:
        self._rule = rule
        self._changes: dict[Place, deque[tuple[float, Item | None]]] = {}

    def note(self, place: Place, before: Item | None, dice: Dice, now: float) -> None:
        """An item was ``before``, and is changed now."""
        changes = self._changes.setdefault(place, deque())
        shown_at = now + self._rule.longest_seconds * dice.draw(f"lag {place}") ** SKEW
        changes.append((max(shown_at, changes[-1][0]) if changes else shown_at, before))

    def past(self, table: str, now: float) -> dict[Place, Item | None]:
        """The items of a table as its indexes see them, where that is not what the table holds."""
        found: dict[Place, Item | None] = {}
        for place, changes in list(self._changes.items()):
            while changes and changes[0][0] <= now:
                changes.popleft()
            if not changes:
                del self._changes[place]
            elif place[0] == table:
                found[place] = changes[0][1]
        return found
