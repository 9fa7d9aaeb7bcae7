"""Monitoring: alarms for what needs a person, and a dashboard."""

from __future__ import annotations

import json
from typing import Any, Final

from msgspec import Struct

from holdfast import metrics
from holdfast.backends.aws import names
from holdfast.backends.aws.routes import MAIN
from holdfast.infra.function_options import Existing, Function, function_id
from holdfast.infra.intrinsics import REGION, Properties, Resources, joined, ref, resource
from holdfast.infra.options import Fabric
from holdfast.infra.queues import logical_id, which
from holdfast.infra.storage import indexes

LATE_SECONDS: Final = 120
"""The sweep runs every 60: work that is due for twice as long is not being handled."""

OLD_RING_SECONDS: Final = 1800
"""A wake-up may wait for fifteen minutes because it was sent with a delay."""

LARGE_ITEM_BYTES: Final = 380 * 1024
"""Of 400 KB (https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html)."""

GIGABYTE: Final = 10**9

OLD_MESSAGE_SECONDS: Final = 300
OLD_RECORD_MS: Final = 600_000


class Metric(Struct, frozen=True):
    """A metric of CloudWatch: namespace, name and dimensions."""

    namespace: str
    name: str
    of: dict[str, Any]
    statistic: str = "Sum"


class Alarm(Struct, frozen=True):
    """Goes off when a metric is at or above ``from_value`` in each period of ``minutes``.

    ``below``: when it is less than that instead, or missing.
    """

    about: str
    metric: Metric
    from_value: float = 1
    minutes: int = 1
    period_minutes: int = 1
    below: bool = False


class Counted(Struct, frozen=True):
    """An event of telemetry that is counted in the log of the function, and its meaning for a person."""

    event: str
    about: str
    minutes: int = 1
    period_minutes: int = 1


COUNTED: Final = {
    "Parked": Counted("parked", "A message has failed for good and was parked: holdfast dlq ls"),
    "Halted": Counted("halted", "An actor has halted at a message that fails for good: holdfast dlq ls"),
    "EventsUnfit": Counted("event_unfit", "The bus will never accept an event: see holdfast outbox ls APP"),
    # It is tried less and less often, at last every five minutes.
    "BusFailed": Counted(
        "bus_failed", "The bus refuses events again and again; see the log", minutes=20, period_minutes=10
    ),
    "TurnsFailed": Counted("turn_failed", "Turns fail again and again; see the log", minutes=3),
}
"""The metrics that are counted in the log, by their names."""

ADDED: Final = (metrics.TAKEN_OVER, metrics.FENCED, metrics.RINGS_FAILED)
"""The metrics of workers and functions in the log, for the dashboard."""


def alarms(fabric: Fabric) -> Resources:
    """One alarm for each condition that does not repair itself, or should have."""
    return {f"{name}Alarm": _alarm(fabric, alarm) for name, alarm in _alarms(fabric).items()}


def _alarms(fabric: Fabric) -> dict[str, Alarm]:
    found = {
        f"{name}Throttled": Alarm("The table turned requests away: a key, or an index, is too hot", metric, minutes=3)
        for name, metric in _throttles(fabric).items()
    }
    for queue in which(fabric):
        id = logical_id(queue)
        old = OLD_MESSAGE_SECONDS if queue == names.ORDERED else OLD_RING_SECONDS
        dead = _queue(fabric, queue, "ApproximateNumberOfMessagesVisible", dead=True)
        age = _queue(fabric, queue, "ApproximateAgeOfOldestMessage")
        found[f"{id}Dead"] = Alarm(f"The {queue} queue has dead letters: inspect them, then redrive", dead)
        found[f"{id}Old"] = Alarm(f"The {queue} queue is not being emptied", age, from_value=old, minutes=3)
    if fabric.function is None:
        return found
    if fabric.stream:
        found["StreamOld"] = Alarm(
            "The stream of the table is not being read",
            _function(fabric, "IteratorAge", "Maximum"),
            from_value=OLD_RECORD_MS,
            minutes=3,
        )
    for name, metric in counted(fabric).items():
        of = COUNTED[name]
        found[name] = Alarm(of.about, metric, minutes=of.minutes, period_minutes=of.period_minutes)
    return (
        found
        | _growth(fabric)
        | _invocations(fabric)
        | {
            "Late": Alarm(
                "Work is due and is not being done",
                own_metric(fabric, metrics.OLDEST_DUE_SECONDS),
                from_value=LATE_SECONDS,
                minutes=3,
            ),
            "Blocked": Alarm(
                "Executions wait for code that fits, or are parked: holdfast ls --status BLOCKED",
                own_metric(fabric, metrics.BLOCKED),
            ),
            "Silent": Alarm(
                "The function was not called for five minutes, not even to sweep",
                _function(fabric, "Invocations"),
                minutes=5,
                below=True,
            ),
        }
    )


def _growth(fabric: Fabric) -> dict[str, Alarm]:
    return {
        "ItemLarge": Alarm(
            "An item is almost as large as DynamoDB takes: see docs/large-state.md",
            own_metric(fabric, metrics.LARGEST_ITEM),
            from_value=LARGE_ITEM_BYTES,
        ),
        "TableLarge": Alarm(
            f"The table has more than {fabric.alarm_table_gb:,} GB: is what has ended cleaned up?",
            own_metric(fabric, metrics.TABLE_BYTES),
            from_value=fabric.alarm_table_gb * GIGABYTE,
        ),
    }


def _invocations(fabric: Fabric) -> dict[str, Alarm]:
    found: dict[str, Alarm] = {}
    for name in fabric.made or (MAIN,):
        id = function_id(name)
        found[f"{id}Errors"] = Alarm("Invocations fail", _function(fabric, "Errors", function=name))
        throttles = _function(fabric, "Throttles", function=name)
        found[f"{id}Throttled"] = Alarm("Lambda turned invocations away", throttles, minutes=3)
    return found


def own_metric(fabric: Fabric, name: str) -> Metric:
    """A state that sweeps report, in the log of any function."""
    return Metric(names.metrics(fabric.prefix), name, {}, "Maximum")


def _added(fabric: Fabric, name: str) -> Metric:
    """Counted events, summed over all lines."""
    return Metric(names.metrics(fabric.prefix), name, {})


def counted(fabric: Fabric) -> dict[str, Metric]:
    """The metrics that are counted in the log; none of a function whose log is not ours."""
    if not isinstance(fabric.function, Function):
        return {}
    return {name: Metric(names.metrics(fabric.prefix), name, {}) for name in COUNTED}


def filters(fabric: Fabric) -> Resources:
    """The filters that count them, in the lines of ``holdfast.telemetry``."""
    return {
        f"{name}Filter": resource(
            "AWS::Logs::MetricFilter",
            {
                "LogGroupName": ref("FunctionLog"),
                "FilterPattern": f'"{COUNTED[name].event} partition="',
                "MetricTransformations": [
                    {"MetricNamespace": metric.namespace, "MetricName": metric.name, "MetricValue": "1"}
                ],
            },
        )
        for name, metric in counted(fabric).items()
    }


def _queue(fabric: Fabric, queue: str, name: str, *, dead: bool = False) -> Metric:
    return Metric("AWS/SQS", name, {"QueueName": names.queue(fabric.prefix, queue, dead=dead)}, "Maximum")


def _function(fabric: Fabric, name: str, statistic: str = "Sum", *, function: str = MAIN) -> Metric:
    called = fabric.function.name if isinstance(fabric.function, Existing) else names.function(fabric.prefix, function)
    return Metric("AWS/Lambda", name, {"FunctionName": called}, statistic)


def _table(fabric: Fabric, name: str, *, index: str | None = None) -> Metric:
    of = {"TableName": names.base(fabric.prefix)}
    return Metric("AWS/DynamoDB", name, of if index is None else of | {"GlobalSecondaryIndexName": index})


def _throttles(fabric: Fabric) -> dict[str, Metric]:
    """Of the table and of each index: an index that turns a write away turns the table's write away too."""
    of_indexes = {
        f"Index{index.title()}": _table(fabric, "WriteThrottleEvents", index=index) for index in indexes(fabric)
    }
    return {
        "TableReads": _table(fabric, "ReadThrottleEvents"),
        "TableWrites": _table(fabric, "WriteThrottleEvents"),
        **of_indexes,
    }


def _alarm(fabric: Fabric, alarm: Alarm) -> dict[str, Any]:
    properties: Properties = {
        "AlarmDescription": f"{names.base(fabric.prefix)}: {alarm.about}",
        "ComparisonOperator": "LessThanThreshold" if alarm.below else "GreaterThanOrEqualToThreshold",
        "Threshold": alarm.from_value,
        "EvaluationPeriods": alarm.minutes // alarm.period_minutes,
        "TreatMissingData": "breaching" if alarm.below else "notBreaching",
        "AlarmActions": [fabric.alarm_topic_arn] if fabric.alarm_topic_arn else None,
        "OKActions": [fabric.alarm_topic_arn] if fabric.alarm_topic_arn else None,
    }
    measured = _source(alarm.metric) | {"Statistic": alarm.metric.statistic, "Period": 60 * alarm.period_minutes}
    return resource("AWS::CloudWatch::Alarm", properties | measured)


def _source(metric: Metric) -> Properties:
    dimensions = [{"Name": name, "Value": value} for name, value in metric.of.items()]
    return {"Namespace": metric.namespace, "MetricName": metric.name, "Dimensions": dimensions}


# ── The dashboard ───────────────────────────────────────────────────────────────────────────────────────────────────

COLUMNS: Final = 2
WIDTH: Final = 12
HEIGHT: Final = 6

HERE: Final = "(this region)"
"""Replaces the region until CloudFormation knows it."""


def dashboard(fabric: Fabric) -> Resources:
    """One page: delays, failures, activity and cost."""
    charts: list[tuple[str, tuple[Metric, ...]]] = [
        ("How late (seconds)", (own_metric(fabric, metrics.OLDEST_DUE_SECONDS), *_ages(fabric))),
        (
            "What a person must look at",
            (own_metric(fabric, metrics.BLOCKED), *counted(fabric).values(), *_dead(fabric)),
        ),
        (
            "Messages waiting",
            tuple(_queue(fabric, name, "ApproximateNumberOfMessagesVisible") for name in which(fabric)),
        ),
        (
            "Units of the table",
            (_table(fabric, "ConsumedWriteCapacityUnits"), _table(fabric, "ConsumedReadCapacityUnits")),
        ),
        ("Of the workers", tuple(_added(fabric, name) for name in ADDED)),
        (
            "Turned away by the table",
            (
                *_throttles(fabric).values(),
                _table(fabric, "TransactionConflict"),
                _table(fabric, "ConditionalCheckFailedRequests"),
            ),
        ),
    ]
    if fabric.function is not None:
        charts += [
            ("Invocations", _of_functions(fabric, *((each, "Sum") for each in ("Invocations", "Errors", "Throttles")))),
            ("Duration (ms)", _of_functions(fabric, *(("Duration", each) for each in ("p50", "p99", "Maximum")))),
            ("Invocations at once", _of_functions(fabric, ("ConcurrentExecutions", "Maximum"))),
        ]
    widgets = [_widget(number, title, metrics) for number, (title, metrics) in enumerate(charts)]
    first, *others = json.dumps({"widgets": widgets}).split(HERE)
    body = joined(first, *(part for other in others for part in (REGION, other)))
    properties = {"DashboardName": names.base(fabric.prefix), "DashboardBody": body}
    return {"Dashboard": resource("AWS::CloudWatch::Dashboard", properties)}


def _of_functions(fabric: Fabric, *wanted: tuple[str, str]) -> tuple[Metric, ...]:
    """The same metrics, with their statistics, of each function."""
    return tuple(
        _function(fabric, metric, statistic, function=name)
        for name in fabric.made or (MAIN,)
        for metric, statistic in wanted
    )


def _ages(fabric: Fabric) -> tuple[Metric, ...]:
    return tuple(_queue(fabric, name, "ApproximateAgeOfOldestMessage") for name in which(fabric))


def _dead(fabric: Fabric) -> tuple[Metric, ...]:
    return tuple(_queue(fabric, name, "ApproximateNumberOfMessagesVisible", dead=True) for name in which(fabric))


def _widget(number: int, title: str, metrics: tuple[Metric, ...]) -> Properties:
    lines = [
        [
            metric.namespace,
            metric.name,
            *(part for pair in metric.of.items() for part in pair),
            {"stat": metric.statistic},
        ]
        for metric in metrics
    ]
    row, column = divmod(number, COLUMNS)
    place = {"x": WIDTH * column, "y": HEIGHT * row, "width": WIDTH, "height": HEIGHT}
    properties = {"title": title, "metrics": lines, "region": HERE, "period": 60, "view": "timeSeries"}
    return {"type": "metric", **place, "properties": properties}
