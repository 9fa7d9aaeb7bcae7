"""The metrics of a process as instruments of OpenTelemetry: the numbers that Prometheus is given (``runtime.meters``).

Names are without the unit and ``_total``, which exporters to Prometheus add again ("Prometheus and OpenMetrics
compatibility", https://opentelemetry.io/docs/specs/otel/compatibility/prometheus_and_openmetrics/).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from opentelemetry.metrics import CallbackOptions, Histogram, Meter, Observation

from holdfast.errors import ConfigurationError
from holdfast.runtime.families import FAMILIES, Family
from holdfast.runtime.meters import Distribution, Labels, Meters

if TYPE_CHECKING:
    from collections.abc import Callable

SECONDS: Final = "_seconds"


def register(meters: Meters, meter: Meter) -> None:
    """One instrument for each metric. Those that are observed have no value while the app is closed."""
    histograms: dict[Family, Histogram] = {}
    for family in FAMILIES:
        name, unit = _named(family)
        match family.kind:
            case "counter":
                meter.create_observable_counter(name, [_observing(meters, family)], unit, family.help)
            case "gauge":
                meter.create_observable_gauge(name, [_observing(meters, family)], unit, family.help)
            case "histogram":
                histograms[family] = meter.create_histogram(
                    name, unit, family.help, explicit_bucket_boundaries_advisory=list(family.bounds)
                )

    def observe(family: Family, labels: Labels, value: float) -> None:
        histograms[family].record(value, _attributes(family, labels))

    meters.observers.append(observe)


def _named(family: Family) -> tuple[str, str]:
    name = family.name.removesuffix("_total")
    return (name.removesuffix(SECONDS), "s") if name.endswith(SECONDS) else (name, "")


def _observing(meters: Meters, family: Family) -> Callable[[CallbackOptions], Iterable[Observation]]:
    def observed(_options: CallbackOptions) -> Iterable[Observation]:
        try:
            points = list(meters.points())
        except ConfigurationError:  # the app is not open
            return
        for point in points:
            if point.family is family and not isinstance(point.value, Distribution):
                yield Observation(point.value, _attributes(family, point.labels))

    return observed


def _attributes(family: Family, labels: Labels) -> dict[str, str]:
    return dict(zip(family.labels, labels, strict=True))
