"""The history of a machine's execution: the events that AWS has, in its order.

Nothing is written for it. The interpreter numbers its events as it runs, because the texts of errors name them, and
drops them. Who wants to read the history replays the journal, with ``recorded`` around it: the same events come again,
at the same times.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from msgspec import Struct


class Event(Struct, frozen=True):
    """One event. ``before`` is the number of the event that led to it, ``at`` the time in seconds."""

    id: int
    before: int
    at: float
    type: str
    details: Mapping[str, Any]


_reader: Final[ContextVar[list[Event] | None]] = ContextVar("holdfast_asl_events", default=None)


@contextmanager
def recorded() -> Generator[list[Event]]:
    """The events of a machine that is replayed inside the block."""
    events: list[Event] = []
    token = _reader.set(events)
    try:
        yield events
    finally:
        _reader.reset(token)


class History:
    """Numbers the events of one execution, from ``count`` on, and keeps them for a reader."""

    __slots__ = ("_events", "count")

    def __init__(self, count: int = 0) -> None:
        self.count = count
        self._events = _reader.get()

    def add(self, type: str, before: int, details: Mapping[str, Any]) -> int:
        """Add an event now, and answer its number."""
        self.count += 1
        if self._events is not None:
            self._events.append(Event(self.count, before, asyncio.get_running_loop().time(), type, details))
        return self.count


class Trail:
    """One line of control in a history: a machine's own, a branch's, an iteration's. ``last`` is its latest event."""

    __slots__ = ("_history", "last")

    def __init__(self, history: History, last: int = 0) -> None:
        self._history = history
        self.last = last

    def note(self, type: str, **details: Any) -> int:
        """Add an event of this type, and answer its number. The details are plain JSON.

        trail.note("PassStateEntered", name="Prepare", input={"order": 7})
        """
        self.last = self._history.add(type, self.last, details)
        return self.last

    def branch(self) -> Trail:
        """Another line that begins where this one is."""
        return Trail(self._history, self.last)
