"""The page, the dashboard and the alarms name metrics that exist, and the page names all of them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from holdfast.runtime.families import FAMILIES, Family
from holdfast.telemetry import __doc__ as events

DOCS = Path(__file__).parents[2] / "docs"
NAME = re.compile(r"\bholdfast_[a-z_]+\b")
EVENT = re.compile(r'event=~?"([a-z_|]+)"')
LABEL = re.compile(r"\bby \(([a-z_, ]+)\)")


def expressions(text: str) -> list[str]:
    return re.findall(r"^\s+expr: (.+)$", text, flags=re.MULTILINE)


DASHBOARD = [
    target["expr"] for panel in json.loads((DOCS / "grafana.json").read_text())["panels"] for target in panel["targets"]
]
ALARMS = expressions((DOCS / "alarms.yml").read_text())


def samples(family: Family) -> set[str]:
    if family.kind != "histogram":
        return {family.name}
    return {f"{family.name}_{end}" for end in ("bucket", "sum", "count")}


KNOWN = {name: family for family in FAMILIES for name in samples(family)}


@pytest.mark.parametrize("expression", [*DASHBOARD, *ALARMS])
def test_an_expression_names_what_exists(expression: str) -> None:
    names = NAME.findall(expression)
    assert names
    for name in names:
        assert name in KNOWN, name
        assert (KNOWN[name].kind == "gauge") != ("rate(" in expression or "increase(" in expression)
    labels = {label.strip() for found in LABEL.findall(expression) for label in found.split(",")}
    assert labels <= {"le", *(label for name in names for label in KNOWN[name].labels)}
    for told in EVENT.findall(expression):
        assert all(f"``{event}``" in (events or "") for event in told.split("|"))
    assert expression.count("(") == expression.count(")")


def test_there_are_five_alarms() -> None:
    assert len(ALARMS) == 5


def test_the_page_lists_every_metric_and_no_other() -> None:
    page = (DOCS / "observability.md").read_text()
    listed = set(re.findall(r"^\| `(holdfast_[a-z_]+)` \|", page, flags=re.MULTILINE))
    assert listed == {family.name for family in FAMILIES}
    assert {family.name for family in FAMILIES if f"| {family.help} |" not in page} == set()
