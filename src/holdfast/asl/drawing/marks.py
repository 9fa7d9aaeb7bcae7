"""Where an execution stands in its machine, and what has become of each state, by the events of its history."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import Enum

from holdfast.asl.events import Event


class Mark(Enum):
    """What has become of a state. The value is a sign and a word, so that no colour has to be told from another."""

    CURRENT = "▶ current"
    LEFT = "✓ left"
    FAILED = "✗ failed"
    STOPPED = "■ stopped"


ENTERED = "StateEntered"
EXITED = "StateExited"
ABORTED = "StateAborted"
BAD_ENDS = ("Failed", "TimedOut")


class _Lines:
    """Follows the lines of control of a history: ``owner`` is the state that each event belongs to."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.within: Counter[str] = Counter()
        self.marks: dict[str, Mark] = {}
        self._owner: dict[int, str] = {}
        for event in events:
            self._follow(event)

    def _follow(self, event: Event) -> None:
        if event.type.endswith(ENTERED):
            name = str(event.details["name"])
            self.within[name] += 1
            self.marks[name] = Mark.CURRENT
        else:
            name = self._owner.get(event.before, "")
        self._owner[event.id] = name
        if not name:
            return
        if event.type.endswith((EXITED, ABORTED)):
            self.within[name] -= 1
        if event.type.endswith(EXITED):
            self.marks[name] = Mark.LEFT
        elif event.type.endswith(BAD_ENDS):
            self.marks[name] = Mark.FAILED
        elif event.type.endswith(ABORTED):
            self.marks[name] = Mark.FAILED if self.marks[name] is Mark.FAILED else Mark.STOPPED
        elif not event.type.endswith(ENTERED):
            self.marks[name] = Mark.CURRENT  # it is tried again


def standing(events: Iterable[Event]) -> list[str]:
    """The states that have been entered and not left, in the order in which they were entered.

    A state in which an execution has failed is still one that it is in.
    """
    return [name for name, count in _Lines(events).within.items() if count > 0]


def marks_of(events: Iterable[Event], *, has_ended: bool) -> Mapping[str, Mark]:
    """What has become of each state that was entered, by its name. ``has_ended``: the execution has."""
    lines = _Lines(events)
    return {name: _final(mark, lines.within[name], has_ended=has_ended) for name, mark in lines.marks.items()}


def _final(mark: Mark, within: int, *, has_ended: bool) -> Mark:
    """The mark of a state that this many lines are in: of a Map's iterations some may be further than others."""
    if not within:
        return mark
    if not has_ended:
        return Mark.CURRENT
    return Mark.FAILED if mark is Mark.FAILED else Mark.STOPPED
