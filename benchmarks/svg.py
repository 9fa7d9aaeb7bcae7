"""A chart of lines as SVG, which a browser and a page of GitHub show, in light and in dark."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 640, 360
LEFT, RIGHT, TOP, BOTTOM = 74, 20, 58, 52
COLOURS = ("#2563eb", "#d97706", "#059669")
STYLE = """
text { font: 12px system-ui, sans-serif; fill: #374151 }
.title { font-size: 15px; font-weight: 600 } .note { font-size: 10px }
.grid { stroke: #9ca3af; stroke-opacity: .35 } @media (prefers-color-scheme: dark) { text { fill: #d1d5db } }
"""


@dataclass(frozen=True, slots=True)
class Point:
    """A median, with the least and the most."""

    x: float
    y: float
    least: float
    most: float


@dataclass(frozen=True, slots=True)
class Chart:
    """Lines by name, over a logarithmic axis. ``by_powers``: the other axis is logarithmic too; else it begins at 0.

    ``note`` says under what it was measured.
    """

    title: str
    x_title: str
    y_title: str
    lines: dict[str, Sequence[Point]]
    by_powers: bool = False
    note: str = ""


class _Scale:
    def __init__(self, chart: Chart) -> None:
        points = [point for line in chart.lines.values() for point in line]
        xs, most = [point.x for point in points], max(point.most for point in points)
        self._first, self._last = math.log10(min(xs)), math.log10(max(xs))
        self._by_powers = chart.by_powers
        self._low = math.floor(math.log10(min(point.least for point in points))) if chart.by_powers else 0.0
        self._high = math.ceil(math.log10(most)) if chart.by_powers else _round_up(most)

    def x(self, value: float) -> float:
        share = (math.log10(value) - self._first) / ((self._last - self._first) or 1)
        return round(LEFT + share * (WIDTH - LEFT - RIGHT), 1)

    def y(self, value: float) -> float:
        place = math.log10(value) if self._by_powers else value
        share = (place - self._low) / ((self._high - self._low) or 1)
        return round(HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM), 1)

    def ticks(self) -> list[float]:
        if self._by_powers:
            return [10.0**power for power in range(int(self._low), int(self._high) + 1)]
        return [self._high * part / 5 for part in range(6)]


def drawn(chart: Chart) -> str:
    """The text of a file."""
    scale = _Scale(chart)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        f"<title>{escape(chart.title)}</title><style>{STYLE}</style>",
        f'<text class="title" x="{LEFT}" y="22">{escape(chart.title)}</text>',
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 12}" text-anchor="middle">{escape(chart.x_title)}</text>',
        f'<text x="{LEFT}" y="{TOP - 10}" text-anchor="end">{escape(chart.y_title)}</text>',
        f'<text class="note" x="{WIDTH - RIGHT}" y="22" text-anchor="end">{escape(chart.note)}</text>',
    ]
    for tick in scale.ticks():
        y = scale.y(tick)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4}" text-anchor="end">{tick:,.0f}</text>')
    for x in sorted({point.x for line in chart.lines.values() for point in line}):
        parts.append(f'<text x="{scale.x(x)}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{_short(x)}</text>')
    for number, (name, line) in enumerate(chart.lines.items()):
        parts += _line(scale, name, line, number)
    return "\n".join([*parts, "</svg>", ""])


def _line(scale: _Scale, name: str, line: Sequence[Point], number: int) -> list[str]:
    colour = COLOURS[number % len(COLOURS)]
    places = " ".join(f"{scale.x(point.x)},{scale.y(point.y)}" for point in line)
    parts = [f'<polyline points="{places}" fill="none" stroke="{colour}" stroke-width="2"/>']
    for point in line:
        x, told = scale.x(point.x), f"{point.y:,.0f} ({point.least:,.0f} to {point.most:,.0f})"
        bar = f'y1="{scale.y(point.least)}" y2="{scale.y(point.most)}"'
        parts.append(f'<line x1="{x}" x2="{x}" {bar} stroke="{colour}"/>')
        parts.append(f'<circle cx="{x}" cy="{scale.y(point.y)}" r="3.5" fill="{colour}"><title>{told}</title></circle>')
    at = WIDTH - RIGHT - 170 * (number + 1)
    parts.append(f'<line x1="{at}" x2="{at + 18}" y1="{TOP - 14}" y2="{TOP - 14}" stroke="{colour}" stroke-width="2"/>')
    return [*parts, f'<text x="{at + 24}" y="{TOP - 10}">{escape(name)}</text>']


def _round_up(value: float) -> float:
    power: float = 10.0 ** math.floor(math.log10(value))
    return next(power * step for step in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if power * step >= value)


def _short(value: float) -> str:
    for size, letter in ((1_000_000, "M"), (1_000, "k")):
        if value >= size and value % (size / 10) == 0:
            return f"{value / size:g} {letter}"
    return f"{value:,.0f}"
