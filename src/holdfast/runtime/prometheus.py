"""The text format of Prometheus ("Exposition formats", version 0.0.4,
https://prometheus.io/docs/instrumenting/exposition_formats/).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Final

from holdfast.runtime.families import FAMILIES, Family
from holdfast.runtime.meters import Distribution, Labels, Point, meters_of
from holdfast.runtime.metrics import Watched

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


def prometheus(app: Watched) -> str:
    """The metrics of this process, as Prometheus reads them.

    They count from the first call, which a worker or a server makes before it begins: from then on steps, commits and
    ends are measured. The numbers are in memory, so nothing is read. No label has an id. The app is open.

        app.prometheus()  # "# HELP holdfast_executions_started_total ..."
    """
    return text_of(meters_of(app).points())


def text_of(points: Iterable[Point]) -> str:
    """The points as text. Those of a metric follow each other."""
    by_family: dict[Family, list[Point]] = {family: [] for family in FAMILIES}
    for point in points:
        by_family[point.family].append(point)
    return "".join(f"{line}\n" for family, found in by_family.items() for line in _family(family, found))


def _family(family: Family, points: list[Point]) -> Iterator[str]:
    yield f"# HELP {family.name} {_help(family.help)}"
    yield f"# TYPE {family.name} {family.kind}"
    for point in points:
        match point.value:
            case Distribution(buckets, total):
                yield from _histogram(family, point.labels, buckets, total)
            case value:
                yield f"{family.name}{_labels(family.labels, point.labels)} {_number(value)}"


def _histogram(family: Family, labels: Labels, buckets: tuple[int, ...], total: float) -> Iterator[str]:
    limits = (*(_number(bound) for bound in family.bounds), "+Inf")
    counts = list(accumulate(buckets))
    for limit, count in zip(limits, counts, strict=True):
        yield f"{family.name}_bucket{_labels((*family.labels, 'le'), (*labels, limit))} {count}"
    told = _labels(family.labels, labels)
    yield f"{family.name}_sum{told} {_number(total)}"
    yield f"{family.name}_count{told} {counts[-1]}"


def _labels(names: tuple[str, ...], values: Labels) -> str:
    if not names:
        return ""
    told = (f'{name}="{_value(value)}"' for name, value in zip(names, values, strict=True))
    return f"{{{','.join(told)}}}"


def _value(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _help(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(float(value))
