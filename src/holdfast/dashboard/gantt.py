"""The timeline of an execution as a Gantt chart: one row for each operation, drawn by the server as attributes of SVG.

The policy of the pages forbids inline styles; attributes of SVG elements are none.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

from msgspec import UNSET, Struct
from msgspec.structs import replace

from holdfast.dashboard.rendering import took
from holdfast.workflows.history import Event
from holdfast.workflows.waits import STEP

if TYPE_CHECKING:
    from holdfast.workflows.view import Line, View

WIDTH: Final = 1_000
"""The width of the chart in its own units."""

THINNEST: Final = 4.0
TICKS: Final = 4
MOST_ROWS: Final = 200
WAIT: Final = "quiet"
TONES: Final = {"done": "ok", "failed": "bad", "retrying": "warn", "received": "info", "running": "running"}


class Bar(Struct, frozen=True):
    """A part of a row: where it begins, how wide it is, and what it means. ``text`` is told on hover."""

    x: float
    width: float
    tone: str
    text: str


class Row(Struct, frozen=True, kw_only=True):
    """One operation. ``took_ms`` is the time from its beginning to its end, if it is known."""

    kind: str
    name: str
    outcome: str
    tone: str
    attempts: int
    took_ms: float | None
    error: str | None
    traceback: str | None
    bars: list[Bar]


class Tick(Struct, frozen=True):
    """A label on the axis."""

    x: float
    text: str


class Chart(Struct, frozen=True, kw_only=True):
    """A whole chart. ``left_out`` is how many operations had no room."""

    rows: list[Row]
    ticks: list[Tick]
    left_out: int


def events_of(view: View, now: datetime) -> list[Event]:
    """What the chart draws of a view: what was recorded, and the steps that run now."""
    found = [_event(line) for line in view.timeline if line.at is not None]
    running = (each for each in view.execution.waits if each.kind == STEP and each.began is not None)
    return found + [
        Event(
            at=now,
            kind=STEP,
            name=each.operation or each.name,
            outcome="running",
            began=each.began,
            attempts=each.attempt or 1,
        )
        for each in running
    ]


def _event(line: Line) -> Event:
    assert line.at is not None, "only what has a time is drawn"
    return Event(
        at=datetime.fromisoformat(line.at),
        kind=line.kind,
        name=line.name,
        outcome=line.outcome,
        began=None if line.began is None else datetime.fromisoformat(line.began),
        attempts=line.attempts,
        error=line.error,
        traceback=None if line.traceback is UNSET else line.traceback,
    )


def chart_of(events: Sequence[Event], begun: datetime, until: datetime) -> Chart:
    """The chart of what has happened from ``begun`` until ``until``."""
    scale = Scale(begun, until)
    by_name: dict[tuple[str, str], list[Event]] = {}
    events = _with_waits(events, begun)
    for event in events:
        by_name.setdefault((event.kind, event.name), []).append(event)
    shown = list(by_name.values())[:MOST_ROWS]
    length_ms = scale.length_ms
    ticks = [Tick(WIDTH * n / TICKS, took(length_ms * n / TICKS)) for n in range(TICKS + 1)]
    return Chart(rows=[_row(each, scale) for each in shown], ticks=ticks, left_out=len(by_name) - len(shown))


def _with_waits(events: Sequence[Event], begun: datetime) -> list[Event]:
    """The events; a timer, of which only the end is recorded, begins where the event before it ended."""
    found: list[Event] = []
    before = begun
    for event in events:
        found.append(replace(event, began=before) if event.kind == "timer" and event.began is None else event)
        before = max(before, event.at)
    return found


class Scale:
    """From times to places in the chart."""

    def __init__(self, begun: datetime, until: datetime) -> None:
        self._begun = begun
        self.length_ms = max(1.0, (until - begun).total_seconds() * 1_000)

    def x(self, time: datetime) -> float:
        """The place of a time. What is out of range is at an edge."""
        at_ms = (time - self._begun).total_seconds() * 1_000
        return round(min(max(at_ms / self.length_ms, 0.0), 1.0) * WIDTH, 1)

    def bar(self, begun: datetime, ended: datetime, tone: str, text: str) -> Bar:
        """A bar between two times, never too thin to be seen."""
        left, right = self.x(begun), self.x(ended)
        width = max(right - left, THINNEST)
        return Bar(min(left, WIDTH - width), round(width, 1), tone, text)


def _row(events: list[Event], scale: Scale) -> Row:
    last = events[-1]
    bars: list[Bar] = []
    for event in events:
        tone = WAIT if event.kind == "timer" else TONES.get(event.outcome, "quiet")
        told = f"{event.outcome}, attempt {event.attempts}" if event.attempts > 1 else event.outcome
        bars.append(scale.bar(event.began or event.at, event.at, tone, told))
    began = next((event.began or event.at for event in events), last.at)
    took_ms = (last.at - began).total_seconds() * 1_000 if last.began or len(events) > 1 else None
    return Row(
        kind=last.kind,
        name=last.name,
        outcome=last.outcome,
        tone=TONES.get(last.outcome, "quiet"),
        attempts=last.attempts,
        took_ms=took_ms,
        error=last.error,
        traceback=last.traceback,
        bars=bars,
    )
