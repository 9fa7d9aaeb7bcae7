"""The metrics of a process: their names, their labels, and what they mean.

By Prometheus' conventions ("Metric and label naming", https://prometheus.io/docs/practices/naming/): seconds are the
unit, and the name of what only grows ends with ``_total``. No label has an id: the values of each are few.
"""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

Kind = Literal["counter", "gauge", "histogram"]


class Family(Struct, frozen=True):
    """A metric. ``bounds`` are the upper limits of a histogram's buckets, without infinity."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()


SHORT: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)
STEP: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
LONG: Final = (0.05, 0.25, 1.0, 5.0, 15.0, 60.0, 300.0, 1_800.0, 3_600.0, 21_600.0, 86_400.0, 604_800.0)

STARTED: Final = Family(
    "holdfast_executions_started_total",
    "counter",
    "Executions whose body began here for the first time.",
    ("workflow",),
)
ENDED: Final = Family("holdfast_executions_ended_total", "counter", "Executions that ended.", ("workflow", "status"))
EXECUTION_SECONDS: Final = Family(
    "holdfast_execution_seconds", "histogram", "From the start of an execution to its end.", ("workflow",), LONG
)
STEP_SECONDS: Final = Family(
    "holdfast_step_seconds", "histogram", "How long an attempt of a step took.", ("step", "outcome"), STEP
)
STEP_RETRIES: Final = Family(
    "holdfast_step_retries_total", "counter", "Attempts of a step that failed, and are followed by another.", ("step",)
)
COMMIT_SECONDS: Final = Family("holdfast_commit_seconds", "histogram", "How long a turn waited for a write.", (), SHORT)
TAKEOVERS: Final = Family("holdfast_takeovers_total", "counter", "Leases of dead processes that were taken over.")
FENCED: Final = Family("holdfast_fenced_total", "counter", "Entities that were lost to a newer owner.")
RINGS_FAILED: Final = Family("holdfast_rings_failed_total", "counter", "Wake-ups that could not be sent.")
BODY_BLOCKED: Final = Family(
    "holdfast_body_blocked_total", "counter", "How often a workflow body held the event loop for too long."
)
EVENTS: Final = Family("holdfast_events_total", "counter", "The events of telemetry, by name.", ("event",))
WRITE_UNITS: Final = Family("holdfast_write_units_total", "counter", "Units written, where the home is billed.")
READ_UNITS: Final = Family("holdfast_read_units_total", "counter", "Units read, where the home is billed.")
RUNNING: Final = Family("holdfast_running", "gauge", "Entities that are worked on in this process.")
RESIDENT: Final = Family("holdfast_resident", "gauge", "Entities in the memory of this process.")
SWEPT: Final = Family(
    "holdfast_swept_timestamp_seconds", "gauge", "When this process last reported a sweep, in Unix time."
)
DUE_HEADS: Final = Family("holdfast_due_heads", "gauge", "Heads that were due at the last reported sweep.")
DUE_OLDEST: Final = Family(
    "holdfast_due_oldest_seconds", "gauge", "For how long the head had been due that was due for longest."
)
BLOCKED: Final = Family("holdfast_blocked", "gauge", "Heads that wait for code that fits, or are parked.")
QUEUE_WAITING: Final = Family(
    "holdfast_queue_waiting", "gauge", "Executions that wait in a queue, told by the process that decides.", ("queue",)
)
QUEUE_HELD: Final = Family(
    "holdfast_queue_held",
    "gauge",
    "Executions that have a slot, told by the process that decides.",
    ("queue",),
)
QUEUE_OLDEST: Final = Family(
    "holdfast_queue_oldest_seconds",
    "gauge",
    "For how long the first has waited; 0 if none waits.",
    ("queue",),
)
QUEUE_ADMITTED: Final = Family(
    "holdfast_queue_admitted_total", "counter", "Executions that this process let begin.", ("queue",)
)
QUEUE_REFUSED: Final = Family(
    "holdfast_queue_refused_total", "counter", "Starts that were refused here because too many wait.", ("queue",)
)
LIMIT_USED: Final = Family("holdfast_limit_used", "gauge", "Calls of a limit that run in this process.", ("limit",))
LIMIT_WAITING: Final = Family(
    "holdfast_limit_waiting", "gauge", "Calls that wait for permits of a limit in this process.", ("limit",)
)
LIMIT_BEGUN: Final = Family(
    "holdfast_limit_begun_total", "counter", "Calls that began by a permit of a limit in this process.", ("limit",)
)
LIMIT_LATE: Final = Family(
    "holdfast_limit_late_total",
    "counter",
    "Tokens of a limit that this process did not use in time.",
    ("limit",),
)

FAMILIES: Final = (
    STARTED,
    ENDED,
    EXECUTION_SECONDS,
    STEP_SECONDS,
    STEP_RETRIES,
    COMMIT_SECONDS,
    TAKEOVERS,
    FENCED,
    RINGS_FAILED,
    BODY_BLOCKED,
    EVENTS,
    WRITE_UNITS,
    READ_UNITS,
    RUNNING,
    RESIDENT,
    SWEPT,
    DUE_HEADS,
    DUE_OLDEST,
    BLOCKED,
    QUEUE_WAITING,
    QUEUE_HELD,
    QUEUE_OLDEST,
    QUEUE_ADMITTED,
    QUEUE_REFUSED,
    LIMIT_USED,
    LIMIT_WAITING,
    LIMIT_BEGUN,
    LIMIT_LATE,
)
"""Every metric, in the order in which they are told."""
