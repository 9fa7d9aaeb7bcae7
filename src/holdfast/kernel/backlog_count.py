"""What a sweep has seen: how much is due, how late it is, and what is blocked."""

from __future__ import annotations

from typing import Final

from holdfast.items import Item
from holdfast.kernel.model import Model

PARKED_DUE_AT: Final = 0
"""The due time of a parked head. It is the first in the index of what is due: each sweep counts it, and leaves it."""


class BacklogCount:
    """Counts heads that a sweep meets, as they were when it met them.

    A blocked head is due again a minute later (``BLOCKED_RECHECK_MS``), and a parked one always. So a sweep that looks
    a minute ahead meets all of them, but for those that a process looks at in that moment.
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
        if (when := due_at(head)) <= self._now_ms and not is_parked(head, model):
            self.due += 1
            self._oldest_ms = min(self._oldest_ms, when)


def is_parked(head: Item, model: Model | None) -> bool:
    """Whether a head waits to be resumed, and for nothing else."""
    return model is not None and head.due_at == PARKED_DUE_AT and head.owner is None and head.status == model.blocked


def due_at(head: Item) -> int:
    """When a worker is to check a head that ``Store.due`` has answered."""
    return (head.due_at if head.lease_until is None else head.lease_until) or 0
