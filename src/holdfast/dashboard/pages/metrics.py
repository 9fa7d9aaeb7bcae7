"""The metrics of the process that serves the page."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

from msgspec import Struct

from holdfast.dashboard.rendering import exact, render, took
from holdfast.runtime.meters import Distribution, Point, meters_of

if TYPE_CHECKING:
    from starlette.responses import Response

    from holdfast.dashboard.visit import Visit


class Table(Struct, frozen=True, kw_only=True):
    """One metric: what it means, the names of its labels, and a row for each value."""

    name: str
    help: str
    labels: tuple[str, ...]
    rows: list[tuple[tuple[str, ...], str]]


async def metrics(visit: Visit) -> Response:
    """What this process has counted and measured: numbers in memory, nothing is read."""
    visit.query()
    return render(visit, "metrics.html", tables=tables_of(meters_of(visit.app).points()))


def tables_of(points: Iterable[Point]) -> list[Table]:
    """A table for each metric that has values, in the order of the metrics."""
    return [
        Table(name=family.name, help=family.help, labels=family.labels, rows=[_row(each) for each in grouped])
        for family, grouped in groupby(points, key=attrgetter("family"))
    ]


def _row(point: Point) -> tuple[tuple[str, ...], str]:
    value = point.value
    if not isinstance(value, Distribution):
        return point.labels, told_number(value, point.family.name)
    count = sum(value.buckets)
    return point.labels, f"{count:,}, {took(value.sum / count * 1_000)} on average" if count else "0"


def told_number(value: float, name: str) -> str:
    """A value of a metric for people; times are told as such.

    >>> told_number(12345.0, "holdfast_events_total"), told_number(90, "holdfast_due_oldest_seconds")
    ('12,345', '1 min 30 s')
    """
    if name.endswith("_timestamp_seconds"):
        return exact(round(value * 1_000))
    return took(value * 1_000) if name.endswith("_seconds") else f"{value:,.10g}"
