"""What alarms and charts look at is what is written: an alarm without data would never ring."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.infra.fabrics import ALL, of_type
from tests.test_metrics import metrics_of

import holdfast as hf
from holdfast.backends.aws import names, open_aws_home
from holdfast.backends.memory import open_memory_home
from holdfast.infra import Fabric
from holdfast.metrics import UNITS
from holdfast.ports import Home
from holdfast.telemetry import LOGGED
from holdfast.watched import Metered, Used

GUIDE = Path(__file__).parents[2] / "docs" / "deploy.md"

Named = tuple[str, str, tuple[tuple[str, str], ...]]
"""A namespace, a name and dimensions: what CloudWatch knows a metric by."""

each_fabric = pytest.mark.parametrize("fabric", ALL.values(), ids=ALL)


@pytest.fixture
def line(capsys: pytest.CaptureFixture[str]) -> str:
    """What the function writes when it is called to sweep, on the home of the prefix ``shop``."""
    handler = hf.App("shop", home=_open_home).lambda_handler()
    handler(names.SWEEP_INPUT)
    handler.close()
    (line,) = capsys.readouterr().out.splitlines()
    return line


async def _open_home() -> Home:
    real = await open_aws_home("aws://shop?region=eu-west-1")
    assert real.metered is not None
    await real.store.close()
    return replace(open_memory_home(), metered=Metered(real.metered.namespace, Used))


def written(line: str, fabric: Fabric) -> set[Named]:
    """The metrics that lines and counters of the log make."""
    (directive,) = json.loads(line)["_aws"]["CloudWatchMetrics"]
    assert directive["Dimensions"] == [[]]
    assert directive["Namespace"] == "Holdfast/shop"
    of_lines = {(names.metrics(fabric.prefix), name, ()) for name in metrics_of(line)}
    counters = [each["MetricTransformations"][0] for each in of_type(fabric, "AWS::Logs::MetricFilter").values()]
    assert not [each for each in counters if "Dimensions" in each]
    return of_lines | {(each["MetricNamespace"], each["MetricName"], ()) for each in counters}


@each_fabric
def test_every_alarm_on_a_metric_of_ours_has_data(fabric: Fabric, line: str) -> None:
    alarms = of_type(fabric, "AWS::CloudWatch::Alarm")
    ours = {
        name: (each["Namespace"], each["MetricName"], tuple((one["Name"], one["Value"]) for one in each["Dimensions"]))
        for name, each in alarms.items()
        if not each["Namespace"].startswith("AWS/")
    }
    assert not {name for name, metric in ours.items() if metric not in written(line, fabric)}
    assert {"LateAlarm", "BlockedAlarm"} <= ours.keys() or fabric.function is None
    assert "BlockedFilter" not in of_type(fabric, "AWS::Logs::MetricFilter"), "it would be counted twice"


@each_fabric
def test_every_chart_of_metrics_of_ours_has_data(fabric: Fabric, line: str) -> None:
    (dashboard,) = of_type(fabric, "AWS::CloudWatch::Dashboard").values()
    pieces: list[Any] = dashboard["DashboardBody"]["Fn::Join"][1]
    body = json.loads("".join(each if isinstance(each, str) else "region" for each in pieces))
    shown = [metric for widget in body["widgets"] for metric in widget["properties"]["metrics"]]
    ours = {(metric[0], metric[1], tuple(metric[2:-1])) for metric in shown if not metric[0].startswith("AWS/")}
    assert ours
    assert ours <= written(line, fabric)


def test_the_questions_of_the_guide_are_about_what_is_written(line: str) -> None:
    """The fields of lines of metrics, and the events of telemetry that are logged."""
    (questions,) = re.findall(r"\*\*Questions for the log\*\*.*?```text\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    of_metrics = [each for each in questions.split("\n\n") if 'holdfast = "metrics"' in each]
    assert json.loads(line)["holdfast"] == "metrics"
    fields = {name for each in of_metrics for name in re.findall(r"\((\w+)\)", each)} - {"5m", "1d", "1h"}
    assert fields == UNITS.keys(), "each of them is in a question, and no others are"
    assert fields == metrics_of(line).keys()
    events = set(re.findall(r'like "([a-z]+_[a-z_]+)"', questions))
    assert events
    assert events <= LOGGED.keys()
