"""The numbers of one process, counted from what its telemetry says."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from holdfast.flow.gates import decided_here
from holdfast.flow.permits import lenders_of
from holdfast.flow.record import name_of
from holdfast.runtime import families
from holdfast.runtime.families import Family
from holdfast.runtime.metrics import Watched, metered_of
from holdfast.workflows.record import workflow_of

if TYPE_CHECKING:
    from holdfast.kernel.host import Host

Labels = tuple[str, ...]
Observer = Callable[[Family, Labels, float], None]


class Distribution(Struct, frozen=True):
    """What a histogram has seen: how many values each bucket has (the last one has no limit), and their sum."""

    buckets: tuple[int, ...]
    sum: float


class Point(Struct, frozen=True):
    """One value of a metric, with its labels."""

    family: Family
    labels: Labels
    value: float | Distribution


class Meters:
    """Counts from when it was made (``meters_of``). Its points are numbers in memory: asking for them reads nothing."""

    def __init__(self, app: Watched) -> None:
        self._app = app
        self._counters: Counter[tuple[Family, Labels]] = Counter()
        self._buckets: dict[tuple[Family, Labels], list[int]] = {}
        self._sums: defaultdict[tuple[Family, Labels], float] = defaultdict(float)
        self._gauges: dict[Family, float] = {}
        self.observers: list[Observer] = []
        """Who is told of each value of a histogram."""
        for family in (families.TAKEOVERS, families.FENCED, families.RINGS_FAILED, families.BODY_BLOCKED):
            self._counters[family, ()] = 0

    # ── In ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    def told(self, event: str, fields: dict[str, Any]) -> None:
        """An event (``Telemetry.subscribe``)."""
        match event:
            case "claimed":
                self._counters[families.TAKEOVERS, ()] += int(fields["takeover"])
            case "fenced":
                self._counters[families.FENCED, ()] += 1
            case "ring_failed":
                self._counters[families.RINGS_FAILED, ()] += int(fields["count"])
            case "queue_admitted":
                self._counters[families.QUEUE_ADMITTED, (name_of(fields["partition"]),)] += fields["count"]
            case "queue_refused":
                self._counters[families.QUEUE_REFUSED, (name_of(fields["partition"]),)] += 1
            case "loop_stalled":
                self._counters[families.BODY_BLOCKED, ()] += 1
            case "swept":
                self._gauges[families.SWEPT] = self._app.clock.now_ms() / 1000
                self._gauges[families.DUE_HEADS] = fields["due"]
                self._gauges[families.DUE_OLDEST] = fields["oldest_seconds"]
                self._gauges[families.BLOCKED] = fields["blocked"]
            case _:
                pass

    def told_detail(self, detail: str, fields: dict[str, Any]) -> None:
        """A detail (``Telemetry.subscribe_to_details``)."""
        match detail:
            case "step_ended":
                step, outcome = fields["step"], fields["outcome"]
                self._observe(families.STEP_SECONDS, (step, outcome), fields["seconds"])
                if outcome == "retrying":
                    self._counters[families.STEP_RETRIES, (step,)] += 1
            case "committed":
                self._observe(families.COMMIT_SECONDS, (), fields["seconds"])
            case "begun":
                self._counters[families.STARTED, (workflow_of(fields["partition"]),)] += 1
            case "finished":
                workflow = workflow_of(fields["partition"])
                self._counters[families.ENDED, (workflow, fields["status"])] += 1
                self._observe(families.EXECUTION_SECONDS, (workflow,), fields["seconds"])
            case _:
                pass

    def _observe(self, family: Family, labels: Labels, value: float) -> None:
        buckets = self._buckets.get((family, labels))
        if buckets is None:
            buckets = self._buckets[family, labels] = [0] * (len(family.bounds) + 1)
        buckets[bisect_left(family.bounds, value)] += 1
        self._sums[family, labels] += value
        for observer in self.observers:
            observer(family, labels, value)

    # ── Out ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def points(self) -> Iterator[Point]:
        """Every value as it is now, those of a metric together."""
        found = [*self._recorded(), *self._looked_up()]
        for family in families.FAMILIES:
            yield from (point for point in found if point.family is family)

    def _recorded(self) -> Iterator[Point]:
        for (family, labels), value in list(self._counters.items()):
            yield Point(family, labels, value)
        for (family, labels), buckets in list(self._buckets.items()):
            yield Point(family, labels, Distribution(tuple(buckets), self._sums[family, labels]))
        for gauge, level in list(self._gauges.items()):
            yield Point(gauge, (), level)
        for event, count in sorted(self._app.telemetry.counts.items()):
            yield Point(families.EVENTS, (event,), count)

    def _looked_up(self) -> Iterator[Point]:
        runtime = self._app.runtime()
        used = metered_of(runtime.home, self._app.name).used()
        yield Point(families.WRITE_UNITS, (), used.write_units)
        yield Point(families.READ_UNITS, (), used.read_units)
        host: Host | None = runtime.host
        yield Point(families.RUNNING, (), 0 if host is None else host.running)
        yield Point(families.RESIDENT, (), 0 if host is None else len(host.entities))
        for limit, counted in lenders_of(runtime).counted().items():
            yield Point(families.LIMIT_USED, (limit,), counted.used)
            yield Point(families.LIMIT_WAITING, (limit,), counted.waiting)
            yield Point(families.LIMIT_BEGUN, (limit,), counted.begun)
            yield Point(families.LIMIT_LATE, (limit,), counted.late)
        if host is not None:
            for queue, stands in decided_here(runtime, host):
                yield Point(families.QUEUE_WAITING, (queue,), stands.waiting)
                yield Point(families.QUEUE_HELD, (queue,), stands.held)
                yield Point(families.QUEUE_OLDEST, (queue,), stands.oldest_ms / 1000)


def meters_of(app: Watched) -> Meters:
    """The meters of an app in this process. They begin to count when this is first called."""
    for subscriber in app.telemetry.subscribers:
        owner = getattr(subscriber, "__self__", None)
        if isinstance(owner, Meters):
            return owner
    meters = Meters(app)
    app.telemetry.subscribe(meters.told)
    app.telemetry.subscribe_to_details(meters.told_detail)
    return meters
