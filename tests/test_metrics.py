"""Lines of metrics: what the format demands, what is counted since when, and what never gets into them."""

from __future__ import annotations

import json
from typing import Any

from holdfast.metrics import STATES, UNITS, MetricLines, line_of, to_standard_output
from holdfast.watched import Metered, Used

SIZES = {"LargestItemBytes": 0, "TableBytes": 0}
CLOUDWATCH_UNITS = {"Bytes", "Seconds", "Count"}


class Clock:
    def __init__(self) -> None:
        self.ms = 1_767_225_600_000

    def now_ms(self) -> int:
        return self.ms


class Watching:
    """Lines of a home whose use grows by three units written and half a unit read with each look."""

    def __init__(self) -> None:
        self.clock, self.written, self.looks = Clock(), list[str](), 0
        self.lines = MetricLines(lambda: Metered("Holdfast/shop", self.used), self.clock, self.written.append)

    def used(self) -> Used:
        self.looks += 1
        return Used(3.0 * self.looks, 0.5 * self.looks)

    def swept(self, due: int = 0, oldest_seconds: float = 0.0, blocked: int = 0) -> None:
        self.lines("swept", {"due": due, "oldest_seconds": oldest_seconds, "blocked": blocked})

    def told(self) -> list[dict[str, float]]:
        """The values of each line, read as CloudWatch does."""
        return [metrics_of(line) for line in self.written]


def metrics_of(line: str) -> dict[str, float]:
    """What CloudWatch makes of a line ("Specification: Embedded metric format", user guide), strictly."""
    root: dict[str, Any] = json.loads(line)
    assert "\n" not in line and isinstance(root["_aws"]["Timestamp"], int)
    (directive,) = root["_aws"]["CloudWatchMetrics"]
    assert directive.keys() == {"Namespace", "Dimensions", "Metrics"}
    assert 1 <= len(directive["Namespace"]) <= 255
    assert directive["Dimensions"] == [[]], "one metric for the whole home; a set may be empty, the list may not"
    names = [each["Name"] for each in directive["Metrics"]]
    assert len(set(names)) == len(names) <= 100
    for each in directive["Metrics"]:
        assert each.keys() == {"Name", "Unit"} and each["Unit"] in CLOUDWATCH_UNITS
    values = {name: root[name] for name in names}
    assert all(isinstance(value, int | float) and not isinstance(value, bool) for value in values.values())
    assert root.keys() - values.keys() == {"_aws", "holdfast"}, "nothing else of the home is in a line"
    return values


def test_a_sweep_is_a_line_with_every_metric() -> None:
    watching = Watching()
    watching.swept(due=4, oldest_seconds=7.25, blocked=2)
    (told,) = watching.told()
    assert told.keys() == UNITS.keys()
    assert (told["DueHeads"], told["OldestDueSeconds"], told["Blocked"]) == (4, 7.25, 2)
    assert json.loads(watching.written[0])["_aws"]["Timestamp"] == watching.clock.ms


def test_what_happened_is_counted_since_the_last_line() -> None:
    watching = Watching()
    watching.lines("claimed", {"partition": "wf#a#1", "takeover": False})
    watching.lines("claimed", {"partition": "wf#a#1", "takeover": True})
    watching.lines("fenced", {"partition": "wf#secret#1"})
    watching.lines("ring_failed", {"count": 7, "error": "no queue"})
    watching.lines("ended", {"partition": "wf#a#1", "status": "COMPLETED"})
    watching.swept()
    watching.lines("fenced", {"partition": "wf#a#1"})
    watching.lines("fenced", {"partition": "wf#a#1"})
    watching.swept()
    counted = [(each["TakenOver"], each["Fenced"], each["RingsFailed"]) for each in watching.told()]
    assert counted == [(1, 1, 7), (0, 2, 0)]
    assert [(each["WriteUnits"], each["ReadUnits"]) for each in watching.told()] == [(3.0, 0.5), (3.0, 0.5)]
    assert "secret" not in "".join(watching.written) and "queue" not in "".join(watching.written)


def test_whoever_may_be_frozen_tells_what_is_rare_at_once_and_the_rest_once_a_minute() -> None:
    watching = Watching()
    watching.lines.flush()
    assert watching.told() == []
    watching.lines("ring_failed", {"count": 1, "error": "x"})
    watching.lines.flush()
    watching.lines.flush()
    (told,) = watching.told()
    assert told["RingsFailed"] == 1
    assert not told.keys() & set(STATES), "only a sweep knows those"
    watching.clock.ms += 59_999
    watching.lines.flush()
    assert len(watching.written) == 1
    watching.clock.ms += 1
    watching.lines.flush()
    assert (
        watching.told()[1]
        == {"TakenOver": 0, "Fenced": 0, "RingsFailed": 0, "WriteUnits": 3.0, "ReadUnits": 0.5} | SIZES
    )


def test_a_line_goes_to_standard_output_in_one_piece(capsys: Any) -> None:
    to_standard_output(line_of("Holdfast/shop", 1, {"Blocked": 2}))
    written = capsys.readouterr().out
    assert written.endswith("}\n")
    assert metrics_of(written.rstrip("\n")) == {"Blocked": 2}
