"""What a sweep has seen: how much is due, how late it is, and what waits for code that is gone."""

from __future__ import annotations

from holdfast.items import Item
from holdfast.kernel.program import Model


class Tally:
    """Counts heads that a sweep meets, as they were when it met them.

    Whoever blocks a head makes it due again a minute later (``BLOCKED_RECHECK_MS``). So a sweep that looks so far
    ahead meets all that are blocked, but for those that somebody looks at in that moment.
    """

    def __init__(self, now_ms: int) -> None:
        self.due = 0
        self.blocked = 0
        self._now_ms = now_ms
        self._oldest_ms = now_ms

    @property
    def oldest_seconds(self) -> float:
        """For how long the head has been due that has been so for longest."""
        return (self._now_ms - self._oldest_ms) / 1000

    def note(self, head: Item, model: Model | None) -> None:
        """One more. ``model`` is what it is a head of, if its code is here."""
        # A status that means nothing is empty, and so is that of models whose entities are never blocked.
        self.blocked += model is not None and head.status != "" and head.status == model.blocked
        if (when := due_at(head)) <= self._now_ms:
            self.due += 1
            self._oldest_ms = min(self._oldest_ms, when)


def due_at(head: Item) -> int:
    """When somebody should look at a head that ``Store.due`` has answered."""
    return (head.due_at if head.lease_until is None else head.lease_until) or 0
