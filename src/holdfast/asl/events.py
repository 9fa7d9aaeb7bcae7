"""The history of a machine's execution: the events that AWS has, in its order.

Nothing is written for it. The interpreter numbers its events as it runs, because the texts of errors name them, and
drops them. Who wants to read the history replays the journal, with ``recorded`` around it: the same events come again,
at the same times.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from msgspec import Struct


class Event(Struct, frozen=True):
    """One event. ``before`` is the number of the event that led to it, ``at`` the time in seconds.

    ``redrives`` says how often the execution had been redriven before it.
    """

    id: int
    before: int
    at: float
    type: str
    details: Mapping[str, Any]
    redrives: int = 0


ABORTED_KINDS: Final = frozenset({"Task", "Wait", "Map", "Parallel"})

RENEWED: Final = "Renewed"
"""No event of AWS, and none that a reader is shown: after a redrive the work behind ``before`` begins again."""

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


def never() -> int:
    """How often an execution was redriven that cannot be."""
    return 0


class History:
    """Numbers the events of one execution, from ``count`` on, and keeps them for a reader.

    ``redrives`` answers how often the execution had been redriven when its body came to where it is.
    """

    __slots__ = ("_events", "count", "redrives")

    def __init__(self, count: int = 0, redrives: Callable[[], int] = never) -> None:
        self.count = count
        self.redrives = redrives
        self._events = _reader.get()

    def add(self, type: str, before: int, details: Mapping[str, Any]) -> int:
        """Add an event now, and answer its number."""
        self.count += 1
        if self._events is not None:
            now = asyncio.get_running_loop().time()
            self._events.append(Event(self.count, before, now, type, details, self.redrives()))
        return self.count

    def renew(self, last: int) -> None:
        """Say that the work whose latest event is ``last`` is not waited for any more."""
        if self._events is not None:
            now = asyncio.get_running_loop().time()
            self._events.append(Event(0, last, now, RENEWED, {}, self.redrives()))


class Trail:
    """One line of control in a history: a machine's own, a branch's, an iteration's.

    ``last`` is its latest event, ``within`` the kind of the state that it is in.
    """

    __slots__ = ("_history", "last", "within")

    def __init__(self, history: History, last: int = 0) -> None:
        self._history = history
        self.last = last
        self.within = ""

    def note(self, type: str, **details: Any) -> int:
        """Add an event of this type, and answer its number. The details are plain JSON.

        trail.note("PassStateEntered", name="Prepare", input={"order": 7})
        """
        self.last = self._history.add(type, self.last, details)
        return self.last

    def renew(self, since: int) -> None:
        """The work that has begun behind the event ``since`` begins again: a redrive has closed what it waited for."""
        self._history.renew(self.last)
        self.last = since

    def abort(self) -> None:
        """The branch or iteration ends within its state. AWS has an event for kinds of states that take time.

        Recorded executions have it also for the state whose failure has ended the branch, and behind the events of the
        other branches; and not for the state of the machine itself that StopExecution has ended.
        https://docs.aws.amazon.com/step-functions/latest/apireference/API_HistoryEvent.html
        """
        if self.within in ABORTED_KINDS:
            self.note(f"{self.within}StateAborted")
        self.within = ""

    def branch(self) -> Trail:
        """Another line that begins where this one is."""
        return Trail(self._history, self.last)
