"""Metrics, as lines of a log: how late the work is, what is blocked, what it costs.

Each line is in CloudWatch's embedded metric format ("Specification: Embedded metric format", CloudWatch user guide): a
JSON object on standard output, from which CloudWatch Logs makes metrics, and which can be found by its fields. The
metrics have no dimensions, so there is one of each for a home, and a line has no data of the home.

| metric | of | means |
|---|---|---|
| ``OldestDueSeconds`` | a sweep | how late the head is that has been due for longest; 0 if nothing is due |
| ``DueHeads`` | a sweep | how many heads were due, at the time of the sweep |
| ``Blocked`` | a sweep | how many heads wait for code that fits, or are parked until they are resumed |
| ``TakenOver`` | since the last line | leases of dead processes that this process took over |
| ``Fenced`` | since the last line | entities that this process lost to a newer owner |
| ``RingsFailed`` | since the last line | wake-ups that could not be sent |
| ``LargestItemBytes`` | this process | the largest item that it has written, to the kilobyte; DynamoDB takes 400 KB |
| ``TableBytes`` | the home | the size of the table without its indexes, at most some hours ago; 0 until it is known |
| ``WriteUnits``, ``ReadUnits`` | since the last line | the units of the store that this process used, where they are
billed |

Values since the last line add up. All others are a state: of several lines the largest counts.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any, Final

from holdfast.clock import Clock
from holdfast.watched import Metered, Used

OLDEST_DUE_SECONDS: Final = "OldestDueSeconds"
DUE_HEADS: Final = "DueHeads"
BLOCKED: Final = "Blocked"
TAKEN_OVER: Final = "TakenOver"
FENCED: Final = "Fenced"
RINGS_FAILED: Final = "RingsFailed"
WRITE_UNITS: Final = "WriteUnits"
READ_UNITS: Final = "ReadUnits"
LARGEST_ITEM: Final = "LargestItemBytes"
TABLE_BYTES: Final = "TableBytes"

UNITS: Final = {
    OLDEST_DUE_SECONDS: "Seconds",
    DUE_HEADS: "Count",
    BLOCKED: "Count",
    TAKEN_OVER: "Count",
    FENCED: "Count",
    RINGS_FAILED: "Count",
    WRITE_UNITS: "Count",
    READ_UNITS: "Count",
    LARGEST_ITEM: "Bytes",
    TABLE_BYTES: "Bytes",
}
"""Every metric, and CloudWatch's name of its unit."""

STATES: Final = (OLDEST_DUE_SECONDS, DUE_HEADS, BLOCKED)
"""The metrics of a sweep."""

PAUSE_MS: Final = 60_000
"""Without a sweep a line is written no more often than this, unless it has rare values."""

Write = Callable[[str], object]


def to_standard_output(line: str) -> None:
    """Lambda's source of logs. One call, so that lines of several threads do not mix."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def line_of(namespace: str, at_ms: int, values: dict[str, float]) -> str:
    """The line with these values.

    >>> json.loads(line_of("Holdfast/shop", 1767225600000, {"Blocked": 2}))["Blocked"]
    2
    """
    metrics = [{"Name": name, "Unit": UNITS[name]} for name in values]
    directive: dict[str, Any] = {"Namespace": namespace, "Dimensions": [[]], "Metrics": metrics}
    told: dict[str, Any] = {"_aws": {"Timestamp": at_ms, "CloudWatchMetrics": [directive]}, "holdfast": "metrics"}
    return json.dumps(told | values, separators=(",", ":"))


class MetricLines:
    """A subscriber of telemetry that counts events, and writes a line at each complete sweep.

    ``metered`` returns the home's usage so far, as soon as it is open, and the namespace of its metrics.
    """

    def __init__(self, metered: Callable[[], Metered], clock: Clock, write: Write = to_standard_output) -> None:
        self._metered = metered
        self._clock = clock
        self._write = write
        self._counts = {TAKEN_OVER: 0, FENCED: 0, RINGS_FAILED: 0}
        self._told = Used()
        self._told_at_ms = clock.now_ms()

    def __call__(self, event: str, fields: dict[str, Any]) -> None:
        """See ``Telemetry.subscribe``."""
        match event:
            case "claimed":
                self._counts[TAKEN_OVER] += bool(fields["takeover"])
            case "fenced":
                self._counts[FENCED] += 1
            case "ring_failed":
                self._counts[RINGS_FAILED] += int(fields["count"])
            case "swept":
                self._tell(dict(zip(STATES, (fields["oldest_seconds"], fields["due"], fields["blocked"]), strict=True)))
            case _:
                pass

    def flush(self) -> None:
        """This process may be frozen now, or gone: write what was not written yet, if it is rare or old."""
        if any(self._counts.values()) or self._clock.now_ms() - self._told_at_ms >= PAUSE_MS:
            self._tell({})

    def _tell(self, states: dict[str, float]) -> None:
        metered, now = self._metered(), self._clock.now_ms()
        used = metered.used()
        units = {
            WRITE_UNITS: used.write_units - self._told.write_units,
            READ_UNITS: used.read_units - self._told.read_units,
        }
        sizes = {LARGEST_ITEM: used.largest_item_bytes, TABLE_BYTES: used.table_bytes}
        self._write(line_of(metered.namespace, now, states | self._counts | units | sizes))
        self._told, self._told_at_ms = used, now
        self._counts = dict.fromkeys(self._counts, 0)
