"""The history of an execution that was redriven.

A redrive takes back what has failed, so the journal of today leads past it. What the execution had come to before is
told by the journal as it was then. AWS appends to the history: it keeps the events of the attempt that ended badly,
adds ``ExecutionRedriven``, and schedules the task that has failed again; a Map run that goes on is ``MapRunRedriven``.
https://docs.aws.amazon.com/step-functions/latest/dg/redrive-executions.html
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from holdfast.asl.ending import stopped
from holdfast.asl.errors import TIMEOUT
from holdfast.asl.events import RENEWED, Event
from holdfast.replay.entries import Cancelled, Entry, Reopened
from holdfast.workflows.record import CANCELLED, TIMED_OUT

WORK: Final = ("Task", "Activity", "LambdaFunction")
MAP_RUN_REDRIVEN: Final = "MapRunRedriven"
FAILED: Final = "ExecutionFailed"
"""The end of an attempt by its body. One that fails again without doing anything new has this event alone."""

BEGUN: Final = ("Scheduled", "Started", "Submitted")


class Redrive(Struct, frozen=True):
    """A redrive of an execution, and the entries that stood in its journal before."""

    reopened: Reopened
    entries: list[Entry]

    @property
    def at_ms(self) -> int:
        """When it was."""
        return self.reopened.at


def joined(attempts: Sequence[Sequence[Event]], redrives: Sequence[Redrive]) -> list[Event]:
    """One history of the events that each attempt replays, from the start of the run on; the last one goes on.

    The numbers go on from attempt to attempt.
    """
    history = _Joined(attempts[0])
    for redrive, (_, attempt) in zip(redrives, pairwise(attempts), strict=True):
        history.redriven(redrive, attempt)
    return history.events


class _Joined:
    """``_places`` says which event of the history an event of the latest attempt is."""

    def __init__(self, first: Sequence[Event]) -> None:
        self.events = list(first)
        self._count = first[0].redrives if first else 0
        self._places = {event.id: event.id for event in first}

    def redriven(self, redrive: Redrive, attempt: Sequence[Event]) -> None:
        """Add what a redrive found, itself, and how the execution went on."""
        renewed = {event.before for event in attempt if event.type == RENEWED}
        attempt = [event for event in attempt if event.type != RENEWED]
        if ended := _end_of(redrive):
            self._add(*ended, redrive.at_ms if redrive.reopened.ended is None else redrive.reopened.ended.at)
        earlier = [event for event in attempt if event.redrives <= self._count and event.type != FAILED]
        self._count += 1
        self._add("ExecutionRedriven", {"redriveCount": self._count}, redrive.at_ms)
        places = {event.id: self._places.get(event.id, event.id) for event in earlier}
        for event in _under_way(earlier, renewed):
            places[event.id] = self._append(replace(event, at=redrive.at_ms / 1000), places)
        for event in _open_map_runs(earlier):
            places[event.id] = self._append(self._map_run_redriven(event, redrive), places)
        for event in attempt[len(earlier) :]:
            places[event.id] = self._append(replace(event, at=max(event.at, redrive.at_ms / 1000)), places)
        self._places = places

    def _map_run_redriven(self, begun: Event, redrive: Redrive) -> Event:
        arn = begun.details["mapRunArn"]
        before = sum(each.type == MAP_RUN_REDRIVEN and each.details["mapRunArn"] == arn for each in self.events)
        details = {"mapRunArn": arn, "redriveCount": before + 1}
        return replace(begun, type=MAP_RUN_REDRIVEN, details=details, at=redrive.at_ms / 1000)

    def _add(self, type: str, details: Mapping[str, Any], at_ms: int) -> None:
        last = self.events[-1].id if self.events else 0
        self.events.append(Event(last + 1, last, at_ms / 1000, type, details, self._count))

    def _append(self, event: Event, places: Mapping[int, int]) -> int:
        number = self.events[-1].id + 1
        self.events.append(
            replace(event, id=number, before=places.get(event.before, event.before), redrives=self._count)
        )
        return number


def _end_of(redrive: Redrive) -> tuple[str, Mapping[str, Any]] | None:
    """The event of an end that no body tells."""
    status = "" if redrive.reopened.ended is None else redrive.reopened.ended.status
    if status == TIMED_OUT:
        return "ExecutionTimedOut", {"error": TIMEOUT, "cause": None}
    if status == CANCELLED:
        reasons = [entry.reason for entry in redrive.entries if isinstance(entry, Cancelled)]
        error, cause = stopped(reasons[-1] or "") if reasons else (None, None)
        return "ExecutionAborted", {"error": error, "cause": cause}
    return None


def _under_way(events: Sequence[Event], renewed: Collection[int]) -> Iterator[Event]:
    """The events of the work that had begun and was not done: each task is scheduled, and started, again.

    Work whose latest event is ``renewed`` tells that itself: it begins again, with events of its own.
    """
    followed = {*renewed, *(event.before for event in events)}
    by_number = {event.id: event for event in events}
    again: set[int] = set()
    for last in (event for event in events if event.id not in followed):
        event: Event | None = last
        while event is not None and _begins_work(event):
            again.add(event.id)
            event = by_number.get(event.before)
    return (event for event in events if event.id in again)


def _open_map_runs(events: Sequence[Event]) -> Iterator[Event]:
    """The beginnings of the Map runs that had not ended, or whose failure a redrive takes back: they go on."""
    followed = {event.before for event in events}
    return (event for event in events if event.type == "MapRunStarted" and event.id not in followed)


def _begins_work(event: Event) -> bool:
    return event.type.startswith(WORK) and event.type.endswith(BEGUN)
